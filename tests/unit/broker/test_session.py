"""What a session does with what its client says: nats.md §1.1 and §1.4, rule by rule."""

import gc
import json
from dataclasses import replace

import pytest

from tidelog.broker.session import Session
from tidelog.broker.settings import (
    AccountSettings,
    Authorization,
    BrokerSettings,
    Limits,
    Mapping,
    Permissions,
    ResponseRights,
    SubjectRights,
    User,
)
from unit.broker.house import House, info_of, with_limits


def with_rights(permissions: Permissions) -> BrokerSettings:
    return BrokerSettings(
        authorization=Authorization(users=(User("u", "p", permissions=permissions), User("v", "p")))
    )


LOGIN = {"user": "u", "pass": "p"}
OTHER = {"user": "v", "pass": "p"}


# ---- verbose, pedantic ----


def test_verbose_says_ok_to_everything_but_ping() -> None:
    client = House().client(verbose=True, headers=True)
    for line in (
        b"SUB foo 1\r\n",
        b"UNSUB 1\r\n",
        b"UNSUB 99\r\n",
        b"PUB a 0\r\n\r\n",
        b"HPUB a 1 1\r\nx\r\n",
    ):
        client.send(line)
        assert client.read() == b"+OK\r\n"
    client.send(b"PING\r\nPONG\r\n+OK\r\nINFO {}\r\n")
    assert client.read().startswith(b"PONG\r\n")
    assert client.read() == b""


def test_connect_is_answered_when_verbose() -> None:
    client = House().arrive()
    client.read()
    client.connect(verbose=True)
    assert client.read() == b"+OK\r\n"
    client.connect(verbose=False)
    assert client.read() == b""


def test_before_connect_a_client_is_verbose_and_pedantic() -> None:
    client = House().arrive()
    client.read()
    client.send(b"SUB foo 1\r\nPUB foo.* 0\r\n\r\n")
    assert client.read() == b"+OK\r\n-ERR 'Invalid Publish Subject'\r\n+OK\r\n"


def test_pedantic_complains_and_publishes_all_the_same() -> None:
    client = House().client(pedantic=True)
    client.send(b"SUB foo.* 1\r\nPUB foo.* 0\r\n\r\n")
    assert client.read() == b"-ERR 'Invalid Publish Subject'\r\nMSG foo.* 1 0\r\n\r\n"


def test_ok_comes_before_what_the_message_brings() -> None:
    client = House().client(verbose=True)
    client.send(b"SUB foo 1\r\n")
    client.read()
    client.send(b"PUB foo 1\r\nx\r\nPING\r\n")
    assert client.read().startswith(b"+OK\r\nMSG foo 1 1\r\nx\r\nPONG\r\n")


# ---- SUB and UNSUB ----


@pytest.mark.parametrize(
    "line", [b"SUB foo", b"SUB a b c d", b"SUB ", b"UNSUB ", b"UNSUB 1 2 3", b"INFO", b"INFO x"]
)
def test_arguments_that_make_no_sense_close_without_a_word(line: bytes) -> None:
    client = House().client()
    client.send(line + b"\r\n")
    assert (client.read(), client.reason, client.ended) == (b"", "Protocol Violation", True)


def test_an_error_from_a_client_closes() -> None:
    house = House()
    client = house.client()
    client.send(b"-ERR 'no'\r\n")
    assert (client.read(), client.reason) == (b"", "Parse Error")
    assert house.log.of("error") == [f"{client.session.label} - Client Error 'no'"]


def test_a_sid_in_use_keeps_its_first_subscription() -> None:
    client = House().client()
    client.send(b"SUB foo 1\r\nSUB bar 1\r\nPUB foo 0\r\n\r\nPUB bar 0\r\n\r\n")
    assert client.read() == b"MSG foo 1 0\r\n\r\n"
    assert client.session.subscription_count == 1


@pytest.mark.parametrize("subject", [b"a..b", b".a", b"a.", b"a.>.b", b">."])
def test_an_invalid_subject_is_refused_and_the_connection_stays(subject: bytes) -> None:
    client = House().client(verbose=True)
    client.send(b"SUB %s 1\r\n" % subject)
    assert client.read() == b"-ERR 'Invalid Subject'\r\n"
    assert (client.session.subscription_count, client.reason) == (0, "")


@pytest.mark.parametrize("subject", [b"a\x0bb", b"a\x0cb", b"\x01", b"\xff", "grün".encode()])
def test_other_control_bytes_are_part_of_a_subject(subject: bytes) -> None:
    client = House().client()
    client.send(b"SUB %s 1\r\nPUB %s 0\r\n\r\n" % (subject, subject))
    assert client.read() == b"MSG %s 1 0\r\n\r\n" % subject


def test_auto_unsubscribe_counts_what_was_delivered_before() -> None:
    """SESS-6."""
    client = House().client()
    client.send(b"SUB foo 1\r\n" + b"PUB foo 0\r\n\r\n" * 2 + b"UNSUB 1 4\r\n" + b"PUB foo 0\r\n\r\n" * 3)
    assert client.read() == b"MSG foo 1 0\r\n\r\n" * 4
    assert client.session.subscription_count == 0


@pytest.mark.parametrize("bound", [b"2", b"1", b"0", b"x", b"-1", b"9999999999"])
def test_a_bound_that_is_reached_or_none_ends_at_once(bound: bytes) -> None:
    client = House().client()
    client.send(b"SUB foo 1\r\n" + b"PUB foo 0\r\n\r\n" * 2 + b"UNSUB 1 " + bound + b"\r\n")
    client.read()
    client.send(b"PUB foo 0\r\n\r\n")
    assert client.read() == b""
    assert client.session.subscription_count == 0


def test_a_later_bound_replaces_an_earlier_one() -> None:
    client = House().client()
    client.send(b"SUB foo 1\r\nUNSUB 1 1\r\nUNSUB 1 999999999\r\n" + b"PUB foo 0\r\n\r\n" * 3)
    assert client.read() == b"MSG foo 1 0\r\n\r\n" * 3


def test_the_last_member_of_a_group_may_leave_with_its_message() -> None:
    house = House()
    one, two = house.client(), house.client()
    for client in (one, two):
        client.send(b"SUB foo q 1\r\nUNSUB 1 2\r\n")
    one.send(b"PUB foo 0\r\n\r\n" * 10)
    assert one.read() + two.read() == b"MSG foo 1 0\r\n\r\n" * 4
    assert house.broker.subscription_count == 0


def test_after_unsubscribing_a_sid_can_be_used_again() -> None:
    client = House().client()
    client.send(b"SUB foo 1\r\nUNSUB 1\r\nSUB bar 1\r\nPUB foo 0\r\n\r\nPUB bar 0\r\n\r\n")
    assert client.read() == b"MSG bar 1 0\r\n\r\n"


# ---- delivery ----


def test_without_echo_own_messages_stay_away() -> None:
    house = House()
    client, other = house.client(echo=False), house.client()
    client.send(b"SUB foo 1\r\nSUB foo q 2\r\n")
    other.send(b"SUB foo 1\r\nSUB foo q 2\r\n")
    client.send(b"PUB foo 0\r\n\r\n" * 20)
    assert client.read() == b""
    assert other.read().count(b"MSG foo 2 0") == 20
    other.send(b"PUB foo 0\r\n\r\n")
    assert client.read().count(b"MSG foo 1 0\r\n\r\n") == 1


def test_headers_are_cut_for_who_takes_none() -> None:
    house = House()
    publisher, plain, headed = house.client(headers=True), house.client(), house.client(headers=True)
    for client in (plain, headed):
        client.send(b"SUB foo 1\r\n")
    publisher.send(b"HPUB foo r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    publisher.send(b"HPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\n")
    assert plain.read() == b"MSG foo 1 r 2\r\nhi\r\nMSG foo 1 0\r\n\r\n"
    assert headed.read() == (
        b"HMSG foo 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nHMSG foo 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    )
    assert (plain.session.out_bytes, headed.session.out_bytes) == (2, 26)
    assert publisher.session.in_bytes == 26


def test_headers_are_refused_from_who_has_not_announced_them() -> None:
    client = House().client()
    client.send(b"HPUB foo 1 1\r\nx\r\n")
    assert (client.read(), client.reason) == (b"", "Message Header Violation")


def test_pong_is_behind_what_own_messages_brought() -> None:
    """SESS-5."""
    client = House().client()
    client.send(b"SUB foo 1\r\nPUB foo 0\r\n\r\nPING\r\nPUB foo 0\r\n\r\n")
    assert client.read() == b"MSG foo 1 0\r\n\r\nPONG\r\nMSG foo 1 0\r\n\r\n"


# ---- no responders ----


def test_nobody_there_is_told_to_who_asked_to_know() -> None:
    client = House().client(headers=True, no_responders=True)
    client.send(b"SUB inbox.* 7\r\nPUB foo.bar inbox.1 2\r\nhi\r\n")
    header = b"NATS/1.0 503\r\nNats-Subject: foo.bar\r\n\r\n"
    assert client.read() == b"HMSG inbox.1 7 %d %d\r\n%s\r\n" % (len(header), len(header), header)
    # It is no message that was delivered.
    assert (client.session.out_msgs, client.session.subscriptions()[0].delivered) == (0, 0)


@pytest.mark.parametrize(
    ("options", "before", "line"),
    [
        ({}, b"SUB inbox 7\r\n", b"PUB foo inbox 0\r\n\r\n"),
        ({"headers": True}, b"SUB inbox 7\r\n", b"PUB foo inbox 0\r\n\r\n"),
        ({"headers": True, "no_responders": True}, b"SUB inbox 7\r\n", b"PUB foo 0\r\n\r\n"),
        ({"headers": True, "no_responders": True}, b"SUB inbox q 7\r\n", b"PUB foo inbox 0\r\n\r\n"),
        ({"headers": True, "no_responders": True}, b"SUB other 7\r\n", b"PUB foo inbox 0\r\n\r\n"),
        ({"headers": True, "no_responders": True}, b"SUB inbox 7\r\nUNSUB 7\r\n", b"PUB foo inbox 0\r\n\r\n"),
    ],
)
def test_nobody_there_is_not_told(options: dict[str, bool], before: bytes, line: bytes) -> None:
    client = House().client(**options)
    client.send(before + line)
    assert client.read() == b""


def test_own_subscriptions_without_echo_are_no_responders() -> None:
    client = House().client(headers=True, no_responders=True, echo=False)
    client.send(b"SUB > 7\r\nPUB foo inbox 0\r\n\r\n")
    assert b"NATS/1.0 503\r\nNats-Subject: foo\r\n" in client.read()


def test_the_answer_goes_to_nobody_else() -> None:
    house = House()
    asker, other = house.client(headers=True, no_responders=True), house.client(headers=True)
    other.send(b"SUB inbox 1\r\n")
    asker.send(b"PUB foo inbox 0\r\n\r\n")
    assert (asker.read(), other.read()) == (b"", b"")


# ---- rights ----


def test_publishing_without_the_right() -> None:
    house = House(with_rights(Permissions(publish=SubjectRights(deny=("no.*",)))))
    client, other = house.client(**LOGIN), house.client(**OTHER)
    other.send(b"SUB > 1\r\n")
    client.send(b"PUB no.x 0\r\n\r\nPUB yes 0\r\n\r\nPUB no.x 0\r\n\r\n")
    assert client.read() == b"-ERR 'Permissions Violation for Publish to \"no.x\"'\r\n" * 2
    assert other.read() == b"MSG yes 1 0\r\n\r\n"
    assert client.reason == ""
    assert f'{client.session.label} - Publish Violation - Subject "no.x"' in house.log.of("error")[0]
    # What was refused has come in all the same.
    assert client.session.in_msgs == 3


def test_subscribing_without_the_right() -> None:
    house = House(with_rights(Permissions(subscribe=SubjectRights(allow=("foo", "bar q")))))
    client = house.client(**LOGIN)
    client.send(b"SUB foo 1\r\nSUB bar 2\r\nSUB bar q 3\r\nSUB bar r 4\r\nSUB > 5\r\n")
    assert client.read() == (
        b"-ERR 'Permissions Violation for Subscription to \"bar\"'\r\n"
        b'-ERR \'Permissions Violation for Subscription to "bar" using queue "r"\'\r\n'
        b"-ERR 'Permissions Violation for Subscription to \">\"'\r\n"
    )
    assert {sub.sid for sub in client.session.subscriptions()} == {b"1", b"3"}


def test_the_servers_own_queue_is_for_nobody() -> None:
    client = House().client()
    client.send(b"SUB foo _sys_ 1\r\n")
    assert (
        client.read() == b'-ERR \'Permissions Violation for Subscription to "foo" using queue "_sys_"\'\r\n'
    )


def test_a_wide_subscription_does_not_receive_what_is_denied() -> None:
    house = House(with_rights(Permissions(subscribe=SubjectRights(deny=("a.secret", "a.q q")))))
    client, other = house.client(**LOGIN), house.client(**OTHER)
    client.send(b"SUB a.* 1\r\nSUB a.> q 2\r\n")
    other.send(b"PUB a.secret 0\r\n\r\nPUB a.q 0\r\n\r\nPUB a.b 0\r\n\r\n")
    assert client.read() == b"MSG a.q 1 0\r\n\r\nMSG a.b 1 0\r\n\r\nMSG a.b 2 0\r\n\r\n"


def test_a_group_turns_to_another_member_when_one_may_not_receive() -> None:
    house = House(with_rights(Permissions(subscribe=SubjectRights(deny=("a.secret",)))))
    bound, free = house.client(**LOGIN), house.client(**OTHER)
    for client in (bound, free):
        client.send(b"SUB a.* q 1\r\n")
    free.send(b"PUB a.secret 0\r\n\r\n" * 10)
    assert (bound.read(), free.read()) == (b"", b"MSG a.secret 1 0\r\n\r\n" * 10)


def test_who_was_asked_may_answer_as_often_and_as_long_as_allowed() -> None:
    responses = ResponseRights(max_msgs=2, expires_ns=10_000_000_000)
    house = House(with_rights(Permissions(responses=responses)))
    service, asker = house.client(**LOGIN), house.client(**OTHER)
    service.send(b"SUB ask 1\r\n")
    asker.send(b"SUB r.* 1\r\nPUB ask r.1 0\r\n\r\nPUB ask r.2 0\r\n\r\n")
    refused = b"-ERR 'Permissions Violation for Publish to \"%s\"'\r\n"
    service.read()
    service.send(b"PUB r.1 0\r\n\r\n" * 3 + b"PUB r.3 0\r\n\r\n")
    assert service.read() == refused % b"r.1" + refused % b"r.3"
    assert asker.read() == b"MSG r.1 1 0\r\n\r\n" * 2
    house.advance(10.5)
    service.read()
    service.send(b"PUB r.2 0\r\n\r\n")
    assert service.read() == refused % b"r.2"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"PUB $NRG.x 0", 'Publish to "$NRG.x"'),
        (b"PUB _GR_.x 0", 'Publish to "_GR_.x"'),
        (b"PUB a _R_.x 0", 'Publish with Reply of "_R_.x"'),
        (b"PUB a _GR_.x 0", 'Publish with Reply of "_GR_.x"'),
        (b"PUB a $JS.ACK.x 0", 'Publish with Reply of "$JS.ACK.x"'),
    ],
)
def test_subjects_that_only_servers_use(line: bytes, text: str) -> None:
    client = House().client(verbose=True)
    client.send(b"SUB > 1\r\n")
    client.read()
    client.send(line + b"\r\n\r\n")
    assert client.read() == f"-ERR 'Permissions Violation for {text}'\r\n".encode()


@pytest.mark.parametrize(
    "line", [b"PUB $GNR.x 0", b"PUB _R_.x 0", b"PUB $JS.ACK.x 0", b"PUB a _INBOX.x 0", b"PUB $ 0"]
)
def test_subjects_that_only_look_like_those(line: bytes) -> None:
    client = House().client()
    client.send(line + b"\r\n\r\n")
    assert client.read() == b""


# ---- limits ----


@pytest.mark.parametrize(("size", "reason"), [(9, ""), (10, ""), (11, "Maximum Message Payload Exceeded")])
def test_max_payload(size: int, reason: str) -> None:
    house = House(with_limits(max_payload=10))
    client = house.client()
    client.send(b"PUB foo %d\r\n" % size)
    assert client.reason == reason
    assert client.read() == (b"-ERR 'Maximum Payload Violation'\r\n" if reason else b"")
    if reason:
        assert house.log.of("error") == [f"{client.session.label} - maximum payload exceeded: 11 vs 10"]


@pytest.mark.parametrize(("size", "closed"), [(4095, False), (4096, False), (4097, True)])
def test_max_control_line(size: int, closed: bool) -> None:
    client = House().client()
    client.send(b"SUB %s 1\r\n" % (b"x" * (size - 2)))
    assert client.reason == ("Maximum Control Line Exceeded" if closed else "")
    assert client.read() == (b"-ERR 'maximum control line exceeded'\r\n" if closed else b"")


def test_max_subscriptions() -> None:
    client = House(with_limits(max_subscriptions=2)).client()
    client.send(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
    assert client.read() == b"-ERR 'maximum subscriptions exceeded'\r\n"
    client.send(b"UNSUB 1\r\nSUB c 3\r\n")
    assert (client.read(), client.reason) == (b"", "")
    assert client.session.subscription_count == 2


def test_an_accounts_own_limits_come_first() -> None:
    accounts = (AccountSettings("A", max_subscriptions=1, max_payload=5),)
    users = (User("u", "p", account="A"),)
    house = House(
        BrokerSettings(
            limits=Limits(max_subscriptions=3), accounts=accounts, authorization=Authorization(users=users)
        )
    )
    client = house.client(**LOGIN)
    client.send(b"SUB a 1\r\nSUB b 2\r\n")
    assert client.read() == b"-ERR 'maximum subscriptions exceeded'\r\n"
    client.send(b"PUB a 6\r\n")
    assert client.reason == "Maximum Message Payload Exceeded"


@pytest.mark.parametrize(("subject", "refused"), [(b"a.b", False), (b"a.b.c", False), (b"a.b.c.d", True)])
def test_max_sub_tokens(subject: bytes, refused: bool) -> None:
    client = House(with_limits(max_sub_tokens=3)).client()
    client.send(b"SUB %s 1\r\n" % subject)
    text = b"-ERR 'Permissions Violation for Subscription to \"a.b.c.d\", too many tokens'\r\n"
    assert client.read() == (text if refused else b"")
    assert client.reason == ""


# ---- mappings ----


def test_subjects_are_mapped_before_they_are_routed_and_judged() -> None:
    accounts = (AccountSettings("$G", mappings=(Mapping("old.*", "new.$1"),)),)
    rights = Permissions(publish=SubjectRights(allow=("new.*",)))
    settings = replace(with_rights(rights), accounts=accounts)
    client = House(settings).client(**LOGIN)
    client.send(b"SUB > 1\r\nPUB old.x 0\r\n\r\nPUB new.x 0\r\n\r\nPUB old.x.y 0\r\n\r\n")
    assert client.read() == (
        b"MSG new.x 1 0\r\n\r\nMSG new.x 1 0\r\n\r\n-ERR 'Permissions Violation for Publish to \"old.x.y\"'\r\n"
    )


# ---- the first PONG ----


def test_behind_the_first_pong_comes_where_the_client_is() -> None:
    client = House().client(protocol=1)
    client.send(b"PING\r\nPING\r\n")
    pong, info, again = client.read().splitlines(keepends=True)
    assert (pong, again) == (b"PONG\r\n", b"PONG\r\n")
    document = info_of(info)
    assert (document["connect_info"], document["remote_account"]) == (True, "$G")
    assert "acc_is_sys" not in document


def test_who_does_not_know_of_it_gets_none() -> None:
    client = House().client(protocol=0)
    client.send(b"PING\r\n")
    assert client.read() == b"PONG\r\n"
    fresh = House().arrive()
    fresh.read()
    fresh.send(b"PING\r\n")
    assert fresh.read() == b"PONG\r\n"
    fresh.connect(protocol=1)
    fresh.send(b"PING\r\n")
    assert fresh.read().startswith(b"PONG\r\nINFO {")


# ---- the end ----


def test_a_closed_session_reads_and_takes_nothing() -> None:
    house = House()
    client, other = house.client(), house.client()
    client.send(b"SUB foo 1\r\n")
    house.broker.close(client.session, "Client Closed")
    late = b"PUB foo 0\r\n\r\nPING\r\nX"
    assert client.session.receive(late) == len(late)
    other.send(b"PUB foo 0\r\n\r\n")
    assert client.read() == b""
    assert house.broker.in_msgs == 1
    assert (house.broker.subscription_count, house.broker.client_count) == (0, 1)


def test_nothing_is_left_of_sessions_that_are_over() -> None:
    """SESS-8: but what the broker remembers on purpose, which holds copies."""
    house = House()
    watcher = house.client()
    gc.collect()
    before = sum(isinstance(thing, Session) for thing in gc.get_objects())
    for _ in range(20):
        client = house.client(headers=True)
        client.send(b"SUB foo 1\r\nSUB foo.* 2\r\nSUB > q 3\r\nUNSUB 1 3\r\nPUB foo r 1\r\nx\r\nPING\r\n")
        client.send(b"X")
        assert client.reason == "Protocol Violation"
    del client
    house.broker.flushes.take()
    gc.collect()
    left = [thing for thing in gc.get_objects() if isinstance(thing, Session)]
    assert len(left) == before
    assert watcher.session in left
    assert house.broker.subscription_count == 0
    assert house.broker.account("$G").interest.subscriptions() == []
    assert house.broker.client_count == 1


def test_errors_end_a_session_in_the_middle_of_a_burst() -> None:
    client = House().client()
    client.send(b"SUB foo 1\r\nPUB foo 0\r\n\r\nBAD\r\nPUB foo 0\r\n\r\n")
    assert client.read() == b"MSG foo 1 0\r\n\r\n-ERR 'Unknown Protocol Operation'\r\n"
    assert client.session.in_msgs == 1


def test_connect_documents_are_read_leniently_and_never_guessed() -> None:
    client = House().arrive()
    client.read()
    client.send(b"CONNECT " + json.dumps({"verbose": 1}).encode() + b"\r\n")
    assert (client.read(), client.reason) == (b"", "Protocol Violation")
