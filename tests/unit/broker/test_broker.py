"""The broker: who is still there, who may not stay, what is remembered, and what is counted."""

import pytest

from tidelog.broker.settings import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccountSettings,
    Authorization,
    BrokerSettings,
    Limits,
    User,
)
from tidelog.broker.view import WEBSOCKET
from unit.broker.house import Client, House, info_of, with_limits

SECOND_NS = 1_000_000_000


def patient(interval_s: int, most: int = 2) -> BrokerSettings:
    return with_limits(ping_interval_ns=interval_s * SECOND_NS, ping_max=most)


# ---- pings ----


def test_the_first_ping_comes_soon_after_connect_and_not_for_all_at_once() -> None:
    """SESS-9."""
    house = House()
    clients = [house.client() for _ in range(20)]
    house.advance(1.999)
    assert [client.read() for client in clients] == [b""] * 20
    house.advance(0.401)
    assert [client.read() for client in clients] == [b"PING\r\n"] * 20
    due = sorted(client.session.rtt_start_ns for client in clients)
    assert due[-1] - due[0] > 0.1 * SECOND_NS


def test_the_round_trip_is_measured() -> None:
    house = House()
    client = house.arrive()
    house.advance(0.25)
    client.connect()
    assert client.session.rtt_ns == SECOND_NS // 4
    house.advance(2.5)
    house.advance(0.1)
    client.send(b"PONG\r\n")
    assert client.session.rtt_ns == house.clock.ns - client.session.rtt_start_ns
    assert client.session.pings_out == 0


def test_a_pong_that_nobody_asked_for_measures_nothing() -> None:
    house = House()
    client = house.client()
    before = client.session.rtt_ns
    client.send(b"PONG\r\n")
    assert client.session.rtt_ns == before


def test_who_talks_is_not_pinged() -> None:
    house = House(patient(10))
    client = house.client()
    house.advance(2.5)
    assert client.read() == b"PING\r\n"
    for _ in range(20):
        client.send(b"PONG\r\n")
        client.session.last_in_ns = house.clock.ns
        house.advance(3)
    assert client.read() == b""
    house.advance(20)
    assert client.read().startswith(b"PING\r\n")


def test_who_talks_is_measured_again_after_an_hour() -> None:
    house = House(patient(600))
    client = house.client()
    house.advance(2.5)
    client.send(b"PONG\r\n")
    client.read()
    for _ in range(8):
        house.advance(450)
        client.session.last_in_ns = house.clock.ns
    assert client.read() == b""
    house.advance(600)
    client.session.last_in_ns = house.clock.ns
    house.advance(150)
    assert client.read() == b"PING\r\n"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_who_does_not_answer_is_stale(most: int) -> None:
    house = House(patient(10, most))
    client = house.client()
    house.advance(2.4 + 10 * (most - 1))
    assert client.read() == b"PING\r\n" * most
    assert client.reason == ""
    house.advance(10)
    assert client.read() == b"-ERR 'Stale Connection'\r\n"
    assert client.reason == "Stale Connection"
    assert house.broker.stale_connections == 1
    assert house.broker.timers.next_due_ns() is None


def test_who_never_connects_is_pinged_too() -> None:
    house = House(patient(10))
    client = house.arrive()
    client.read()
    house.advance(9.9)
    assert client.read() == b""
    house.advance(20.2)
    assert client.read() == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"


def test_a_short_interval_is_that_of_the_first_ping_too() -> None:
    house = House(with_limits(ping_interval_ns=SECOND_NS // 2))
    client = house.client()
    house.advance(0.61)
    assert client.read() == b"PING\r\n"


# ---- slow consumers ----


def test_what_is_logged_of_slow_consumers() -> None:
    house = House(with_limits(write_deadline_ns=2_500_000_000))
    one, two = house.client(), house.client()
    one.session.recipient.bound(10)
    one.send(b"PING\r\nPING\r\n")
    two.send(b"PING\r\n")
    house.broker.slow_consumer(two.session, "Slow Consumer (Write Deadline)")
    assert house.log.of("info") == [
        f"{one.session.label} - Slow Consumer Detected: MaxPending of 10 Exceeded with 12 bytes pending.",
        f"{two.session.label} - Slow Consumer Detected: WriteDeadline of 2.5s exceeded with 6 bytes pending.",
    ]
    assert [client.reason for client in (one, two)] == [
        "Slow Consumer (Pending Bytes)",
        "Slow Consumer (Write Deadline)",
    ]
    house.broker.slow_consumer(two.session)
    assert house.broker.slow_consumers == 2


# ---- the end ----


def test_a_session_is_closed_once() -> None:
    house = House()
    client = house.client()
    house.broker.close(client.session, "Client Closed", flush=False)
    house.broker.close(client.session, "Parse Error")
    assert (client.reason, client.ended) == ("Client Closed", False)
    assert len(house.broker.closed) == 1
    assert house.broker.timers.next_due_ns() is None


def test_what_is_remembered_of_closed_sessions() -> None:
    house = House(with_limits(max_closed_clients=2))
    for _ in range(3):
        client = house.client(name="n", lang="python3", version="1")
        client.send(b"SUB foo 1\r\nUNSUB 1 9\r\nPUB foo 2\r\nhi\r\n")
        house.advance(1)
        house.broker.close(client.session, "Client Closed")
    first, last = house.broker.closed_sessions()
    assert (first.cid, last.cid) == (2, 3)
    assert (last.reason, last.client_name, last.lang, last.version) == ("Client Closed", "n", "python3", "1")
    assert (last.in_msgs, last.in_bytes, last.out_msgs, last.out_bytes) == (1, 2, 1, 2)
    assert last.stop_ns - last.start_ns == SECOND_NS
    assert [(sub.subject, sub.sid, sub.delivered, sub.max_msgs) for sub in last.subscriptions()] == [
        (b"foo", b"1", 1, 9)
    ]
    house.reload(with_limits(max_closed_clients=1))
    assert [closed.cid for closed in house.broker.closed_sessions()] == [3]


def test_totals_outlive_their_sessions() -> None:
    house = House()
    listener, client = house.client(), house.client()
    listener.send(b"SUB > 1\r\n")
    client.send(b"PUB foo 3\r\nabc\r\n" * 4)
    broker = house.broker

    def totals() -> tuple[int, ...]:
        return broker.in_msgs, broker.in_bytes, broker.out_msgs, broker.out_bytes

    assert totals() == (4, 12, 4, 12)
    broker.close(client.session, "Client Closed")
    broker.close(listener.session, "Client Closed")
    assert totals() == (4, 12, 4, 12)
    account = broker.account(GLOBAL_ACCOUNT)
    assert (account.in_msgs, account.in_bytes, account.out_msgs, account.out_bytes) == (4, 12, 4, 12)
    assert (broker.total_connections, broker.client_count, broker.subscription_count) == (2, 0, 0)


# ---- INFO again ----


def understanding(house: House) -> list[Client]:
    return [house.client(protocol=1), house.client(protocol=0), house.arrive()]


def test_lame_duck_is_told_to_who_understands_it() -> None:
    house = House()
    modern, old, silent = understanding(house)
    silent.read()
    house.broker.announce_lame_duck()
    assert info_of(modern.read())["ldm"] is True
    assert (old.read(), silent.read()) == (b"", b"")
    assert [client.reason for client in (modern, old, silent)] == [""] * 3
    assert info_of(house.arrive().read())["ldm"] is True


def test_info_goes_out_again_with_what_has_changed() -> None:
    house = House()
    modern = house.client(protocol=1)
    house.reload(with_limits(max_payload=99))
    house.broker.announce()
    info = info_of(modern.read())
    assert info["max_payload"] == 99
    assert "ldm" not in info


# ---- who is who ----


def test_labels_name_address_and_number() -> None:
    house = House()
    assert house.arrive("1.2.3.4", 5).session.label == "1.2.3.4:5 - cid:1"
    assert house.arrive("::1", 5).session.label == "[::1]:5 - cid:2"
    assert house.arrive("1.2.3.4", 5, WEBSOCKET).session.label == "1.2.3.4:5 - wid:3"


def test_there_is_always_a_global_and_a_system_account() -> None:
    house = House()
    assert [account.name for account in house.broker.accounts()] == [GLOBAL_ACCOUNT, SYSTEM_ACCOUNT]
    named = BrokerSettings(accounts=(AccountSettings("A"),), system_account="A")
    assert {account.name for account in House(named).broker.accounts()} == {"A", GLOBAL_ACCOUNT}


def test_accounts_come_and_go_with_reloads() -> None:
    users = (User("u", "p", account="A"),)
    before = BrokerSettings(accounts=(AccountSettings("A"),), authorization=Authorization(users=users))
    house = House(before)
    client = house.client(user="u", **{"pass": "p"})
    client.send(b"SUB foo 1\r\n")
    kept = house.broker.account("A")
    house.reload(
        BrokerSettings(
            accounts=(AccountSettings("A", max_subscriptions=9),), authorization=before.authorization
        )
    )
    assert house.broker.account("A") is kept
    assert (client.reason, kept.subscription_count) == ("", 1)
    house.reload(BrokerSettings())
    assert client.session.closed
    assert [account.name for account in house.broker.accounts()] == [GLOBAL_ACCOUNT, SYSTEM_ACCOUNT]
    assert kept.subscription_count == 0


def test_accounts_do_not_hear_each_other() -> None:
    """ROUTE-7."""
    users = (User("a", "p", account="A"), User("b", "p", account="B"), User("c", "p"))
    accounts = (AccountSettings("A"), AccountSettings("B"))
    house = House(BrokerSettings(accounts=accounts, authorization=Authorization(users=users)))
    clients = [house.client(user=user.name, **{"pass": "p"}) for user in users]
    for client in clients:
        client.send(b"SUB > 1\r\nSUB > q 2\r\n")
    clients[0].send(b"PUB foo 0\r\n\r\n")
    assert [bool(client.read()) for client in clients] == [True, False, False]


def test_a_house_without_limits_on_connections() -> None:
    house = House(BrokerSettings(limits=Limits(max_connections=0)))
    assert not any(house.arrive().reason for _ in range(5))
