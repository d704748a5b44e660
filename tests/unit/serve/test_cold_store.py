"""A server whose streams have a part of them in the cold tier: nobody who reads them notices."""

from __future__ import annotations

import re
import shutil
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidelog.base.errors import ApiError, ConfigError
from tidelog.client.jetstream import BlockReader, JetStream, Publisher, PullConsumer, StreamReader
from tidelog.client.jetstream.direct import get_one, get_slowly
from tidelog.client.jetstream.own import log_info
from tidelog.testing import Server

COUNT = 2500
SIZE = 4096
CONFIG: dict[str, Any] = {
    "name": "S",
    "subjects": ["s.>"],
    "allow_direct": True,
    "duplicate_window": 100_000_000,
    "metadata": {"tidelog.local_bytes": "256K"},
}


def payload(seq: int) -> bytes:
    return b"%06d" % seq + bytes([seq * 7 % 251]) * SIZE


def server(directory: Path, cold: str = "enabled") -> Server:
    return Server(
        f"tidelog {{ cold: {cold} }}\nhttp: 127.0.0.1:-1\n",
        flags=["-js", "-sd", str(directory)],
        monitor=True,
    )


def fill(js: JetStream, start: int = 1, count: int = COUNT) -> None:
    with_room = Publisher(js.connection)
    for seq in range(start, start + count):
        with_room.publish(f"s.{seq % 5}", payload(seq), headers={"N": str(seq)} if seq % 3 == 0 else None)
    with_room.flush()


def metric(one: Server, name: str) -> float:
    text = urllib.request.urlopen(f"http://{one.host}:{one.monitor_port}/metrics", timeout=5).read().decode()
    found = re.search(rf'^{name}(?:_total)?{{account="\$G",stream="S"}} (\S+)$', text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_metrics_are_documented(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        JetStream(one.connect()).create_stream(CONFIG)
        text = (
            urllib.request.urlopen(f"http://{one.host}:{one.monitor_port}/metrics", timeout=5).read().decode()
        )
    reference = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
    documented = dict(re.findall(r"^\| `(tidelog_cold_\w+)` \| (\w+) \|", reference.read_text(), re.M))
    assert documented == dict(re.findall(r"^# TYPE (tidelog_cold_\w+) (\w+)$", text, re.M))


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)


def settled(one: Server) -> None:
    """All but what may stay is in the cold tier."""
    until(lambda: metric(one, "tidelog_cold_messages") > COUNT * 0.7)
    until(lambda: metric(one, "tidelog_cold_lag_segments") == 0)


def check(seqs: list[int], payloads: list[bytes], last: int = COUNT) -> None:
    assert seqs == list(range(1, last + 1))
    assert all(data == payload(seq) for seq, data in zip(seqs, payloads, strict=True))


def read_everything(js: JetStream, last: int = COUNT) -> None:
    """In every way there is."""
    found = list(StreamReader(js, "S").forward())
    check([one.seq for one in found], [one.payload for one in found], last)
    found = list(StreamReader(js, "S").backward())[::-1]
    check([one.seq for one in found], [one.payload for one in found], last)
    for seq in (1, 2, last // 2, last):
        assert get_one(js, "S", {"seq": seq}).payload == payload(seq)
        assert get_slowly(js, "S", {"seq": seq}).payload == payload(seq)
    js.create_consumer("S", {"name": "c", "ack_policy": "none", "mem_storage": True})
    got = []
    while len(got) < last:
        got += list(PullConsumer(js, "S", "c").fetch(500, timeout_s=10))
    check([one.place.seq for one in got], [one.payload for one in got], last)
    js.delete_consumer("S", "c")
    tables = [pa.ipc.open_stream(block.data).read_all() for block in BlockReader(js, "S").blocks()]
    table = pa.concat_tables(tables)
    check(table["seq"].to_pylist(), table["payload"].to_pylist(), last)


def with_history(one: Server) -> JetStream:
    """A stream of which all that may go is in the cold tier."""
    js = JetStream(one.connect())
    js.create_stream(CONFIG)
    fill(js)
    settled(one)
    return js


def test_everything_is_read_through_the_cold_tier(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        js = with_history(one)
        assert list((tmp_path / "cold" / "$G" / "S").glob("*/data/*.parquet"))
        used = js.account_info()["storage"]
        assert used < 0.4 * js.stream_info("S").state.bytes
        read_everything(js)
        assert metric(one, "tidelog_cold_fetched_segments") > 5
        assert metric(one, "tidelog_cold_failures") == 0
    with server(tmp_path) as one:
        js = JetStream(one.connect())
        assert js.stream_info("S").state.messages == COUNT
        read_everything(js)
        fill(js, COUNT + 1, 500)
        read_everything(js, COUNT + 500)


def test_while_the_store_is_away_everything_goes_on_that_can(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        js = with_history(one)
        there, away = tmp_path / "cold" / "$G", tmp_path / "away"
        there.rename(away)
        there.write_text("in the way")
        with pytest.raises(ApiError) as refused:
            get_one(js, "S", {"seq": 1000})
        assert refused.value.code == 500
        assert "cannot" in str(refused.value) or "there is no" in str(refused.value)
        fill(js, COUNT + 1, 1000)
        assert get_one(js, "S", {"seq": COUNT + 1000}).payload == payload(COUNT + 1000)
        until(lambda: metric(one, "tidelog_cold_failing") == 1)
        assert metric(one, "tidelog_cold_lag_bytes") > 0
        assert metric(one, "tidelog_stream_lost_messages") == 0
        js.create_consumer("S", {"name": "c", "ack_policy": "none", "mem_storage": True})
        assert list(PullConsumer(js, "S", "c").fetch(5, timeout_s=0.5)) == []
        there.unlink()
        away.rename(there)
        got = list(PullConsumer(js, "S", "c").fetch(5, timeout_s=40))
        check([message.place.seq for message in got], [message.payload for message in got], 5)
        js.delete_consumer("S", "c")
        until(lambda: metric(one, "tidelog_cold_lag_segments") == 0)
        read_everything(js, COUNT + 1000)


def test_a_copied_store_does_not_get_into_the_same_archive(tmp_path: Path) -> None:
    """COLD-10"""
    url = (tmp_path / "bucket").as_uri()
    with server(tmp_path / "one", f'{{ url: "{url}" }}') as one:
        with_history(one)
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    with (
        server(tmp_path / "one", f'{{ url: "{url}" }}') as one,
        server(tmp_path / "other", f'{{ url: "{url}" }}') as other,
    ):
        ours, theirs = JetStream(one.connect()), JetStream(other.connect())
        fill(ours, COUNT + 1, 1500)
        until(lambda: metric(one, "tidelog_cold_lag_segments") == 0)
        for number in range(COUNT + 1, COUNT + 1501):
            theirs.publish(f"s.{number}", b"something else" + bytes(SIZE))
        until(lambda: metric(other, "tidelog_cold_failing") == 1)
        read_everything(ours, COUNT + 1500)
        found = list(StreamReader(theirs, "S").forward())
        check([each.seq for each in found[:COUNT]], [each.payload for each in found[:COUNT]])
        assert [each.payload[:14] for each in found[COUNT:]] == [b"something else"] * 1500


def test_retention_and_deletion_take_the_archive_along(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        js = with_history(one)
        files = lambda: sorted((tmp_path / "cold" / "$G" / "S").glob("*/data/*.parquet"))  # noqa: E731
        before = files()
        js.purge_stream("S", seq=COUNT // 2)
        until(lambda: len(files()) < len(before))
        found = list(StreamReader(js, "S").forward())
        assert [each.seq for each in found] == list(range(COUNT // 2, COUNT + 1))
        with pytest.raises(ApiError, match="no_erase"):
            js.delete_message("S", COUNT // 2)
        js.delete_message("S", COUNT // 2, erase=False)
        js.delete_stream("S")
        until(lambda: not files())


def test_a_backup_that_would_not_be_whole_is_refused(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        js = with_history(one)
        with pytest.raises(ApiError, match="cold tier"):
            js.ask_document("STREAM.SNAPSHOT.S", {"deliver_subject": "nowhere"})
        with pytest.raises(ApiError, match="has schedules has to be here"):
            js.update_stream({**CONFIG, "allow_msg_schedules": True})
        info = log_info(js, "S").cold
        assert info is not None
        assert info.messages > COUNT * 0.7
        assert info.failing == ""


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"metadata": {"tidelog.cold": "maybe"}}, "tidelog.cold is on or off"),
        ({"metadata": {"tidelog.local_bytes": "much"}}, "tidelog.local_bytes: 'much' is no size"),
        ({"metadata": {"tidelog.local_age": "old"}}, "tidelog.local_age: "),
        ({"metadata": {"tidelog.cold_keep": "-5s"}}, "tidelog.cold_keep: "),
        ({"metadata": {"tidelog.cold": "on"}, "storage": "memory"}, "is in memory"),
        ({"metadata": {"tidelog.cold": "on"}, "allow_msg_counter": True}, "has counters"),
    ],
)
def test_what_a_stream_may_not_say(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with server(tmp_path) as one:
        js = JetStream(one.connect())
        with pytest.raises(ApiError, match=message):
            js.create_stream({"name": "T", **config})
        js.create_stream({"name": "T", "storage": config.get("storage", "file")})
        if "storage" not in config and "allow_msg_counter" not in config:
            with pytest.raises(ApiError, match=message):
                js.update_stream({"name": "T", "subjects": ["T"], **config})


def test_without_a_cold_tier_a_stream_cannot_ask_for_it(tmp_path: Path) -> None:
    with server(tmp_path, "disabled") as one, pytest.raises(ApiError, match="has no cold tier"):
        JetStream(one.connect()).create_stream({"name": "T", "metadata": {"tidelog.cold": "on"}})


@pytest.mark.parametrize(
    ("cold", "message"),
    [
        ('{ url: "ftp://x" }', "is no object store"),
        ('{ url: "s3://key:secret@bucket" }', "stand in the environment"),
        ('{ url: "file:///" }', "names no folder"),
        ("{ local_bytes: some }", "local_bytes: 'some' is no size"),
        ("{ keep: long }", "keep: "),
        ("{ parallel: 0 }", "parallel: 1 to 16"),
        ("{ streams: few }", "streams: all, or asked"),
        ("{ colour: 1 }", "unknown field"),
    ],
)
def test_what_the_configuration_may_not_say(tmp_path: Path, cold: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        server(tmp_path, cold).start()


def cold_again(directory: Path) -> None:
    """A store of which nothing is in memory."""
    with server(directory) as one:
        with_history(one)


def fetched(js: JetStream, **config: Any) -> list[Any]:
    js.create_consumer("S", {"name": "c", "mem_storage": True, **config})
    count = js.consumer_info("S", "c").num_pending
    found: list[Any] = []
    while len(found) < count:
        found += list(PullConsumer(js, "S", "c").fetch(min(300, count - len(found)), timeout_s=10))
        if config["ack_policy"] == "explicit":
            for message in found[-300:]:
                message.ack()
    js.delete_consumer("S", "c")
    return found


def test_all_kinds_of_consumers_go_through_the_cold_tier(tmp_path: Path) -> None:
    """CONSUMER-1, CONSUMER-2, CONSUMER-11"""
    cold_again(tmp_path)
    with server(tmp_path) as one:
        js = JetStream(one.connect())
        found = fetched(js, ack_policy="none", direction="reverse")
        check([each.place.seq for each in found][::-1], [each.payload for each in found][::-1])
        assert [each.place.pending for each in found] == list(range(COUNT - 1, -1, -1))
        found = fetched(js, ack_policy="explicit", filter_subject="s.3")
        assert [each.place.seq for each in found] == list(range(3, COUNT + 1, 5))
        found = fetched(js, ack_policy="none", deliver_policy="last_per_subject", filter_subject="s.*")
        assert [each.place.seq for each in found] == list(range(COUNT - 4, COUNT + 1))
        # What is delivered again may have gone away meanwhile.
        js.create_consumer("S", {"name": "n", "ack_policy": "explicit"})
        first = list(PullConsumer(js, "S", "n").fetch(3, timeout_s=10))
        for message in first:
            message.nak()
        again = list(PullConsumer(js, "S", "n").fetch(3, timeout_s=10))
        check([each.place.seq for each in again], [each.payload for each in again], 3)


def test_others_are_pushed_to_and_mirrors_follow(tmp_path: Path) -> None:
    """FEED-1"""
    cold_again(tmp_path)
    with server(tmp_path) as one:
        js = JetStream(one.connect())
        inbox = js.connection.subscribe("pushed")
        js.create_consumer("S", {"name": "p", "ack_policy": "none", "deliver_subject": "pushed"})
        pushed: list[Any] = []
        while len(pushed) < COUNT:
            pushed += inbox.next_batch(500, 10.0)
        check([int(each.payload[:6]) for each in pushed], [each.payload for each in pushed])
        js.create_stream({"name": "M", "mirror": {"name": "S"}, "allow_direct": True, "storage": "memory"})
        until(lambda: js.stream_info("M").state.messages == COUNT)
        found = list(StreamReader(js, "M").forward())
        check([each.seq for each in found], [each.payload for each in found])
        js.create_stream({"name": "T", "sources": [{"name": "S"}], "storage": "memory", "allow_direct": True})
        until(lambda: js.stream_info("T").state.messages == COUNT)
