"""What a reload means for those who are not quite in."""

from tidelog.broker.settings import (
    AccountSettings,
    Authorization,
    BrokerSettings,
    Permissions,
    SubjectRights,
    User,
)
from tidelog.broker.view import NATS
from unit.broker.house import Client, House, Waiting

ACCOUNTS = (AccountSettings("A"), AccountSettings("B"))


def test_who_has_not_said_who_it_is_hears_nothing_more_once_that_is_asked() -> None:
    guarded = Authorization(users=(User("ann", "p", account="A"), User("bob", "p")))
    house = House()
    early = house.arrive()
    early.send(b"SUB > 1\r\n")
    house.reload(BrokerSettings(authorization=guarded, accounts=ACCOUNTS))
    early.read()
    house.client(user="bob", **{"pass": "p"}).send(b"PUB a 0\r\n\r\n")
    assert early.read() == b""
    early.connect(user="ann", **{"pass": "p"})
    assert early.session.account_name == "A"
    assert house.broker.subscription_count == early.session.subscription_count == 0


def test_a_reload_during_a_handshake_leaves_no_deadline_behind() -> None:
    guarded = Authorization(users=(User("ann", "p"),), timeout_ns=2_000_000_000)
    house = House()
    client = Client(house, "127.0.0.1", 5000, NATS)
    house.reload(BrokerSettings(authorization=guarded))
    house.broker.begin(client.session)
    client.connect(user="ann", **{"pass": "p"})
    house.advance(3)
    assert client.reason == ""


def test_rights_change_at_once_for_those_whose_hash_is_the_same() -> None:
    hashed = "$2b$04$" + "x" * 53
    waiting = Waiting()

    def settings(*deny: str, password: str = hashed) -> BrokerSettings:
        rights = Permissions(publish=SubjectRights(deny=deny))
        user = User("ann", password, permissions=rights)
        return BrokerSettings(authorization=Authorization(users=(user,)))

    def settle(good: bool) -> None:
        waiting.jobs.pop()[1](good)

    house = House(settings(), elsewhere=waiting)
    client = house.arrive()
    client.connect(user="ann", **{"pass": "p"})
    settle(True)
    house.reload(settings("a"))
    assert waiting.jobs == []
    client.read()
    client.send(b"PUB a 0\r\n\r\n")
    assert client.read() == b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n"
    house.reload(settings("a", password=hashed.replace("x", "y")))
    settle(False)
    assert client.reason == "Authentication Failure"


def test_the_answer_about_an_earlier_connect_decides_nothing_about_a_later_one() -> None:
    waiting = Waiting()

    def settings(mark: str) -> BrokerSettings:
        return BrokerSettings(authorization=Authorization(users=(User("ann", "$2b$04$" + mark * 53),)))

    house = House(settings("x"), elsewhere=waiting)
    client = house.arrive()
    client.connect(user="ann", **{"pass": "p"})
    waiting.jobs.pop()[1](True)
    house.reload(settings("y"))
    client.connect(user="ann", **{"pass": "wrong"})
    client.send(b"PUB a 0\r\n\r\n")
    waiting.jobs.pop(0)[1](True)
    assert client.session.in_msgs == 0
    waiting.jobs.pop(0)[1](False)
    assert (client.reason, client.session.in_msgs) == ("Authentication Failure", 0)


def test_an_account_that_the_settings_have_no_more_stays_until_the_last_verdict_on_those_in_it() -> None:
    """SESS-11"""
    waiting = Waiting()
    guarded = Authorization(users=(User("ann", "p", account="A"),))
    house = House(BrokerSettings(authorization=guarded, accounts=ACCOUNTS), elsewhere=waiting)
    client = house.client(user="ann", **{"pass": "p"})
    client.send(b"SUB a 1\r\n")
    house.reload(BrokerSettings(authorization=Authorization(user="joe", password="$2b$04$" + "x" * 53)))
    assert [account.name for account in house.broker.accounts()] == ["A", "$G", "$SYS"]
    assert house.broker.subscription_count == client.session.subscription_count == 1
    waiting.jobs.pop()[1](False)
    assert client.reason == "Authentication Failure"
    assert [account.name for account in house.broker.accounts()] == ["$G", "$SYS"]


def test_who_moves_out_of_an_account_that_the_settings_have_no_more_takes_it_away() -> None:
    waiting = Waiting()
    guarded = Authorization(users=(User("ann", "p", account="A"),))
    house = House(BrokerSettings(authorization=guarded, accounts=ACCOUNTS), elsewhere=waiting)
    client = house.client(user="ann", **{"pass": "p"})
    house.reload(BrokerSettings(authorization=Authorization(user="joe", password="$2b$04$" + "x" * 53)))
    client.connect(user="joe", **{"pass": "p"})
    waiting.jobs.pop()[1](True)
    assert client.session.account_name == "$G"
    assert [account.name for account in house.broker.accounts()] == ["$G", "$SYS"]
