from typing import Any

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_stream import read_jetstream


def jetstream(text: str) -> dict[str, Any]:
    findings = Findings()
    found = read_jetstream(parse_text(f"js: {text}\n", {})["js"], findings)
    findings.finish()
    return found


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("true", True),
        ("false", False),
        ("enabled", True),
        ("disable", False),
        ("{}", True),
        ("{ enabled: false }", False),
    ],
)
def test_it_is_switched_on_in_many_ways(text: str, enabled: bool) -> None:
    assert jetstream(text) == {"enabled": enabled}


def test_the_block() -> None:
    text = """{
        store_dir: d, domain: m, max_mem: 1GB, max_file: "10G", sync: "5s", cipher: aes, unique_tag: t
        limits { max_ack_pending: 1, duplicate_window: "1m", batch {
            max_msgs: 5, timeout: "1s", max_inflight_per_stream: 6, max_inflight_total: 7
        } }
        max_buffered_msgs: 5, request_queue_limit: 8, meta_compact: 5, max_concurrent_io: 8
    }"""
    assert jetstream(text) == {
        "enabled": True,
        "store_dir": "d",
        "domain": "m",
        "max_memory_size": 2**30,
        "max_file_size": 10 * 2**30,
        "sync_interval_s": 5.0,
        "max_ack_pending": 1,
        "duplicate_window_ns": 60 * 10**9,
        "max_batch_messages": 5,
        "max_batch_idle_ns": 10**9,
        "max_batches_per_stream": 6,
        "max_batches": 7,
        "request_queue_limit": 8,
    }


def test_sync_may_be_always() -> None:
    assert jetstream("{ sync_interval: always }") == {"enabled": True, "sync_always": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maybe", "Expected 'enabled' or 'disabled' for string value, got 'maybe'"),
        ("1", "Expected map, bool or string to define JetStream, got int64"),
        ("{ bogus: 1 }", 'unknown field "bogus"'),
        ("{ key: k }", "encryption of stored data is not supported"),
        ("{ cipher: x }", 'Unknown cipher type: "x"'),
        ("{ max_mem: x }", 'max_mem_store strconv.ParseInt: parsing "": invalid syntax'),
        ("{ max_file: '10X' }", "max_file_store sizes defined as strings must end in K, M, G, T"),
        ("{ max_file: true }", "max_file_store must be int64 or string"),
        ("{ meta_compact: -1 }", 'Expected an absolute size for "meta_compact", got -1'),
        ("{ max_concurrent_io: 3 }", 'Expected an absolute size for "max_concurrent_io" between 4 and 8192'),
        ("{ limits: x }", "Expected a map to define JetStreamLimits, got string"),
        ("{ limits { batch: x } }", "Expected a map to define batch limits, got string"),
        ("{ limits { duplicate_window: x } }", "error parsing duplicate_window: time: invalid duration"),
    ],
)
def test_faults(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        jetstream(text)
    assert caught.value.message.startswith(message)
