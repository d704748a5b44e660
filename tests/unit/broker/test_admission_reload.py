"""What a reload means for those who are not quite in."""

from tidelog.broker.settings import AccountSettings, Authorization, BrokerSettings, User
from unit.broker.house import House

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
