"""Who comes in, who does not, and what they are told (SESS-1 to SESS-4)."""

import bcrypt
import pytest

from tidelog.broker.settings import Authorization, BrokerSettings, User
from unit.broker.house import House, Waiting

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
USERS = BrokerSettings(authorization=Authorization(user="u", password="p"))


@pytest.mark.parametrize(
    "line", [b"PUB foo 2\r\nhi\r\n", b"SUB foo 9\r\n", b"PING\r\n", b"UNSUB 1\r\n", b"x", b"p"]
)
def test_nothing_is_done_for_who_has_not_said_who_it_is(line: bytes) -> None:
    """SESS-1."""
    house = House(USERS)
    witness = house.client(user="u", **{"pass": "p"})
    witness.send(b"SUB > 1\r\n")
    stranger = house.arrive()
    stranger.read()
    stranger.send(line)
    assert stranger.read() == b"-ERR 'Authorization Violation'\r\n"
    assert stranger.reason == "Authentication Failure"
    assert witness.read() == b""
    assert house.broker.subscription_count == 1
    assert house.broker.in_msgs == 0


def test_nothing_is_done_while_the_password_of_a_client_without_connect_is_checked() -> None:
    """SESS-2: a hashed token is compared elsewhere; until then the first operation waits unread."""
    waiting = Waiting()
    house = House(BrokerSettings(authorization=Authorization(token=HASH)), elsewhere=waiting)
    stranger = house.arrive()
    stranger.read()
    stranger.send(b"PUB foo 2\r\nhi\r\n")
    assert stranger.session.suspended
    assert house.broker.in_msgs == 0
    waiting.answer()
    assert stranger.read() == b"-ERR 'Authorization Violation'\r\n"
    assert house.broker.in_msgs == 0


def test_a_suspended_session_reads_nothing() -> None:
    """SESS-2: even if its transport hands over more."""
    waiting = Waiting()
    users = (User("ann", HASH),)
    house = House(BrokerSettings(authorization=Authorization(users=users)), elsewhere=waiting)
    ann = house.arrive()
    ann.read()
    ann.connect(user="ann", **{"pass": "secret"})
    ann.send(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPI")
    ann.send(b"NG\r\n")
    assert ann.read() == b""
    assert not ann.session.connected
    waiting.answer()
    assert ann.read() == b"MSG foo 1 2\r\nhi\r\nPONG\r\n"
    assert (ann.resumed, ann.carry, ann.session.suspended) == (1, b"", False)
