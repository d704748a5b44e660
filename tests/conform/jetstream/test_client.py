"""The client's JetStream layer against real servers: what it asks is understood, and what it reads is true."""

import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.base.errors import ApiError, NoResponders
from tidelog.client import connect
from tidelog.client.jetstream import JetStream, OrderedReader, Outgoing, Publisher, PullConsumer, StreamReader
from tidelog.client.jetstream.backup import back_up, restore
from tidelog.client.jetstream.bucket import Bucket, KeyNotFound, WrongRevision, bucket_config, buckets
from tidelog.client.jetstream.read import find_message
from tidelog.client.jetstream.store import ObjectDamaged, ObjectNotFound, ObjectStore, store_config, stores
from tidelog.testing.peer import ServerProcess

COUNT = 1_000

Start = Callable[..., ServerProcess]


@pytest.fixture(params=["theirs", "ours"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> ServerProcess:
    """One for each test: streams of one name that come and go quickly are the peer's weakness, and not our subject."""
    start: Start = request.getfixturevalue("start_peer" if request.param == "theirs" else "start_ours")
    return start(flags=["-js", "-sd", str(tmp_path / "js")])


@pytest.fixture
def js(server: ServerProcess) -> Iterator[JetStream]:
    """With no streams in it."""
    with connect(server.url) as connection:
        yield JetStream(connection)


@pytest.fixture
def filled(js: JetStream) -> JetStream:
    """`S` holds COUNT messages, on ten subjects in turn; the payload is the sequence."""
    js.create_stream({"name": "S", "subjects": ["s.>"], "allow_direct": True})
    fill(js)
    return js


def fill(js: JetStream) -> None:
    publisher = Publisher(js.connection)
    for number in range(1, COUNT + 1):
        publisher.publish(f"s.{number % 10}", b"%d" % number)
    publisher.flush()
    assert publisher.acked == COUNT
    publisher.close()


def test_streams_are_made_described_changed_and_removed(js: JetStream) -> None:
    made = js.create_stream({"name": "A", "subjects": ["a.>"]})
    assert (made.name, made.state.messages, made.config["storage"]) == ("A", 0, "file")
    assert js.update_stream({**made.config, "max_msgs": 5}).config["max_msgs"] == 5
    js.create_stream({"name": "B", "subjects": ["b"], "storage": "memory"})
    assert sorted(js.stream_names()) == ["A", "B"]
    assert [info.name for info in js.streams("b")] == ["B"]
    js.delete_stream("A")
    with pytest.raises(ApiError, match="stream not found") as refused:
        js.stream_info("A")
    assert (refused.value.code, refused.value.err_code) == (404, 10059)


def test_messages_are_counted_by_subject_purged_and_deleted(filled: JetStream) -> None:
    info = filled.stream_info("S", subjects_filter="s.*")
    assert info.state.subjects == {f"s.{number}": COUNT // 10 for number in range(10)}
    filled.delete_message("S", 7)
    info = filled.stream_info("S", deleted_details=True)
    assert info.state.deleted == [7]
    assert filled.purge_stream("S", subject="s.1") == 100
    assert filled.purge_stream("S", keep=10) == COUNT - 101 - 10
    assert find_message(filled, "S", seq=COUNT).payload == b"%d" % COUNT
    assert find_message(filled, "S", last_for="s.9").seq == COUNT - 1
    with pytest.raises(ApiError, match="no message found"):
        find_message(filled, "S", seq=7)


def test_publish_says_what_became_of_a_message(js: JetStream) -> None:
    js.create_stream({"name": "A", "subjects": ["a"], "allow_atomic": True})
    assert js.publish("a", b"1", msg_id="x").seq == 1
    again = js.publish("a", b"1", msg_id="x", headers={"K": "v"})
    assert (again.seq, again.duplicate) == (1, True)
    with pytest.raises(NoResponders, match="no stream stores 'nowhere'"):
        js.publish("nowhere", b"")
    with pytest.raises(ApiError, match="wrong last sequence: 1"):
        js.publish("a", b"2", headers={"Nats-Expected-Last-Sequence": "9"})
    ack = js.publish_batch([Outgoing("a", b"%d" % number) for number in range(5)])
    assert (ack.count, ack.seq) == (5, 6)


def test_what_a_publisher_could_not_store_is_told_by_flush(js: JetStream) -> None:
    js.create_stream({"name": "A", "subjects": ["a"], "max_msg_size": 3})
    publisher = Publisher(js.connection, window=4)
    for payload in (b"1", b"too long", b"2", b"far too long", b"3"):
        publisher.publish("a", payload)
    with pytest.raises(ApiError, match="message size exceeds maximum allowed") as told:
        publisher.flush()
    assert told.value.__notes__ == ["2 messages were not stored"]
    publisher.flush()
    assert (publisher.acked, js.stream_info("A").state.messages) == (3, 3)


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "through the API"])
@pytest.mark.parametrize("subject", ["", "s.3", "s.*"])
def test_backward_is_forward_turned_round(js: JetStream, direct: bool, subject: str) -> None:
    js.create_stream({"name": "S", "subjects": ["s.>"], "allow_direct": direct})
    fill(js)
    for seq in (1, 13, 500, 501, 502, COUNT):
        js.delete_message("S", seq)
    reader = StreamReader(js, "S", subject=subject)
    forward = [message.seq for message in reader.forward()]
    gone = {1, 13, 500, 501, 502, COUNT}
    assert forward == [
        seq for seq in range(1, COUNT + 1) if seq not in gone and (subject != "s.3" or seq % 10 == 3)
    ]
    assert [message.seq for message in reader.backward()] == forward[::-1]
    assert [message.seq for message in reader.backward(seq=501, stop_seq=100)] == [
        seq for seq in reversed(forward) if 100 <= seq <= 501
    ]
    assert [message.seq for message in reader.backward(count=7)] == forward[:-8:-1]
    middle = find_message(js, "S", seq=forward[len(forward) // 2])
    up_to = [message.seq for message in reader.backward(end_time=middle.time, count=3)]
    assert up_to[0] >= middle.seq
    assert [m.seq for m in reader.page(start_time=middle.time, count=1).messages] <= [middle.seq]


def test_reading_nothing_is_no_error(js: JetStream) -> None:
    js.create_stream({"name": "S", "subjects": ["s"], "allow_direct": True})
    assert list(StreamReader(js, "S").forward()) == []
    assert list(StreamReader(js, "S").backward()) == []
    with pytest.raises(ApiError, match="stream not found"):
        list(StreamReader(js, "T").forward())


def test_consumers_are_made_described_paused_and_removed(filled: JetStream) -> None:
    made = filled.create_consumer(
        "S", {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "s.1"}
    )
    assert (made.name, made.num_pending) == ("c", 100)
    assert list(filled.consumer_names("S")) == ["c"]
    assert [info.config["filter_subject"] for info in filled.consumers("S")] == ["s.1"]
    assert filled.pause_consumer("S", "c", "2100-01-01T00:00:00Z").paused
    assert filled.consumer_info("S", "c").paused
    assert not filled.pause_consumer("S", "c").paused
    with pytest.raises(ApiError, match="consumer already exists"):
        filled.create_consumer("S", {"durable_name": "c", "ack_policy": "none"}, action="create")
    filled.delete_consumer("S", "c")
    with pytest.raises(ApiError, match="consumer not found"):
        filled.consumer_info("S", "c")


def test_fetched_messages_are_acknowledged_or_come_again(filled: JetStream) -> None:
    filled.create_consumer("S", {"durable_name": "c", "ack_policy": "explicit"})
    consumer = PullConsumer(filled, "S", "c")
    first = consumer.fetch(10)
    assert [message.place.seq for message in first] == list(range(1, 11))
    first[0].nak()
    for message in first[1:]:
        message.ack_sync()
    again = consumer.fetch(1)
    assert (again[0].payload, again[0].place.deliveries) == (b"1", 2)
    again[0].ack()
    rest = consumer.fetch(COUNT, no_wait=True)
    assert len(rest) == COUNT - 10
    assert consumer.fetch(1, timeout_s=0.05) == []
    with pytest.raises(NoResponders, match="no consumer 'd'"):
        PullConsumer(filled, "S", "d").fetch(1)


def test_consume_goes_on_over_many_requests(filled: JetStream) -> None:
    filled.create_consumer("S", {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": 5_000})
    found = []
    for message in PullConsumer(filled, "S", "c").consume(batch=37, idle_s=0.3):
        found.append(int(message.payload))
        message.ack()
    assert found == list(range(1, COUNT + 1))
    filled.connection.flush()
    assert filled.consumer_info("S", "c").num_ack_pending == 0


def test_an_ordered_reader_goes_on_when_its_consumer_has_gone(filled: JetStream) -> None:
    reader = OrderedReader(filled, "S", filter_subject="s.*")
    assert reader.initial_count == COUNT
    messages = reader.messages()
    found = [message.seq for message in itertools.islice(messages, 300)]
    filled.delete_consumer("S", reader.info.name)
    found += [message.seq for message in itertools.islice(messages, COUNT - 300)]
    assert found == list(range(1, COUNT + 1))
    reader.close()
    assert list(filled.consumer_names("S")) == []


def test_a_backup_is_restored_with_its_consumers(filled: JetStream, tmp_path: Path) -> None:
    filled.create_consumer("S", {"durable_name": "c", "ack_policy": "explicit"})
    sizes: list[int] = []
    answer = back_up(filled, "S", tmp_path / "b", progress=sizes.append)
    assert answer.state.messages == COUNT
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["backup.json", "stream.tar.s2"]
    filled.delete_stream("S")
    assert restore(filled, tmp_path / "b", progress=sizes.append).state.messages == COUNT
    assert sizes[-1] == (tmp_path / "b" / "stream.tar.s2").stat().st_size
    assert list(filled.consumer_names("S")) == ["c"]


def test_a_bucket_keeps_values_by_revision(js: JetStream) -> None:
    js.create_stream(bucket_config("b", max_msgs_per_subject=5))
    bucket = Bucket(js, "b")
    first = bucket.put("k", b"1")
    assert bucket.get("k").value == b"1"
    with pytest.raises(WrongRevision, match="has a key 'k' already"):
        bucket.create("k", b"2")
    second = bucket.update("k", b"2", first)
    with pytest.raises(WrongRevision, match="wrong last sequence"):
        bucket.update("k", b"3", first)
    assert bucket.get("k", first).value == b"1"
    bucket.delete("k")
    with pytest.raises(KeyNotFound):
        bucket.get("k")
    assert [(entry.operation, entry.value) for entry in bucket.history("k")] == [
        ("PUT", b"1"),
        ("PUT", b"2"),
        ("DEL", b""),
    ]
    assert bucket.create("k", b"4") == second + 2
    bucket.put("l.m", b"5")
    assert sorted(bucket.keys()) == ["k", "l.m"]
    assert sorted(bucket.keys("l.>")) == ["l.m"]
    assert [entry.key for entry in bucket.newest()][:2] == ["l.m", "k"]
    bucket.purge("k")
    assert [entry.operation for entry in bucket.history("k")] == ["PURGE"]
    assert bucket.compact() == 1
    assert [info.name for info in buckets(js)] == ["KV_b"]


def test_a_watcher_hears_what_is_there_and_what_comes(js: JetStream) -> None:
    js.create_stream(bucket_config("b"))
    bucket = Bucket(js, "b")
    bucket.put("a", b"1")
    watched = bucket.watch()
    assert [entry and entry.value for entry in itertools.islice(watched, 2)] == [b"1", None]
    bucket.put("c", b"2")
    heard = next(watched)
    assert heard is not None
    assert (heard.key, heard.value) == ("c", b"2")
    watched.close()  # type: ignore[attr-defined]


def test_objects_come_back_as_they_were_put(js: JetStream) -> None:
    js.create_stream(store_config("o"))
    store = ObjectStore(js, "o")
    data = bytes(range(256)) * 2_000
    put = store.put("f", io.BytesIO(data), description="d", chunk_size=10_000)
    assert (put.size, put.chunks) == (len(data), 52)
    got = io.BytesIO()
    assert store.get("f", got).description == "d"
    assert got.getvalue() == data
    store.put("f", io.BytesIO(b"other"))
    store.put("empty", io.BytesIO())
    assert [(info.name, info.size) for info in store.objects()] == [("f", 5), ("empty", 0)]
    assert js.stream_info("OBJ_o").state.messages == 3
    store.get("empty", io.BytesIO())
    js.purge_stream("OBJ_o", subject="$O.o.C.>")
    js.timeout_s = 0.2
    with pytest.raises(ObjectDamaged, match="5 bytes in 1 chunks; 0 came"):
        store.get("f", io.BytesIO())
    js.timeout_s = 5
    store.delete("f")
    with pytest.raises(ObjectNotFound):
        store.info("f")
    assert [info.name for info in stores(js)] == ["OBJ_o"]
    assert store.seal().config["sealed"]
