"""How the configuration of a stream becomes settings of its log."""

import pytest

from tidelog.base.errors import ConfigError
from tidelog.log.header import PACKED, read_header
from tidelog.log.policy import BALANCED, DURABLE, STRICT, THROUGHPUT, SyncPolicy
from tidelog.stream.storage import log_settings, policy_of, read_policy
from tidelog.stream.stream_config import StreamConfig
from unit.stream.shore import Shore, contents

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("strict", STRICT),
        ("durable", DURABLE),
        ("balanced", BALANCED),
        ("throughput", THROUGHPUT),
        ('{"on_commit": true}', SyncPolicy(on_commit=True, messages=0, interval_ns=0)),
        ('{"messages": 1000}', SyncPolicy(on_commit=False, messages=1000, interval_ns=0)),
        ('{"interval": "250ms"}', SyncPolicy(on_commit=False, messages=0, interval_ns=SECOND // 4)),
        ('{"messages": 5, "interval": 7}', SyncPolicy(on_commit=False, messages=5, interval_ns=7)),
    ],
)
def test_a_policy_has_a_name_or_knobs(text: str, policy: SyncPolicy) -> None:
    assert read_policy(text) == policy


@pytest.mark.parametrize(
    "text",
    ["sometimes", "{", '{"messages": -1}', '{"interval": "soon"}', '{"every": 1}', '{"on_commit": 1}', ""],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_policy(text)


def test_what_the_stream_says_counts_before_what_the_server_does() -> None:
    plain = StreamConfig(name="S")
    assert policy_of(plain, DURABLE) == DURABLE
    assert policy_of(StreamConfig(name="S", persist_mode="async"), STRICT) == THROUGHPUT
    said = StreamConfig(name="S", persist_mode="async", metadata={"tidelog.sync": "balanced"})
    assert policy_of(said, STRICT) == BALANCED
    assert policy_of(StreamConfig(name="S", storage="memory"), STRICT) == THROUGHPUT


def test_only_files_are_compressed() -> None:
    for storage, compression, told in (
        ("file", "s2", "zstd"),
        ("file", "none", "none"),
        ("memory", "s2", "none"),
    ):
        config = StreamConfig(name="S", storage=storage, compression=compression)
        assert log_settings(config, STRICT).compression == told


def test_complete_segments_of_a_compressed_stream_are_packed_and_read_as_before() -> None:
    shore = Shore()
    stream = shore.stream(compression="s2", max_bytes=1024 * 1024)
    for number in range(700):
        shore.send(b"S.%d" % number, b"again " * 200)
        shore.engine.commit()
    shore.advance(60)
    before = contents(stream)
    path = stream.log.store.path
    segments = [f"{path}/{name}" for name in shore.disk.list(path) if name.endswith(".seg")]
    flags = [read_header(shore.disk.open(name).read(0, 64), name).flags for name in segments]
    assert flags.count(PACKED) >= 2
    assert sum(shore.disk.open(name).size for name in segments) < stream.log.state().size
    shore.crash()
    assert contents(shore.account.find("S")) == before


def test_a_policy_may_change_while_the_stream_is_there() -> None:
    shore = Shore()
    stream = shore.stream()
    config = stream.config.copy()
    config.metadata = {"tidelog.sync": "throughput"}
    shore.account.update(config)
    assert stream.log.settings.policy == THROUGHPUT
