"""Who is called when something is committed, and who is not."""

import pytest

from tidelog.log.filter import Filter
from unit.log.log_case import LogCase


@pytest.fixture
def case() -> LogCase:
    return LogCase()


def put(case: LogCase, *subjects: bytes) -> None:
    """One commit."""
    for subject in subjects:
        case.log.append(subject, b"")
    case.log.commit()


def test_a_follower_is_called_once_and_for_what_it_wants(case: LogCase) -> None:
    """FOLLOW-1."""
    calls: list[int] = []
    follower = case.log.follow(Filter(b"a.*"), lambda: calls.append(case.log.state().last_seq))
    put(case, b"a.1")
    follower.wait()
    put(case, b"b.1", b"a.1.2")
    assert calls == []
    put(case, b"b.1", b"a.1", b"a.2")
    put(case, b"a.1")
    assert calls == [6]
    assert case.log.horizon.waiting() == 0


def test_what_nobody_wants_calls_none_of_a_thousand(case: LogCase) -> None:
    """FOLLOW-2: and those who want it are found among them."""
    calls: list[int] = []
    for number in range(1000):
        case.log.follow(Filter(b"device.%d" % number), lambda n=number: calls.append(n)).wait()
    put(case, b"other", b"device.1000", b"other")
    assert calls == []
    put(case, b"device.7", b"other", b"device.1000", b"device.500")
    assert calls == [7, 500]
    assert case.log.horizon.waiting() == 998


def test_a_subject_that_nobody_wanted_is_wanted_by_who_comes(case: LogCase) -> None:
    calls: list[bytes] = []
    case.log.follow(Filter(b"a"), lambda: calls.append(b"a")).wait()
    put(case, b"b", b"b")
    case.log.follow(Filter(b"b"), lambda: calls.append(b"b")).wait()
    put(case, b"b")
    assert calls == [b"b"]


def test_what_was_appended_before_somebody_came_is_heard_of(case: LogCase) -> None:
    """FOLLOW-1: nobody has noted it."""
    calls: list[int] = []
    case.log.append(b"a", b"")
    case.log.follow(Filter(b"a"), lambda: calls.append(1)).wait()
    case.log.commit()
    assert calls == [1]


def test_the_number_of_a_subject_may_become_that_of_another(case: LogCase) -> None:
    """The mark of one that nobody wanted must not stand for one that somebody wants."""
    calls: list[int] = []
    follower = case.log.follow(Filter(b"wanted"), lambda: calls.append(1))
    put(case, b"unwanted", b"unwanted")
    case.log.purge()
    follower.wait()
    put(case, b"wanted")
    assert calls == [1]


def test_several_patterns_of_which_two_match_call_once(case: LogCase) -> None:
    calls: list[int] = []
    case.log.follow(Filter(b"a.*", b"*.b"), lambda: calls.append(1)).wait()
    put(case, b"a.b")
    assert calls == [1]


def test_who_looks_at_many_for_few_calls_all(case: LogCase) -> None:
    """Hundreds who do not wait are on every route; one who waits for something else is called in vain."""
    calls: list[int] = []
    for number in range(600):
        case.log.follow(Filter(b"a.>"), lambda n=number: calls.append(n))
    lonely = case.log.follow(Filter(b"b"), lambda: calls.append(-1))
    lonely.wait()
    put(case, *(b"a.%d" % number for number in range(100)))
    assert calls == [-1]


def test_who_asks_for_anything_is_called_by_anything(case: LogCase) -> None:
    calls: list[int] = []
    follower = case.log.follow(Filter(b"a"), lambda: calls.append(1))
    follower.wait(anything=True)
    put(case, b"b")
    assert calls == [1]


def test_who_has_ended_or_rests_is_not_called(case: LogCase) -> None:
    calls: list[int] = []
    followers = [case.log.follow(Filter(b"a"), lambda: calls.append(1)) for _ in range(2)]
    for follower in followers:
        follower.wait()
    followers[0].rest()
    followers[1].end()
    put(case, b"a")
    assert calls == []
    followers[0].wait()
    put(case, b"a")
    assert calls == [1]


def test_a_follower_may_wait_again_and_end_others_when_it_is_called(case: LogCase) -> None:
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        second.end()
        one.wait()

    one = case.log.follow(Filter(b"a"), first)
    second = case.log.follow(Filter(b"a"), lambda: calls.append("second"))
    one.wait()
    second.wait()
    put(case, b"a")
    put(case, b"a")
    assert calls == ["first", "first"]
