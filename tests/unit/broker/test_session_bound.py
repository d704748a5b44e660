"""What clients get that ask for more than they read, or that end no line."""

import tracemalloc

import pytest

from tidelog.broker.settings import Authorization, BrokerSettings, Permissions, SubjectRights, User
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


def test_long_subjects_are_not_remembered_by_who_may_publish() -> None:
    rights = Permissions(publish=SubjectRights(allow=("a",)))
    user = User("ann", "p", permissions=rights)
    house = House(BrokerSettings(authorization=Authorization(users=(user,))))
    client = house.client(user="ann", **{"pass": "p"})
    tracemalloc.start()
    try:
        for number in range(500):
            client.send(b"PUB %04000d 0\r\n\r\n" % number)
            client.read()
            house.log.lines.clear()
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


def test_a_misspelt_connect_takes_no_secret_to_the_log() -> None:
    house = House()
    house.arrive().send(b'CONECT {"pass":"hunter2"}\r\n')
    assert [line for line in house.log.of("error") if "CONECT" in line]
    assert "hunter2" not in str(house.log.lines)
