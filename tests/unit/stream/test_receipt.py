"""Answers that wait: in order, each once, and only when what they tell is true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.chance import Chance
from tidelog.base.limits import RECEIPTS_ROOM_FIRST, RECEIPTS_ROOM_KEPT
from tidelog.stream.post import Post
from tidelog.stream.receipt import Receipts
from tidelog.subject.interest import Interest
from tidelog.subject.route import Callback, Subscription


class Ear:
    """Somebody who listens to everything, and what was heard."""

    def __init__(self) -> None:
        self.interest = Interest()
        self.post = Post(self.interest, Chance(1))
        self.heard: list[tuple[bytes, bytes]] = []
        self.also = lambda: None
        self.interest.insert(Subscription(b">", b"", b"", Callback(self.hear)))

    def hear(self, subject: bytes, _reply: bytes | None, payload: bytes, _origin: object) -> None:
        self.heard.append((subject, payload))
        self.also()


@pytest.fixture
def ear() -> Ear:
    return Ear()


def test_an_acknowledgement_leaves_when_its_sequence_is_committed(ear: Ear) -> None:
    receipts = Receipts(b'{"stream":"S","seq":')
    receipts.put(9, b"r.9")
    receipts.put(10, b"r.10")
    receipts.put(10, b"r.error", b"no")
    receipts.put(18_446_744_073_709_551_615, b"r.last")
    receipts.send_up_to(ear.post, 8)
    assert ear.heard == []
    receipts.send_up_to(ear.post, 10)
    assert ear.heard == [
        (b"r.9", b'{"stream":"S","seq":9}'),
        (b"r.10", b'{"stream":"S","seq":10}'),
        (b"r.error", b"no"),
    ]
    receipts.send_up_to(ear.post, 2**64 - 1)
    assert ear.heard[3:] == [(b"r.last", b'{"stream":"S","seq":18446744073709551615}')]
    assert receipts.count == 0


def test_an_answer_that_brings_others_is_sent_once_and_they_wait(ear: Ear) -> None:
    receipts = Receipts(b"")

    def ask_more() -> None:
        if len(ear.heard) <= 2:
            for number in range(RECEIPTS_ROOM_FIRST // 16):
                receipts.put(3, b"more.%d" % number)

    ear.also = ask_more
    receipts.put(1, b"a" * 100)
    receipts.put(2, b"b" * 100)
    receipts.put(5, b"c")
    receipts.send_up_to(ear.post, 3)
    assert [subject for subject, _ in ear.heard] == [b"a" * 100, b"b" * 100]
    ear.also = lambda: None
    receipts.send_up_to(ear.post, 5)
    assert len(ear.heard) == 3 + 2 * (RECEIPTS_ROOM_FIRST // 16)


def test_when_nothing_more_is_committed_all_are_told_so(ear: Ear) -> None:
    receipts = Receipts(b"")
    receipts.put(1, b"a")
    receipts.put(2, b"b", b"an error of its own")
    receipts.send_instead(ear.post, b"failed")
    assert ear.heard == [(b"a", b"failed"), (b"b", b"failed")]
    receipts.send_up_to(ear.post, 9)
    assert len(ear.heard) == 2


def test_the_front_is_bounded() -> None:
    Receipts(b"x" * 1024)
    with pytest.raises(ValueError, match="1025 bytes"):
        Receipts(b"x" * 1025)


@pytest.mark.parametrize("room", [RECEIPTS_ROOM_FIRST, RECEIPTS_ROOM_KEPT])
def test_entries_fill_the_room_to_its_edge_and_beyond(ear: Ear, room: int) -> None:
    for size in (room - 17, room - 16, room - 15):
        receipts = Receipts(b"")
        receipts.put(1, b"r" * size)
        receipts.put(2, b"after")
        receipts.send_up_to(ear.post, 2)
        assert ear.heard == [(b"r" * size, b"1}"), (b"after", b"2}")]
        receipts.put(3, b"again")
        receipts.send_up_to(ear.post, 3)
        assert ear.heard.pop() == (b"again", b"3}")
        ear.heard.clear()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300), st.booleans(), st.integers(0, 4)), max_size=60)
)
def test_whatever_comes_leaves_in_order(steps: list[tuple[int, int, bool, int]]) -> None:
    """STREAM-1"""
    ear, receipts = Ear(), Receipts(b"")
    seq, wanted, released = 0, [], 0
    for more, size, has_answer, back in steps:
        seq += more
        answer = b"x" * size if has_answer else b""
        receipts.put(seq, b"r" * size, answer)
        wanted.append((seq, b"r" * size, answer or b"%d}" % seq))
        released = max(released, seq - back)
        receipts.send_up_to(ear.post, released)
        assert ear.heard == [(reply, payload) for at, reply, payload in wanted if at <= released]
        assert receipts.count == len(wanted) - len(ear.heard)
