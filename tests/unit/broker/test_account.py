"""Accounts: who is in, and counters that stay exact however members move (SESS-11)."""

from tidelog.base.chance import Chance
from tidelog.broker.account import Account
from tidelog.broker.settings import AccountSettings
from tidelog.broker.view import InterestStats
from unit.broker.house import House

PUBLISH = b"PUB foo 3\r\nabc\r\n"


def counters(account: Account) -> tuple[int, int, int, int]:
    return account.in_msgs, account.in_bytes, account.out_msgs, account.out_bytes


def test_what_a_member_did_elsewhere_is_not_counted_here() -> None:
    house = House()
    client = house.client()
    client.send(b"SUB foo 1\r\n" + PUBLISH * 2)
    first, second = house.broker.account("$G"), Account(AccountSettings("B"), Chance(1), 0)
    first.leave(client.session)
    second.enter(client.session)
    client.send(PUBLISH)
    assert (counters(first), counters(second)) == ((2, 6, 2, 6), (1, 3, 1, 3))
    second.leave(client.session)
    first.enter(client.session)
    client.send(PUBLISH)
    assert (counters(first), counters(second)) == ((3, 9, 3, 9), (1, 3, 1, 3))


def test_leaving_twice_counts_once() -> None:
    house = House()
    client = house.client()
    client.send(PUBLISH)
    account = house.broker.account("$G")
    account.leave(client.session)
    account.leave(client.session)
    assert counters(account) == (1, 3, 0, 0)
    assert list(account.sessions()) == []


def test_figures_of_the_interest() -> None:
    house = House()
    client = house.client()
    client.send(b"SUB foo 1\r\nSUB foo q 2\r\nSUB bar 3\r\nUNSUB 3\r\n" + PUBLISH * 3)
    assert house.broker.account("$G").interest_stats() == InterestStats(
        subscriptions=2,
        cached_routes=1,
        inserts=3,
        removes=1,
        matches=1,
        cache_hits=0,
        max_fanout=2,
        total_fanout=2,
    )


def test_the_server_may_listen_and_speak_in_an_account() -> None:
    house, heard = House(), []
    account = house.broker.account("$G")
    account.listen(b"svc.*", lambda *what: heard.append(what))
    client = house.client(headers=True, no_responders=True)
    client.send(b"SUB r 1\r\nPUB svc.x r 2\r\nhi\r\n")
    account.publish(b"r", b"answer")
    assert heard == [(b"svc.x", b"r", b"hi", client.session)]
    assert client.read() == b"MSG r 1 6\r\nanswer\r\n"
    assert account.subscription_count == 1


def test_settings_may_change_and_say_when() -> None:
    account = Account(AccountSettings("A"), Chance(1), 5)
    assert (account.name, account.updated_ns, account.leaf_count) == ("A", 5, 0)
    account.apply(AccountSettings("A", max_payload=3), 9)
    assert (account.settings.max_payload, account.updated_ns) == (3, 9)
