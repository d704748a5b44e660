"""Interest: caches, stats and refusals; that routes are right is shown in tests/property (ROUTE-1, ROUTE-2)."""

import gc
import sys
from collections import Counter

import pytest

from tidelog.base import limits
from tidelog.base.chance import Chance
from tidelog.subject.interest import Interest, tokens_of
from tidelog.subject.route import Callback, Reception, Subscriber, Subscription
from unit.broker.house import House

NOBODY = Subscriber()


def subscribe(interest: Interest, subject: bytes, queue: bytes = b"", sid: bytes = b"1") -> Subscription:
    one = Subscription(subject, queue, sid, NOBODY)
    assert interest.insert(one)
    return one


@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b">.a", b"a.>.b"])
def test_subjects_that_are_none(subject: bytes) -> None:
    assert tokens_of(subject) is None
    interest = Interest()
    assert not interest.insert(Subscription(subject, b"", b"1", NOBODY))
    assert interest.subscriptions() == []


@pytest.mark.parametrize("subject", [b"a*", b"*a", b"a>", b">a", b"a.>b.c", b"a.b*.c"])
def test_wildcards_within_a_token_are_ordinary_bytes(subject: bytes) -> None:
    interest = Interest()
    one = subscribe(interest, subject)
    assert interest.match(subject)[0] == [one]
    assert interest.match(subject.replace(b"*", b"x").replace(b">", b"x"))[0] == []


def test_a_subject_with_an_empty_token_reaches_nobody() -> None:
    interest = Interest()
    subscribe(interest, b">")
    subscribe(interest, b"*.*")
    for subject in (b"a..b", b".a", b"a.", b"."):
        assert interest.targets(subject) == ([], [])


def test_equal_patterns_are_different_subscriptions() -> None:
    interest = Interest()
    one, two = subscribe(interest, b"a"), subscribe(interest, b"a")
    assert interest.targets(b"a")[0] == [one, two]
    interest.remove(one)
    assert interest.targets(b"a")[0] == [two]


def test_removing_what_was_never_there() -> None:
    interest = Interest()
    subscribe(interest, b"a.b", b"q")
    for subject, queue in (
        (b"a.b", b""),
        (b"a.b", b"r"),
        (b"a.b", b"q"),
        (b"a", b""),
        (b"*", b""),
        (b">", b""),
    ):
        other = Subscription(subject, queue, b"1", NOBODY)
        assert not interest.remove(other)
        assert other.closed
    assert len(interest.subscriptions()) == 1


def test_a_literal_change_drops_one_route_and_a_wildcard_all() -> None:
    """ROUTE-2."""
    interest = Interest()
    interest.targets(b"a")
    interest.targets(b"b")
    assert interest.cached == 2
    one = subscribe(interest, b"a")
    assert interest.cached == 1
    interest.targets(b"a")
    interest.remove(one)
    assert interest.cached == 1
    other = subscribe(interest, b"c.*")
    assert interest.cached == 0
    interest.targets(b"a")
    interest.remove(other)
    assert interest.cached == 0
    interest.targets(b"a")
    interest.invalidate()
    assert interest.cached == 0


def test_looking_up_is_counted() -> None:
    interest = Interest()
    for _ in range(3):
        interest.targets(b"a")
    interest.targets(b"b")
    assert (interest.matches, interest.cache_hits) == (4, 2)


def test_fanout_is_that_of_the_cached_routes() -> None:
    interest = Interest()
    for subject in (b"a", b"a", b"b"):
        subscribe(interest, subject)
    assert interest.fanout() == (0, 0)
    for subject in (b"a", b"b", b"c"):
        interest.targets(subject)
    assert interest.fanout() == (2, 3)


def test_the_cache_is_bounded_by_entries() -> None:
    """ROUTE-3."""
    interest = Interest()
    for number in range(limits.ROUTE_CACHE_ENTRIES):
        interest.targets(b"%d" % number)
    assert interest.cached == limits.ROUTE_CACHE_ENTRIES
    interest.targets(b"one more")
    assert interest.cached == 1


@pytest.mark.parametrize("subject_size", [10, 4000])
def test_the_cache_is_bounded_by_size(subject_size: int) -> None:
    """ROUTE-3: a target costs what its text costs."""
    fanout = 2_000
    interest = Interest()
    for _ in range(fanout):
        subscribe(interest, b">")
    interest.targets(b"%0*d" % (subject_size, 0))
    one = interest.cached_size
    assert one > fanout * subject_size
    fitting = limits.ROUTE_CACHE_SIZE // one
    for number in range(1, fitting):
        interest.targets(b"%0*d" % (subject_size, number))
    assert interest.fanout() == (fanout, fanout * fitting)
    interest.targets(b"%0*d" % (subject_size, fitting))
    assert (interest.cached, interest.cached_size) == (1, one)


@pytest.mark.parametrize("token", [b"a", b"*"])
def test_no_subject_is_too_deep(token: bytes) -> None:
    interest = Interest()
    depth = 300_000
    deep = subscribe(interest, b".".join([token] * depth))
    assert interest.match(b".".join([b"a"] * depth)) == ([deep], {})
    assert interest.remove(deep)


def test_dropped_routes_hold_nobody() -> None:
    """ROUTE-4: also those of a large cache, once others have been compiled."""
    interest = Interest()
    sid = b"nobody else has this sid"
    before = sys.getrefcount(sid)
    one = Subscription(b"a.*", b"", sid, NOBODY)
    interest.insert(one)
    for number in range(limits.ROUTE_DROP_AT_ONCE):
        interest.targets(b"a.%d" % number)
    interest.remove(one)
    del one
    gc.collect()
    assert sys.getrefcount(sid) == before
    one = Subscription(b"a.*", b"", sid, NOBODY)
    interest.insert(one)
    many = limits.ROUTE_DROP_AT_ONCE * 4
    for number in range(many):
        interest.targets(b"a.%d" % number)
    interest.remove(one)
    del one
    for number in range(many // 2):
        interest.targets(b"b.%d" % number)
    gc.collect()
    assert sys.getrefcount(sid) == before


def test_a_session_that_remembers_a_route_hears_of_a_cache_that_was_emptied() -> None:
    """ROUTE-2: the route in a publisher's hand cannot be found in the cache any more when its subject changes."""
    house = House()
    publisher, other, late = house.client(), house.client(), house.client()
    publisher.send(b"PUB foo 0\r\n\r\n")
    other.send(b"".join(b"PUB %d 0\r\n\r\n" % number for number in range(limits.ROUTE_CACHE_ENTRIES)))
    late.send(b"SUB foo 1\r\n")
    publisher.send(b"PUB foo 0\r\n\r\n")
    assert late.read() == b"MSG foo 1 0\r\n\r\n"


def test_every_member_of_a_group_has_its_share() -> None:
    """ROUTE-6."""
    interest, heard = Interest(), Counter[int]()
    for number in range(4):
        member = Callback(lambda *_, number=number: heard.update([number]))
        interest.insert(Subscription(b"a" if number % 2 else b"*", b"q", b"1", member))
    chance = Chance(3)
    for _ in range(4000):
        assert interest.publish(b"a", None, b"", chance) == 1
    assert sum(heard.values()) == 4000
    assert all(850 < count < 1150 for count in heard.values())


def test_groups_of_one_name_are_one_group_whatever_their_patterns() -> None:
    interest, heard = Interest(), []
    for pattern in (b"a.b", b"a.*", b">"):
        interest.insert(Subscription(pattern, b"q", b"1", Callback(lambda *_: heard.append("q"))))
    interest.insert(Subscription(b"a.b", b"r", b"1", Callback(lambda *_: heard.append("r"))))
    interest.insert(Subscription(b"a.b", b"", b"1", Callback(lambda *_: heard.append("plain"))))
    assert interest.publish(b"a.b", b"reply", b"hi", Chance(1)) == 3
    assert sorted(heard) == ["plain", "q", "r"]


def test_the_server_itself_can_listen_and_publish() -> None:
    interest, heard = Interest(), []
    interest.insert(Subscription(b"a.*", b"", b"", Callback(lambda *what: heard.append(what))))
    assert interest.publish(b"a.b", b"r", b"hi", Chance(1)) == 1
    assert interest.publish(b"a.b", None, b"", Chance(1)) == 1
    assert interest.publish(b"b", None, b"", Chance(1)) == 0
    assert heard == [(b"a.b", b"r", b"hi", None), (b"a.b", None, b"", None)]
    # It is not one of the subscriptions that are counted.
    assert interest.count == 0


def test_subjects_that_are_used_once_share_a_route() -> None:
    """ROUTE-3, ROUTE-8: inboxes do not fill the cache."""
    interest = Interest()
    inbox = subscribe(interest, b"_INBOX.abc.*")
    for number in range(10_000):
        assert interest.targets(b"_INBOX.abc.%d" % number) == ([inbox], [])
    assert interest.cached == limits.ROUTE_FAMILY_AFTER
    other = subscribe(interest, b"_INBOX.abc.77777")
    assert interest.targets(b"_INBOX.abc.77777")[0] == [inbox, other]
    assert interest.targets(b"_INBOX.abc.77778")[0] == [inbox]
    interest.remove(other)
    assert interest.targets(b"_INBOX.abc.77777")[0] == [inbox]


def test_subjects_below_a_declared_prefix_share_a_route_at_once() -> None:
    """ROUTE-8."""
    interest = Interest()
    interest.share_below(b"$JS.ACK.")
    acks = subscribe(interest, b"$JS.ACK.>")
    for subject in (b"$JS.ACK.s.c.1.2.3", b"$JS.ACK.s", b"$JS.ACK.a.b.c.d.e.f"):
        assert interest.targets(subject) == ([acks], [])
    assert interest.cached == 0
    for subject in (b"$JS.ACK.", b"$JS.ACK.a..b", b"$JS.ACK.a.", b"$JS.ACK"):
        assert interest.targets(subject) == ([], [])
    spy = subscribe(interest, b"$JS.ACK.s.*.>")
    assert interest.targets(b"$JS.ACK.s.c.1")[0] == [acks, spy]
    assert interest.targets(b"$JS.ACK.s.c")[0] == [acks]


def test_who_may_not_receive_everything_keeps_subjects_apart() -> None:
    """ROUTE-8: rights on delivery are asked for each subject."""
    house = House()
    client = house.client()
    client.send(b"SUB a.* 1\r\n")
    client.session.recipient.filtered = True
    interest = client.session.account.interest
    for number in range(limits.ROUTE_FAMILY_AFTER * 2):
        interest.targets(b"a.%d" % number)
    assert interest.cached == limits.ROUTE_FAMILY_AFTER * 2


def test_a_message_of_a_family_says_its_own_subject() -> None:
    """ROUTE-8: with short and very long subjects, to plain and queue subscriptions."""
    house = House()
    client, queue = house.client(), house.client()
    client.send(b"SUB a.> 1\r\n")
    queue.send(b"SUB a.> q 22\r\n")
    interest = client.session.account.interest
    interest.share_below(b"a.")
    for subject in (b"a.b", b"a." + b"x" * 1000, b"a.b.c"):
        assert interest.publish(subject, b"r", b"hi", Chance()) == 2
        assert client.read() == b"MSG %s 1 r 2\r\nhi\r\n" % subject
        assert queue.read() == b"MSG %s 22 r 2\r\nhi\r\n" % subject


def test_what_others_answer_is_a_family_all_the_same() -> None:
    """ROUTE-8: a reception that leaves a prefix to others keeps no subjects below it, or below another, apart."""
    interest = Interest()
    reception = Subscription(b"api.>", b"", b"", Reception(lambda *_: None, (b"api.read.",)))
    interest.insert(reception)
    reader = subscribe(interest, b"api.read.>")
    for number in range(limits.ROUTE_FAMILY_AFTER * 2):
        assert interest.targets(b"api.read.%d" % number) == ([reader], [])
        assert interest.targets(b"api.write.%d" % number) == ([reception], [])
    assert interest.targets(b"api.read") == ([reception], [])
    assert interest.cached == 2 * limits.ROUTE_FAMILY_AFTER + 1
