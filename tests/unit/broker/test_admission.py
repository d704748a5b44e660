"""Who comes in, who does not, and what they are told (SESS-1 to SESS-4)."""

import bcrypt
import pytest

from tidelog.base.errors import ConfigError
from tidelog.broker.settings import (
    AccountSettings,
    Authorization,
    BrokerSettings,
    Limits,
    Permissions,
    SubjectRights,
    User,
)
from unit.broker.house import House, Waiting, info_of, with_limits

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


# ---- INFO ----


def test_the_greeting() -> None:
    client = House().arrive(host="10.1.2.3")
    info = info_of(client.read())
    assert {key: info[key] for key in ("client_id", "client_ip", "headers", "max_payload", "proto")} == {
        "client_id": 1,
        "client_ip": "10.1.2.3",
        "headers": True,
        "max_payload": 1024 * 1024,
        "proto": 1,
    }
    assert not {"auth_required", "nonce", "ldm", "connect_info", "jetstream"} & set(info)


def test_authentication_is_announced_unless_one_may_do_without() -> None:
    guest = Authorization(users=(User("u", "p"), User("guest")), no_auth_user="guest")
    assert info_of(House(USERS).arrive().read())["auth_required"] is True
    assert "auth_required" not in info_of(House(BrokerSettings(authorization=guest)).arrive().read())


def test_every_client_signs_a_nonce_of_its_own() -> None:
    key = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
    house = House(BrokerSettings(authorization=Authorization(users=(User(nkey=key),))))
    nonces = {info_of(house.arrive().read())["nonce"] for _ in range(3)}
    assert len(nonces) == 3
    assert {len(nonce) for nonce in nonces} == {15}


def test_where_headers_are_switched_off() -> None:
    house = House(BrokerSettings(headers=False))
    client = house.arrive()
    assert info_of(client.read())["headers"] is False
    client.connect(headers=True)
    client.send(b"HPUB a 1 1\r\nx\r\n")
    assert client.reason == "Message Header Violation"


# ---- CONNECT ----


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"protocol": 2}, "invalid client protocol", "Bad Client Protocol Version"),
        ({"protocol": -1}, "invalid client protocol", "Bad Client Protocol Version"),
        ({"no_responders": True}, "no responders requires headers support", "No Responders Requires Headers"),
        ({"account": "A"}, "Authorization Violation", "Authentication Failure"),
        ({"new_account": True}, "Authorization Violation", "Authentication Failure"),
    ],
)
def test_what_cannot_be_agreed_upon(fields: dict[str, object], text: str, reason: str) -> None:
    client = House().arrive()
    client.read()
    client.connect(**fields)
    assert (client.read(), client.reason, client.ended) == (f"-ERR '{text}'\r\n".encode(), reason, True)


@pytest.mark.parametrize("document", [b"", b"x", b"[]", b'{"verbose":"yes"}', b'{"protocol":1.5}', b"{"])
def test_a_document_that_cannot_be_read_closes_without_a_word(document: bytes) -> None:
    client = House().arrive()
    client.read()
    client.send(b"CONNECT " + document + b"\r\n")
    assert (client.read(), client.reason) == (b"", "Protocol Violation")


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({"user": "u", "pass": "p"}, True),
        ({"user": "u", "pass": "x"}, False),
        ({"user": "x", "pass": "p"}, False),
        ({"user": "u"}, False),
        ({}, False),
    ],
)
def test_passwords(fields: dict[str, object], accepted: bool) -> None:
    house = House(USERS)
    client = house.arrive()
    client.read()
    client.connect(**fields)
    assert client.read() == (b"" if accepted else b"-ERR 'Authorization Violation'\r\n")
    assert client.reason == ("" if accepted else "Authentication Failure")
    assert client.session.connected is accepted
    assert not any(secret in text for _, text in house.log.lines for secret in ("'p'", '"p"', "pass"))


def test_a_second_connect_leads_into_another_account() -> None:
    """SESS-3: what belonged to the first identity is gone before the second is looked at."""
    accounts = (AccountSettings("A"), AccountSettings("B"))
    users = (User("a", "p", account="A"), User("b", "p", account="B"))
    house = House(BrokerSettings(accounts=accounts, authorization=Authorization(users=users)))
    client = house.client(user="a", **{"pass": "p"})
    client.send(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
    client.read()
    client.connect(user="b", **{"pass": "p"})
    assert (client.session.account_name, client.session.user, client.session.subscription_count) == (
        "B",
        "b",
        0,
    )
    client.send(b"PUB foo 2\r\nhi\r\n")
    assert client.read() == b""
    a, b = house.broker.account("A"), house.broker.account("B")
    assert [(one.client_count, one.subscription_count, one.in_msgs, one.out_msgs) for one in (a, b)] == [
        (0, 0, 1, 1),
        (1, 0, 1, 0),
    ]
    client.connect(user="a", **{"pass": "wrong"})
    assert client.reason == "Authentication Failure"
    assert (a.in_msgs, b.in_msgs, house.broker.in_msgs) == (1, 1, 2)


def test_fields_that_a_second_connect_leaves_out_stay_as_they_were() -> None:
    client = House().client(echo=False, name="one")
    client.send(b"CONNECT {}\r\nSUB foo 1\r\nPUB foo 0\r\n\r\n")
    assert client.read() == b""
    assert client.session.client_name == "one"


def test_who_gives_nothing_is_the_guest() -> None:
    accounts = (AccountSettings("A"),)
    users = (User("u", "p"), User("guest", "secret", account="A"))
    settings = BrokerSettings(
        accounts=accounts, authorization=Authorization(users=users, no_auth_user="guest")
    )
    house = House(settings)
    silent, polite = house.arrive(), house.arrive()
    silent.read()
    silent.send(b"SUB foo 1\r\n")
    assert silent.read() == b"+OK\r\n"
    polite.connect()
    assert [client.session.account_name for client in (silent, polite)] == ["A", "A"]
    house.advance(10)
    assert silent.reason == ""


# ---- time ----


@pytest.mark.parametrize("line", [b"", b"C", b'CONNECT {"user":"u"'])
def test_who_says_nothing_has_so_long(line: bytes) -> None:
    house = House(USERS)
    client = house.arrive()
    client.read()
    client.send(line)
    house.advance(1.999)
    assert client.reason == ""
    house.advance(0.001)
    assert client.read() == b"-ERR 'Authentication Timeout'\r\n"
    assert client.reason == "Authentication Timeout"


def test_who_is_in_has_no_timeout() -> None:
    house = House(USERS)
    client = house.client(user="u", **{"pass": "p"})
    house.advance(2)
    assert client.reason == ""
    everybody = House().arrive()
    everybody.read()
    assert everybody.session.auth_timer is None


# ---- slow checks ----


def waiting_house() -> tuple[House, Waiting]:
    waiting = Waiting()
    users = (User("ann", HASH), User("bob", "p"))
    return House(BrokerSettings(authorization=Authorization(users=users)), elsewhere=waiting), waiting


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_a_hash_is_compared_elsewhere_and_others_go_on(password: str) -> None:
    """SESS-2."""
    house, waiting = waiting_house()
    ann = house.arrive()
    ann.read()
    ann.connect(user="ann", **{"pass": password})
    bob = house.client(user="bob", **{"pass": "p"})
    bob.send(b"PING\r\n")
    assert bob.read() == b"PONG\r\n"
    assert (ann.session.suspended, ann.session.connected, ann.reason) == (True, False, "")
    waiting.answer()
    assert ann.session.connected is (password == "secret")
    assert ann.read() == (b"" if password == "secret" else b"-ERR 'Authorization Violation'\r\n")


def test_an_answer_for_who_has_gone_is_for_nobody() -> None:
    house, waiting = waiting_house()
    ann = house.arrive()
    ann.connect(user="ann", **{"pass": "secret"})
    house.broker.close(ann.session, "Client Closed")
    ann.read()
    waiting.answer()
    assert (ann.read(), ann.reason, ann.resumed) == (b"", "Client Closed", 0)
    assert house.broker.client_count == 0


def test_a_reload_during_the_check_asks_anew() -> None:
    house, waiting = waiting_house()
    ann = house.arrive()
    ann.read()
    ann.connect(user="ann", **{"pass": "secret"})
    other = (User("ann", bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()),)
    house.reload(BrokerSettings(authorization=Authorization(users=other)))
    waiting.answer()
    assert (ann.session.connected, ann.session.suspended, ann.reason) == (False, True, "")
    waiting.answer()
    assert ann.reason == "Authentication Failure"


# ---- full house ----


@pytest.mark.parametrize(("most", "let_in"), [(2, [True, True, False]), (0, [True] * 3), (-1, [False] * 3)])
def test_max_connections(most: int, let_in: list[bool]) -> None:
    house = House(with_limits(max_connections=most))
    clients = [house.arrive() for _ in range(3)]
    assert [client.reason == "" for client in clients] == let_in
    if not let_in[-1]:
        assert clients[-1].read().endswith(b"-ERR 'maximum connections exceeded'\r\n")
        assert clients[-1].reason == "Maximum Connections Exceeded"
    assert house.broker.client_count == sum(let_in)


def test_max_connections_of_an_account() -> None:
    users = (User("a", "p", account="A"), User("b", "p"))
    settings = BrokerSettings(
        accounts=(AccountSettings("A", max_connections=1),), authorization=Authorization(users=users)
    )
    house = House(settings)
    first = house.client(user="a", **{"pass": "p"})
    second = house.arrive()
    second.read()
    second.connect(user="a", **{"pass": "p"})
    assert second.read() == b"-ERR 'maximum account active connections exceeded'\r\n"
    assert second.reason == "Maximum Account Connections Exceeded"
    first.connect(user="a", **{"pass": "p"})
    assert first.reason == ""
    house.broker.close(first.session, "Client Closed")
    assert house.client(user="a", **{"pass": "p"}).reason == ""


# ---- reload ----


def rights(allow: tuple[str, ...]) -> Permissions:
    return Permissions(subscribe=SubjectRights(allow=allow))


def test_a_reload_takes_away_what_is_no_longer_allowed() -> None:
    house = House(BrokerSettings(authorization=Authorization(users=(User("u", "p"),))))
    client = house.client(user="u", **{"pass": "p"})
    client.send(b"SUB foo 1\r\nSUB bar 2\r\nSUB bar q 3\r\n")
    house.reload(
        BrokerSettings(authorization=Authorization(users=(User("u", "p", permissions=rights(("foo",))),)))
    )
    assert sorted(client.read().splitlines(keepends=True)) == [
        b'-ERR \'Permissions Violation for Subscription to "bar" (sid "2")\'\r\n',
        b'-ERR \'Permissions Violation for Subscription to "bar" using queue "q" (sid "3")\'\r\n',
    ]
    client.send(b"PUB foo 0\r\n\r\nPUB bar 0\r\n\r\n")
    assert client.read() == b"MSG foo 1 0\r\n\r\n"
    assert (client.reason, house.broker.subscription_count) == ("", 1)


def test_a_reload_changes_what_may_be_published_and_received_at_once() -> None:
    house = House(BrokerSettings(authorization=Authorization(users=(User("u", "p"), User("v", "p")))))
    client, other = house.client(user="u", **{"pass": "p"}), house.client(user="v", **{"pass": "p"})
    client.send(b"SUB > 1\r\nPUB no 0\r\n\r\n")
    other.send(b"PUB no 0\r\n\r\n")
    assert client.read() == b"MSG no 1 0\r\n\r\n" * 2
    denied = SubjectRights(deny=("no",))
    users = (User("u", "p", permissions=Permissions(publish=denied, subscribe=denied)), User("v", "p"))
    house.reload(BrokerSettings(authorization=Authorization(users=users)))
    other.send(b"PUB no 0\r\n\r\nPUB yes 0\r\n\r\n")
    client.send(b"PUB no 0\r\n\r\n")
    assert client.read() == (b"MSG yes 1 0\r\n\r\n-ERR 'Permissions Violation for Publish to \"no\"'\r\n")


def test_a_reload_that_changes_a_password_sends_its_user_away() -> None:
    house = House(USERS)
    client = house.client(user="u", **{"pass": "p"})
    house.reload(BrokerSettings(authorization=Authorization(user="u", password="other")))
    assert client.read() == b"-ERR 'Authorization Violation'\r\n"
    assert client.reason == "Authentication Failure"


def test_limits_of_a_reload_hold_for_those_who_are_in() -> None:
    house = House()
    client = house.client()
    house.reload(with_limits(max_payload=5, max_subscriptions=1, max_control_line=64))
    client.send(b"SUB a 1\r\nSUB b 2\r\n")
    assert client.read() == b"-ERR 'maximum subscriptions exceeded'\r\n"
    client.send(b"PUB a 6\r\n")
    assert client.reason == "Maximum Message Payload Exceeded"


def test_settings_that_cannot_be_compiled_change_nothing() -> None:
    """SESS-4."""
    house = House(USERS)
    client = house.client(user="u", **{"pass": "p"})
    broken = Permissions(publish=SubjectRights(allow=("a..b",)))
    bad = BrokerSettings(
        limits=Limits(max_payload=1), authorization=Authorization(users=(User("u", "x", permissions=broken),))
    )
    with pytest.raises(ConfigError):
        house.broker.apply(bad)
    assert house.broker.settings is USERS
    house.broker.admission.review()
    assert client.reason == ""
    assert house.client(user="u", **{"pass": "p"}).session.connected
