"""Mirrors and sources: streams that take over the messages of others."""

from typing import Any

import pytest

from sim.worker import SimWorker
from tidelog.base import limits
from tidelog.stream.engine import Recovery
from tidelog.stream.feed import Feed
from tidelog.stream.feed_state import identity_of
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import External, StreamConfig, StreamSource, SubjectTransform
from tidelog.subject.interest import Interest
from unit.stream.shore import Shore, block, contents

SECOND = 1_000_000_000


@pytest.fixture
def shore() -> Shore:
    shore = Shore()
    shore.stream("ORIGIN", subjects=["o.>"])
    return shore


def mirror(shore: Shore, name: str = "MIRROR", **fields: Any) -> Stream:
    more = {key: fields.pop(key) for key in ("allow_rollup_hdrs", "max_msgs", "discard") if key in fields}
    stream = shore.stream(name, subjects=[], mirror=StreamSource(name="ORIGIN", **fields), **more)
    shore.engine.commit()
    return stream


def gather(shore: Shore, *sources: StreamSource, name: str = "ALL", **fields: Any) -> Stream:
    stream = shore.stream(name, **{"subjects": []} | fields, sources=list(sources))
    shore.engine.commit()
    return stream


def feed(stream: Stream, at: int = 0) -> Feed:
    assert stream.feeds is not None
    return stream.feeds.feeds[at]


def fill(shore: Shore, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        shore.send(b"o.%d" % (number % 3), b"%d" % number, reply=None)
    shore.engine.commit()


def headers(stream: Stream) -> list[bytes]:
    return [message.header for message in stream.log.reader().read(1000)]


def seqs(stream: Stream) -> list[int]:
    return [seq for seq, _, _ in contents(stream)]


# ---- mirrors ----


def test_a_mirror_has_what_its_origin_has_with_sequences_and_times(shore: Shore) -> None:
    """FEED-1"""
    fill(shore, 5)
    shore.advance(5)
    origin = shore.account.find("ORIGIN")
    origin.delete(2)
    origin.delete(4)
    shore.engine.commit()
    stream = mirror(shore)
    assert contents(stream) == contents(origin)
    assert seqs(stream) == [1, 3, 5]
    fill(shore, 2, 5)
    assert contents(stream) == contents(origin)
    mine, its = stream.get(3), origin.get(3)
    assert mine is not None
    assert its is not None
    assert mine.ts_ns == its.ts_ns
    assert (feed(stream).lag(), feed(stream).active_ns(shore.clock.ns)) == (0, 0)
    shore.advance(3)
    assert feed(stream).active_ns(shore.clock.ns) == 3 * SECOND


def test_a_mirror_may_begin_later_and_want_less(shore: Shore) -> None:
    fill(shore, 9)
    assert seqs(mirror(shore, "A", opt_start_seq=5)) == [5, 6, 7, 8, 9]
    assert seqs(mirror(shore, "B", filter_subject="o.1")) == [2, 5, 8]
    transforms = [SubjectTransform(src="o.1", dest="one"), SubjectTransform(src="o.2", dest="")]
    stream = mirror(shore, "C", subject_transforms=transforms)
    assert [subject for _, subject, _ in contents(stream)][:4] == [b"one", b"o.2", b"one", b"o.2"]
    shore.advance(10)
    fill(shore, 1, 9)
    start = "2023-11-14T22:13:25Z"
    assert seqs(mirror(shore, "D", opt_start_time=start)) == [10]


@pytest.mark.parametrize("clean", [True, False])
def test_a_mirror_goes_on_after_a_restart(shore: Shore, clean: bool) -> None:
    """FEED-1"""
    fill(shore, 5)
    mirror(shore)
    if clean:
        shore.restart()
    else:
        shore.crash()
    fill(shore, 5, 5)
    stream = shore.account.find("MIRROR")
    assert contents(stream) == contents(shore.account.find("ORIGIN"))
    assert seqs(stream) == list(range(1, 11))


def test_much_is_taken_over_in_pieces(shore: Shore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FEED_MESSAGES", 3)
    fill(shore, 10)
    stream = mirror(shore)
    assert seqs(stream) == [1, 2, 3]
    assert feed(stream).lag() == 7
    for _ in range(3):
        shore.advance(0)
    assert seqs(stream) == list(range(1, 11))
    assert feed(stream).lag() == 0


def test_only_what_is_committed_is_taken_over() -> None:
    worker = SimWorker()
    shore = Shore(worker=worker)
    shore.stream("ORIGIN", subjects=["o.>"])
    stream = mirror(shore)
    worker.run_all()
    fill(shore, 1)
    assert stream.log.store.last_seq == 0
    worker.run_all()
    shore.engine.commit()
    worker.run_all()
    assert seqs(stream) == [1]


def test_a_mirror_of_a_mirror_follows(shore: Shore) -> None:
    mirror(shore)
    stream = shore.stream("SECOND", subjects=[], mirror=StreamSource(name="MIRROR"))
    fill(shore, 4)
    assert seqs(stream) == [1, 2, 3, 4]


def test_a_mirror_becomes_a_stream_of_its_own(shore: Shore) -> None:
    fill(shore, 3)
    stream = mirror(shore)
    config = stream.config.copy()
    config.mirror = None
    config.subjects = ["m.>"]
    shore.account.update(config)
    fill(shore, 2, 3)
    assert shore.publish(b"m.1") == {"stream": "MIRROR", "seq": 4}
    assert stream.feeds is not None
    assert stream.feeds.feeds == []
    shore.restart()
    assert seqs(shore.account.find("MIRROR")) == [1, 2, 3, 4]


def test_an_origin_may_come_later_go_and_come_again(shore: Shore) -> None:
    stream = shore.stream("LATE", subjects=[], mirror=StreamSource(name="NEW"))
    shore.engine.commit()
    assert (feed(stream).lag(), feed(stream).active_ns(1)) == (0, -1)
    shore.stream("NEW", subjects=["n.>"])
    shore.send(b"n.1")
    shore.engine.commit()
    assert seqs(stream) == [1]
    shore.account.delete("NEW")
    shore.engine.commit()
    shore.stream("NEW", subjects=["n.>"])
    for _ in range(2):
        shore.send(b"n.2")
    shore.engine.commit()
    # Its first message has a sequence that the mirror has already.
    assert contents(stream) == [(1, b"n.1", b""), (2, b"n.2", b"")]


def test_what_a_mirror_has_no_room_for_comes_when_it_has(shore: Shore) -> None:
    fill(shore, 4)
    stream = mirror(shore, max_msgs=2, discard="new")
    assert seqs(stream) == [1, 2]
    error = feed(stream).error
    assert error is not None
    assert error.err_code == 10077
    stream.purge()
    shore.advance(1.1)
    assert seqs(stream) == [3, 4]


def test_headers_and_ids_of_a_mirror_are_those_of_its_origin(shore: Shore) -> None:
    shore.publish(b"o.1", b"p", Nats_Msg_Id="x", Nats_Expected_Last_Sequence="0", X="1")
    stream = mirror(shore)
    assert headers(stream) == [block("Nats-Msg-Id: x", "Nats-Expected-Last-Sequence: 0", "X: 1")]


# ---- sources ----


def test_sources_come_with_where_they_are_from(shore: Shore) -> None:
    """FEED-1"""
    shore.stream("OTHER", subjects=["x.>"])
    shore.publish(b"o.1", b"one", X="1", Nats_Expected_Last_Sequence="0")
    shore.publish(b"x.1", b"two")
    stream = gather(shore, StreamSource(name="ORIGIN"), StreamSource(name="OTHER", filter_subject="x.>"))
    assert contents(stream) == [(1, b"o.1", b"one"), (2, b"x.1", b"two")]
    identity = identity_of(shore.clock.ns)
    assert headers(stream) == [
        block("X: 1", f"Nats-Stream-Source: ORIGIN 1 > > o.1 {identity}"),
        block(f"Nats-Stream-Source: OTHER 1 x.> > x.1 {identity}"),
    ]


def test_subjects_of_a_source_are_transformed_and_the_streams_own_way_too(shore: Shore) -> None:
    shore.publish(b"o.1", b"one")
    shore.publish(b"o.2", b"two")
    source = StreamSource(
        name="ORIGIN",
        subject_transforms=[SubjectTransform(src="o.1", dest="a.1"), SubjectTransform(src="o.2", dest="")],
    )
    stream = gather(shore, source, subject_transform=SubjectTransform(src="a.*", dest="b.$1"))
    assert [subject for _, subject, _ in contents(stream)] == [b"b.1", b"o.2"]
    assert b"Nats-Stream-Source: ORIGIN 1 o.1\fo.2 a.1\f> o.1" in headers(stream)[0]
    assert shore.account.create(stream.config) is stream


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("forgotten", [True, False])
def test_sources_go_on_after_a_restart(shore: Shore, clean: bool, forgotten: bool) -> None:
    """FEED-1"""
    shore.stream("OTHER", subjects=["x.>"])
    gather(shore, StreamSource(name="ORIGIN"), StreamSource(name="OTHER"), subjects=["own.>"])
    shore.publish(b"x.1")
    fill(shore, 6)
    shore.send(b"own.1")
    shore.engine.commit()
    if clean:
        shore.restart()
        if forgotten:
            shore.disk.remove("$G/streams/ALL/sources.json")
            shore.crash()
    else:
        shore.crash()
    fill(shore, 3, 6)
    shore.send(b"x.2")
    shore.engine.commit()
    subjects = [subject for _, subject, _ in contents(shore.account.find("ALL"))]
    assert subjects.count(b"x.1") == subjects.count(b"x.2") == 1
    assert len(subjects) == 12


def test_how_far_sources_are_outlives_their_messages(shore: Shore) -> None:
    stream = gather(shore, StreamSource(name="ORIGIN"))
    fill(shore, 5)
    stream.purge()
    shore.restart()
    fill(shore, 1, 5)
    assert [payload for _, _, payload in contents(shore.account.find("ALL"))] == [b"5"]


def test_how_far_sources_are_is_written_down_now_and_then(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOURCES_UNSAID", 10)
    gather(shore, StreamSource(name="ORIGIN"))
    for start in range(0, 30, 5):
        fill(shore, 5, start)
    document = shore.account.find("ALL").feeds.places.read()  # type: ignore[union-attr]
    assert document is not None
    assert document.next_seq > 10
    assert document.places["ORIGIN > >"].seq == document.next_seq - 1


def test_a_source_that_was_made_anew_comes_from_its_beginning(shore: Shore) -> None:
    stream = gather(shore, StreamSource(name="ORIGIN"))
    fill(shore, 3)
    shore.account.delete("ORIGIN")
    shore.clock.advance(seconds=1)
    shore.stream("ORIGIN", subjects=["o.>"])
    fill(shore, 2, 3)
    assert [payload for _, _, payload in contents(stream)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_message_that_came_before_is_passed(shore: Shore) -> None:
    stream = gather(shore, StreamSource(name="ORIGIN"), subjects=["own.>"])
    shore.publish(b"own.1", Nats_Msg_Id="x")
    shore.publish(b"o.1", Nats_Msg_Id="x")
    shore.publish(b"o.2")
    assert [subject for _, subject, _ in contents(stream)] == [b"own.1", b"o.2"]


def test_sources_may_be_changed(shore: Shore) -> None:
    shore.stream("OTHER", subjects=["x.>"])
    stream = gather(shore, StreamSource(name="ORIGIN"))
    fill(shore, 2)
    shore.send(b"x.1")
    config = stream.config.copy()
    config.sources = [StreamSource(name="OTHER")]
    shore.account.update(config)
    fill(shore, 2, 2)
    assert [subject for _, subject, _ in contents(stream)] == [b"o.0", b"o.1", b"x.1"]
    config = config.copy()
    config.sources = [StreamSource(name="OTHER"), StreamSource(name="ORIGIN")]
    shore.account.update(config)
    shore.engine.commit()
    assert len(contents(stream)) == 5


def test_counters_are_added_up_from_their_sources(shore: Shore) -> None:
    for name in ("EU", "US"):
        shore.stream(name, subjects=[f"{name}.>"], allow_msg_counter=True)
    sources = [
        StreamSource(name=name, subject_transforms=[SubjectTransform(src=f"{name}.>", dest="sum.>")])
        for name in ("EU", "US")
    ]
    stream = gather(shore, *sources, allow_msg_counter=True)
    for name, value in (("EU", 5), ("US", 7), ("EU", 1)):
        shore.publish(b"%s.hits" % name.encode(), Nats_Incr=str(value))
    assert contents(stream)[-1] == (3, b"sum.hits", b'{"val":"13"}')


def test_what_is_in_another_account_cannot_be_reached(shore: Shore) -> None:
    fill(shore, 1)
    near = gather(shore, StreamSource(name="ORIGIN", external=External(api="$JS.API")), name="NEAR")
    far = gather(shore, StreamSource(name="ORIGIN", external=External(api="JS.far")), name="FAR")
    assert (len(contents(near)), len(contents(far))) == (1, 0)
    assert feed(far).reader is None


def test_how_far_sources_are_outlives_that_they_are_taken_away(shore: Shore) -> None:
    stream = gather(shore, StreamSource(name="ORIGIN"), subjects=["own.>"])
    fill(shore, 3)
    config = stream.config.copy()
    config.sources = []
    shore.account.update(config)
    fill(shore, 2, 3)
    shore.publish(b"own.1")
    shore.crash()
    config = config.copy()
    config.sources = [StreamSource(name="ORIGIN")]
    shore.account.update(config)
    shore.engine.commit()
    payloads = [payload for _, _, payload in contents(shore.account.find("ALL"))]
    assert payloads == [b"0", b"1", b"2", b"", b"3", b"4"]


def test_how_far_sources_are_is_written_down_when_much_else_has_come(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOURCES_UNREAD", 10)
    gather(shore, StreamSource(name="ORIGIN"), subjects=["own.>"])
    for _ in range(12):
        shore.publish(b"own.1")
    shore.publish(b"own.1")
    document = shore.account.find("ALL").feeds.places.read()  # type: ignore[union-attr]
    assert document is not None
    assert document.next_seq > 10


# ---- across accounts ----


class Coast(Shore):
    """Another account, OTHER, whose streams are reached from $G while `reaches`."""

    reaches = True

    def open(self) -> Recovery:
        recovery = super().open()
        self.other = self.engine.open_account("OTHER", Interest())
        self.engine.reach = lambda name, _: self.other if self.reaches and name == "$G" else None
        self.engine.open_streams("OTHER")
        self.engine.commit()
        return recovery

    def fill_other(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.other.post.publish(b"o.x", payload)
        for _ in range(3):
            self.engine.commit()


def elsewhere() -> StreamSource:
    return StreamSource(name="ORIGIN", external=External(api="JS.OTHER", deliver="d"))


def test_a_mirror_of_a_stream_in_another_account() -> None:
    """FEED-1: also when its account is opened later, and when there is one of that name here."""
    coast = Coast()
    origin = StreamConfig(name="ORIGIN", subjects=["o.>"], max_msg_size=-1)
    coast.other.create(origin)
    coast.stream("ORIGIN", subjects=["own.>"])
    coast.publish(b"own.1", b"not this")
    coast.stream("COPY", subjects=[], mirror=elsewhere())
    coast.fill_other(b"1", b"2")
    assert [payload for _, _, payload in contents(coast.account.find("COPY"))] == [b"1", b"2"]
    coast.restart()
    coast.fill_other(b"3")
    assert [payload for _, _, payload in contents(coast.account.find("COPY"))] == [b"1", b"2", b"3"]
    coast.crash()
    coast.fill_other(b"4")
    assert len(contents(coast.account.find("COPY"))) == 4


def test_a_stream_in_another_account_that_comes_and_goes() -> None:
    """FEED-1"""
    coast = Coast()
    stream = coast.stream("ALL", subjects=[], sources=[elsewhere()])
    origin = StreamConfig(name="ORIGIN", subjects=["o.>"], max_msg_size=-1)
    coast.other.create(origin)
    coast.fill_other(b"1")
    coast.other.delete("ORIGIN")
    coast.clock.advance(seconds=1)
    coast.other.create(origin)
    coast.fill_other(b"2")
    coast.engine.close_account("OTHER")
    coast.engine.commit()
    coast.other = coast.engine.open_account("OTHER", Interest())
    coast.engine.open_streams("OTHER")
    coast.fill_other(b"3")
    assert [payload for _, _, payload in contents(stream)] == [b"1", b"2", b"3"]


def test_what_is_not_allowed_any_more_does_not_come() -> None:
    coast = Coast()
    stream = coast.stream("ALL", subjects=[], sources=[elsewhere()])
    coast.other.create(StreamConfig(name="ORIGIN", subjects=["o.>"], max_msg_size=-1))
    coast.fill_other(b"1")
    coast.reaches = False
    coast.engine.find_origins()
    coast.fill_other(b"2")
    assert [payload for _, _, payload in contents(stream)] == [b"1"]
    coast.reaches = True
    coast.engine.find_origins()
    coast.fill_other(b"3")
    assert [payload for _, _, payload in contents(stream)] == [b"1", b"2", b"3"]
