"""What clients get that ask for more than they read, or that end no line."""

import pytest

from unit.broker.house import House, with_limits


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("extra", "refused"), [(0, False), (1, True)])
def test_a_bare_verb_is_bounded_like_any_line_however_it_is_cut(cut: bool, extra: int, refused: bool) -> None:
    client = House(with_limits(max_control_line=32)).arrive()
    client.read()
    line = b"PING".ljust(32 + extra) + b"\n"
    for part in (line[:-1], line[-1:]) if cut else (line,):
        client.send(part)
    assert client.reason == ("Maximum Control Line Exceeded" if refused else "")
    assert client.read() == (b"-ERR 'maximum control line exceeded'\r\n" if refused else b"PONG\r\n")


def test_answers_that_nobody_reads_make_a_slow_consumer() -> None:
    house = House(with_limits(max_pending=1000))
    client = house.client()
    client.send(b"PING\r\n" * (1000 // 6))
    assert client.session.pending_size == 1000 // 6 * 6
    assert not client.reason
    client.send(b"PING\r\n")
    assert client.reason == "Slow Consumer (Pending Bytes)"
    assert client.ended is False
    assert house.broker.slow_consumers == 1


def test_a_ping_that_makes_a_slow_consumer_is_the_last() -> None:
    house = House(with_limits(max_pending=1000, ping_interval_ns=10_000_000_000))
    client = house.client()
    client.send(b"PING\r\n" * (1000 // 6))
    house.advance(60)
    assert client.reason == "Slow Consumer (Pending Bytes)"
    assert house.broker.timers.next_due_ns() is None
