"""Imports and exports: messages and answers between accounts, as the broker's clients see them."""

from dataclasses import replace

import pytest

from tidelog.base import limits
from tidelog.broker.settings import AccountSettings, Authorization, BrokerSettings, Export, Import, User
from tidelog.stream.post import Post
from unit.broker.house import Client, House

EXPORTS = (Export("q.*", service=True), Export("many", service=True, many_answers=True), Export("s.>"))
IMPORTS = (
    Import("q.*", "A", service=True, local="ask.*"),
    Import("many", "A", service=True),
    Import("s.*", "A", local="t.*"),
)


def settings(imports: tuple[Import, ...] = IMPORTS) -> BrokerSettings:
    accounts = (AccountSettings("A", exports=EXPORTS), AccountSettings("B", imports=imports))
    users = (User("a", "p", account="A"), User("b", "p", account="B"))
    return BrokerSettings(accounts=accounts, authorization=Authorization(users=users))


@pytest.fixture
def house() -> House:
    return House(settings())


def enter(house: House, user: str) -> Client:
    return house.client(user=user, **{"pass": "p"}, headers=True, no_responders=True)


def asked(client: Client) -> bytes:
    """The reply subject of the request that came."""
    line = client.read().split(b"\r\n")[0].split()
    assert line[0] == b"MSG"
    assert len(line) == 5
    return line[3]


def test_an_answer_goes_back_once(house: House) -> None:
    a, b = enter(house, "a"), enter(house, "b")
    a.send(b"SUB q.* 1\r\n")
    b.send(b"SUB inbox.> 1\r\nPUB ask.x inbox.1 2\r\nhi\r\n")
    reply = asked(a)
    assert reply.startswith(b"_R_.")
    a.send(b"PUB %b more 3\r\nyes\r\n" % reply)
    assert b.read() == b"MSG inbox.1 1 more 3\r\nyes\r\n"
    a.send(b"PUB %b 3\r\nyes\r\n" % reply)
    assert b.read() == b""


def test_a_service_with_many_answers_goes_on_until_nobody_listens(house: House) -> None:
    a, b = enter(house, "a"), enter(house, "b")
    a.send(b"SUB many 1\r\nSUB inbox 2\r\n")
    b.send(b"SUB inbox 1\r\nPUB many inbox 0\r\n\r\n")
    reply = asked(a)
    for _ in range(3):
        a.send(b"PUB %b 1\r\nx\r\n" % reply)
        assert b.read() == b"MSG inbox 1 1\r\nx\r\n"
    b.send(b"UNSUB 1\r\n")
    a.send(b"PUB %b inbox 1\r\nx\r\n" % reply)
    assert b"503" in a.read()
    b.send(b"SUB inbox 1\r\n")
    a.send(b"PUB %b inbox 1\r\nx\r\n" % reply)
    assert b"503" in a.read()
    assert b.read() == b""


def test_a_requester_hears_that_nobody_serves(house: House) -> None:
    b = enter(house, "b")
    b.send(b"SUB inbox 1\r\nPUB ask.x inbox 0\r\n\r\n")
    assert b.read().startswith(b"HMSG inbox 1 ")


def test_headers_cross_a_bridge(house: House) -> None:
    a, b = enter(house, "a"), enter(house, "b")
    a.send(b"SUB q.* 1\r\n")
    b.send(b"SUB t.x 1\r\nHPUB ask.x r 17 18\r\nNATS/1.0\r\nA:b\r\n\r\n1\r\n")
    assert a.read().endswith(b" 17 18\r\nNATS/1.0\r\nA:b\r\n\r\n1\r\n")
    a.send(b"HPUB s.x r 17 18\r\nNATS/1.0\r\nA:b\r\n\r\n1\r\n")
    assert b.read() == b"HMSG t.x 1 r 17 18\r\nNATS/1.0\r\nA:b\r\n\r\n1\r\n"


def test_what_is_shown_under_another_subject_stays_so(house: House) -> None:
    b = enter(house, "b")
    b.send(b"SUB t.x 1\r\n")
    account = house.broker.account("A")
    post = Post(account.interest, house.broker.chance)
    assert post.deliver(b"s.x", b"stored.as", b"1") == 1
    assert b.read() == b"MSG stored.as 1 1\r\n1\r\n"


def test_tokens_that_look_like_wildcards_cross_a_bridge(house: House) -> None:
    a, b = enter(house, "a"), enter(house, "b")
    a.send(b"SUB q.* 1\r\n")
    b.send(b"PUB ask.> 0\r\n\r\n")
    assert a.read() == b"MSG q.> 1 0\r\n\r\n"


def test_the_exporter_knows_whether_anybody_listens(house: House) -> None:
    b = enter(house, "b")
    interest = house.broker.account("A").interest

    def heard(subject: bytes) -> bool:
        return bool(interest.targets(subject)[0])

    assert not heard(b"s.x")
    b.send(b"SUB t.x 1\r\nSUB t.x q 2\r\n")
    assert heard(b"s.x")
    assert not heard(b"s.y")
    b.send(b"SUB t.* 3\r\n")
    assert heard(b"s.y")
    assert len(interest.targets(b"s.x")[0]) == 1
    b.send(b"UNSUB 3\r\nUNSUB 1\r\n")
    assert heard(b"s.x")
    assert not heard(b"s.y")
    b.send(b"UNSUB 2\r\n")
    assert not heard(b"s.x")


def test_overlapping_wildcards_bring_nothing_twice() -> None:
    exports, imports = (Export("s.>"),), (Import("s.>", "A", local="t.>"),)
    users = (User("a", "p", account="A"), User("b", "p", account="B"))
    accounts = (AccountSettings("A", exports=exports), AccountSettings("B", imports=imports))
    house = House(BrokerSettings(accounts=accounts, authorization=Authorization(users=users)))
    a, b = enter(house, "a"), enter(house, "b")
    interest = house.broker.account("A").interest
    b.send(b"SUB t.x.y 1\r\nSUB t.x.* 2\r\n")
    assert not interest.targets(b"s.z.y")[0]
    for line, count in ((b"SUB t.*.y 3", 3), (b"SUB t.> 4", 4), (b"SUB > 5", 5)):
        b.send(line + b"\r\n")
        a.send(b"PUB s.x.y 1\r\n1\r\n")
        assert b.read().count(b"MSG t.x.y ") == count
    b.send(b"UNSUB 5\r\nUNSUB 4\r\nUNSUB 2\r\n")
    a.send(b"PUB s.x.y 1\r\n1\r\n")
    assert b.read().count(b"MSG t.x.y ") == 2
    assert not interest.targets(b"s.x.z")[0]
    b.send(b"UNSUB 3\r\n")
    assert len(interest.targets(b"s.x.y")[0]) == 1
    b.send(b"UNSUB 1\r\n")
    assert not interest.targets(b"s.x.y")[0]


def test_who_listens_already_is_known_when_links_are_laid(house: House) -> None:
    house.broker.apply(settings(()))
    a, b = enter(house, "a"), enter(house, "b")
    b.send(b"SUB t.x 1\r\n")
    house.broker.apply(settings())
    a.send(b"PUB s.x 1\r\n1\r\n")
    assert b.read() == b"MSG t.x 1 1\r\n1\r\n"


def test_replies_that_are_waited_for_are_bounded(house: House) -> None:
    a, b = enter(house, "a"), enter(house, "b")
    a.send(b"SUB q.* 1\r\n")
    b.send(b"SUB inbox 1\r\n")
    replies = house.broker.links.replies["A"]
    b.send(b"PUB ask.x inbox 0\r\n\r\n")
    oldest = asked(a)
    for _ in range(limits.BRIDGED_REPLIES - 1):
        b.send(b"PUB ask.x inbox 0\r\n\r\n")
    a.read()
    assert len(replies) == limits.BRIDGED_REPLIES
    b.send(b"PUB ask.x inbox 0\r\n\r\n")
    newest = asked(a)
    assert len(replies) == limits.BRIDGED_REPLIES
    a.send(b"PUB %b 1\r\nx\r\nPUB %b 1\r\ny\r\n" % (oldest, newest))
    assert b.read() == b"MSG inbox 1 1\r\ny\r\n"


def test_messages_do_not_run_in_circles() -> None:
    exports, users = (Export(">"),), (User("a", "p", account="A"), User("b", "p", account="B"))
    around = BrokerSettings(
        accounts=(
            AccountSettings("A", exports=exports, imports=(Import("x", "B"),)),
            AccountSettings("B", exports=exports, imports=(Import("x", "A"),)),
        ),
        authorization=Authorization(users=users),
    )
    house = House(around)
    a, b = enter(house, "a"), enter(house, "b")
    b.send(b"SUB x 1\r\n")
    a.send(b"PUB x 1\r\n1\r\n")
    assert b.read().count(b"MSG") == limits.BRIDGES_DEEP // 2


def test_links_change_with_the_settings(house: House) -> None:
    a, b = enter(house, "a"), enter(house, "b")
    b.send(b"SUB t.x 1\r\nSUB u.x 2\r\n")
    a.send(b"PUB s.x 1\r\n1\r\n")
    assert b.read() == b"MSG t.x 1 1\r\n1\r\n"
    imports = (replace(IMPORTS[2], local="u.*"),)
    house.broker.apply(settings(imports))
    a.send(b"PUB s.x 1\r\n1\r\n")
    assert b.read() == b"MSG u.x 2 1\r\n1\r\n"
    house.broker.apply(settings(()))
    a.send(b"PUB s.x 1\r\n1\r\n")
    assert b.read() == b""
