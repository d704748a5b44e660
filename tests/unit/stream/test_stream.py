"""What a stream does with the messages that it is given: stores, acknowledges, refuses."""

import msgspec
import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth
from sim.worker import SimWorker
from tidelog.base.instant import timestamp
from tidelog.log.filter import Filter
from tidelog.stream.failure import ApiFailure
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import RePublish, SubjectTransform
from unit.stream.shore import Shore, block, contents


@pytest.fixture
def shore() -> Shore:
    return Shore()


def test_a_message_is_stored_and_acknowledged_when_the_tick_ends(shore: Shore) -> None:
    stream = shore.stream()
    shore.send(b"S.a", b"one")
    shore.send(b"S.b", b"two")
    assert shore.heard == []
    shore.engine.commit()
    assert shore.heard == [
        (b"reply.1", b'{"stream":"S","seq":1}'),
        (b"reply.1", b'{"stream":"S","seq":2}'),
    ]
    assert contents(stream) == [(1, b"S.a", b"one"), (2, b"S.b", b"two")]


def test_a_message_without_a_reply_is_stored_and_not_acknowledged(shore: Shore) -> None:
    stream = shore.stream()
    shore.send(b"S.a", b"one", reply=None)
    shore.engine.commit()
    assert shore.heard == []
    assert contents(stream) == [(1, b"S.a", b"one")]


def test_no_ack_stores_in_silence(shore: Shore) -> None:
    stream = shore.stream(no_ack=True)
    shore.send(b"S.a", b"one")
    shore.engine.commit()
    assert shore.heard == []
    assert len(contents(stream)) == 1


def test_headers_are_stored_as_they_came(shore: Shore) -> None:
    stream = shore.stream()
    assert shore.publish(b"S.a", b"payload", X_My="own", Nats_My="too") == {"stream": "S", "seq": 1}
    message = stream.get(1)
    assert message is not None
    assert message.header == b"NATS/1.0\r\nX-My: own\r\nNats-My: too\r\n\r\n"
    assert message.payload == b"payload"


# ---- limits ----


def test_what_is_too_many_goes_or_is_refused(shore: Shore) -> None:
    old = shore.stream("OLD", max_msgs=2)
    new = shore.stream("NEW", max_msgs=2, discard="new")
    for number in range(3):
        shore.publish(b"OLD.%d" % number)
    assert [seq for seq, _, _ in contents(old)] == [2, 3]
    for number in range(2):
        shore.publish(b"NEW.%d" % number)
    assert shore.refused(b"NEW.2") == (10077, "maximum messages exceeded")
    assert [seq for seq, _, _ in contents(new)] == [1, 2]


def test_bytes_that_are_too_many_are_refused_in_the_peers_words(shore: Shore) -> None:
    shore.stream(max_bytes=100, discard="new")
    shore.publish(b"S.a", b"p" * 50)
    assert shore.refused(b"S.b", b"p" * 50) == (10077, "maximum bytes exceeded")
    assert shore.refused(b"S.b", b"p" * 200) == (10077, "maximum bytes exceeded")


def test_messages_that_are_too_old_go(shore: Shore) -> None:
    stream = shore.stream(max_age=10_000_000_000)
    shore.publish(b"S.a")
    shore.advance(6)
    shore.publish(b"S.b")
    shore.advance(5)
    assert [seq for seq, _, _ in contents(stream)] == [2]
    shore.advance(6)
    assert contents(stream) == []
    assert shore.publish(b"S.a")["seq"] == 3


# ---- settings that change what is stored ----


def test_a_sealed_stream_takes_and_loses_nothing(shore: Shore) -> None:
    stream = shore.stream()
    shore.publish(b"S.a")
    config = stream.config.copy()
    config.sealed = True
    shore.account.update(config)
    assert shore.refused(b"S.a") == (10109, "invalid operation on sealed stream")
    for attempt in (lambda: stream.delete(1), stream.purge):
        with pytest.raises(ApiFailure, match="sealed"):
            attempt()
    assert len(contents(stream)) == 1


def test_what_is_denied_is_told_as_the_peer_does(shore: Shore) -> None:
    stream = shore.stream(deny_delete=True, deny_purge=True)
    shore.publish(b"S.a")
    with pytest.raises(ApiFailure, match="message delete not permitted"):
        stream.delete(1)
    with pytest.raises(ApiFailure, match="stream purge not permitted"):
        stream.purge()


def test_subjects_are_transformed_before_anything_else_sees_them(shore: Shore) -> None:
    stream = shore.stream(subject_transform=SubjectTransform(src="S.*", dest="T.$1"))
    shore.publish(b"S.a", b"one")
    shore.publish(b"S.a.b", b"two")
    assert contents(stream) == [(1, b"T.a", b"one"), (2, b"S.a.b", b"two")]
    assert shore.publish(b"S.a", Nats_Expected_Last_Subject_Sequence="1")["seq"] == 3


def test_what_is_stored_is_published_again(shore: Shore) -> None:
    shore.stream(republish=RePublish(src="S.*", dest="again.$1"))
    again = shore.stream("AGAIN", subjects=["again.>"])
    shore.publish(b"S.a", b"one")
    shore.publish(b"S.a", b"two", X="1")
    shore.publish(b"S.a.b", b"three")
    time = timestamp(shore.clock.ns)
    place = (
        f"Nats-Stream: S|Nats-Subject: S.a|Nats-Sequence: %d|Nats-Time-Stamp: {time}|Nats-Last-Sequence: %d"
    )
    assert contents(again) == [(1, b"again.a", b"one"), (2, b"again.a", b"two")]
    assert [header_of(again, seq) for seq in (1, 2)] == [
        block(*(place % (1, 0)).split("|")),
        block("X: 1", *(place % (2, 1)).split("|")),
    ]


def test_only_headers_are_published_again_if_that_is_asked(shore: Shore) -> None:
    shore.stream(republish=RePublish(src="S.*", dest="again", headers_only=True))
    again = shore.stream("AGAIN", subjects=["again"])
    shore.publish(b"S.a", b"12345")
    assert contents(again) == [(1, b"again", b"")]
    assert header_of(again, 1).endswith(b"Nats-Last-Sequence: 0\r\nNats-Msg-Size: 5\r\n\r\n")


def header_of(stream: Stream, seq: int) -> bytes:
    message = stream.get(seq)
    assert message is not None
    return message.header


# ---- finding and deleting ----


def test_messages_are_found_by_sequence_and_subject(shore: Shore) -> None:
    stream = shore.stream()
    for subject in (b"S.a.1", b"S.b", b"S.a.2", b"S.a.1"):
        shore.publish(subject)
    found = [
        stream.get(2),
        stream.last_for(b"S.a.1"),
        stream.last_for(b"S.*.2"),
        stream.next_for(Filter(b"S.a.*"), 2),
        stream.next_for(Filter(), 1),
    ]
    assert [message.seq for message in found if message] == [2, 4, 3, 3, 1]
    assert stream.get(5) is None
    assert stream.last_for(b"S.c") is None
    assert stream.next_for(Filter(b"S.b"), 3) is None


def test_what_is_not_committed_is_not_found() -> None:
    worker = SimWorker()
    shore = Shore(worker=worker)
    stream = shore.stream()
    worker.run_all()
    shore.send(b"S.a")
    shore.engine.commit()
    assert shore.heard == []
    assert stream.get(1) is None
    worker.run_all()
    assert shore.heard == [(b"reply.1", b'{"stream":"S","seq":1}')]
    assert stream.get(1) is not None


def test_a_message_is_deleted_once_and_stays_so(shore: Shore) -> None:
    stream = shore.stream()
    for _ in range(3):
        shore.publish(b"S.a")
    assert stream.delete(2)
    assert not stream.delete(2)
    assert not stream.delete(9)
    shore.engine.commit()
    shore.crash()
    stream = shore.account.find("S")
    assert [seq for seq, _, _ in contents(stream)] == [1, 3]


def test_a_purge_takes_what_matches(shore: Shore) -> None:
    stream = shore.stream()
    for number in range(6):
        shore.publish(b"S.%d" % (number % 2))
    assert stream.purge(Filter(b"S.0"), keep=1) == 2
    assert stream.purge(before_seq=4) == 1
    assert [seq for seq, _, _ in contents(stream)] == [4, 5, 6]
    assert stream.purge() == 3
    shore.engine.commit()
    assert shore.publish(b"S.a")["seq"] == 7


# ---- retention by interest, and work queues ----


class Keen:
    """A consumer as a stream sees it."""

    def __init__(self, name: str, *patterns: bytes) -> None:
        self.name = name
        self.filter = Filter(*patterns)
        self.done: set[int] = set()

    def pump(self) -> None:
        raise AssertionError("nothing was asked for")

    def purged(self, first_seq: int) -> None:
        pass

    def needs(self, seq: int) -> bool:
        return seq not in self.done

    def finish(self, stream: Stream, seq: int) -> bool:
        self.done.add(seq)
        return stream.acked(self, seq)


def test_what_nobody_wants_takes_a_sequence_and_is_not_kept(shore: Shore) -> None:
    stream = shore.stream(retention="interest", max_msgs=1)
    assert shore.publish(b"S.a")["seq"] == 1
    stream.add_consumer(Keen("C", b"S.b"))
    assert shore.publish(b"S.b")["seq"] == 2
    assert shore.publish(b"S.a")["seq"] == 3
    assert [seq for seq, _, _ in contents(stream)] == [2]
    stream.consumers.clear()
    shore.restart()
    assert shore.publish(b"S.a")["seq"] == 4


def test_a_message_is_kept_until_all_who_want_it_are_done(shore: Shore) -> None:
    """STREAM-4"""
    stream = shore.stream(retention="interest")
    one, other, third = Keen("ONE", b"S.>"), Keen("OTHER", b"S.a"), Keen("THIRD", b"S.c")
    for keen in (one, other, third):
        stream.add_consumer(keen)
    for subject in (b"S.a", b"S.b", b"S.a"):
        shore.publish(subject)
    assert not one.finish(stream, 1)
    assert other.finish(stream, 1)
    assert one.finish(stream, 2)
    assert not one.finish(stream, 3)
    assert [seq for seq, _, _ in contents(stream)] == [3]
    stream.remove_consumer("OTHER")
    assert contents(stream) == []


def test_a_work_queue_loses_what_is_done(shore: Shore) -> None:
    stream = shore.stream(retention="workqueue")
    keen = Keen("C")
    stream.add_consumer(keen)
    shore.publish(b"S.a")
    assert keen.finish(stream, 1)
    assert not keen.finish(stream, 1)
    assert contents(stream) == []


def test_with_limits_an_acknowledgement_removes_nothing(shore: Shore) -> None:
    stream = shore.stream()
    keen = Keen("C")
    stream.add_consumer(keen)
    shore.publish(b"S.a")
    assert not keen.finish(stream, 1)
    assert len(contents(stream)) == 1


# ---- bad days ----


def test_waiting_publishers_are_told_when_the_log_has_failed() -> None:
    """STREAM-1"""
    worker = SimWorker()
    disk = SimDisk(1)
    shore = Shore(disk, worker=worker)
    stream = shore.stream()
    worker.run_all()
    shore.send(b"S.a")
    shore.engine.commit()
    disk.machine.toxics.append(FailNth(1, "sync"))
    worker.run_all()
    assert [msgspec.json.decode(payload)["error"]["err_code"] for _, payload in shore.heard] == [10077]
    assert "can be read and not written to" in shore.lines.of("error")[0]
    code, text = shore.refused(b"S.a")
    assert code == 10077
    assert "could not be synced" in text
    assert contents(stream) == []
