"""When messages expire."""

from tidelog.log.expiry import FOREVER, NS, Expiries


def test_what_is_due_comes_in_order_and_not_before_its_time() -> None:
    expiries = Expiries()
    times = [5 * NS, 3 * NS + 7, 3 * NS + 2, 9 * NS, 3 * NS + 7, 0]
    for seq, expiry_ns in enumerate(times, 1):
        expiries.add(expiry_ns, seq)
    expiries.add(FOREVER, 99)
    assert len(expiries) == 6
    assert expiries.take_due(3 * NS + 1, 10) == [6]
    assert expiries.next_due_ns() == 3 * NS + 2
    assert expiries.take_due(3 * NS + 6, 10) == [3]
    assert sorted(expiries.listed()) == sorted((times[seq - 1], seq) for seq in (1, 2, 4, 5))
    assert expiries.take_due(9 * NS, 2) == [2, 5]
    assert expiries.take_due(9 * NS, 10) == [1, 4]
    assert (expiries.next_due_ns(), len(expiries)) == (None, 0)


def test_what_comes_late_is_due_at_once() -> None:
    expiries = Expiries()
    expiries.add(5 * NS + 500, 1)
    assert expiries.next_due_ns() == 5 * NS
    assert expiries.take_due(5 * NS, 10) == []
    expiries.add(5 * NS + 400, 2)
    expiries.add(2 * NS, 3)
    assert expiries.next_due_ns() == 2 * NS
    assert expiries.take_due(6 * NS, 10) == [3, 2, 1]


def test_a_second_may_be_taken_in_parts() -> None:
    expiries = Expiries()
    for seq in range(100):
        expiries.add(NS + seq, seq)
    taken = [seq for _ in range(10) for seq in expiries.take_due(2 * NS, 10)]
    assert taken == list(range(100))
