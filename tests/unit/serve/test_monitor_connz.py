"""/connz: which connections, in which order, with how much detail."""

from dataclasses import replace

import pytest

from tidelog.base.clock import ManualClock
from tidelog.broker.view import SubscriptionRecord
from tidelog.serve.monitor.connz import ORDERS, Connz, connz, read_query, round_trip
from tidelog.serve.monitor.desk import whole
from tidelog.serve.monitor.query import BadQuery
from unit.serve.view_fake import NOW_NS, SECOND_NS, FakeBroker, session

BROKER = FakeBroker(
    open=[
        session(2, [b"a.*", b"b"], in_msgs=5, out_msgs=1, in_bytes=10, out_bytes=90, user="u", rtt_ns=3),
        session(
            5, [b"c"], in_msgs=1, out_msgs=7, in_bytes=80, out_bytes=20, account_name="A", pending_size=9
        ),
        session(
            3,
            [],
            in_msgs=9,
            out_msgs=3,
            in_bytes=20,
            out_bytes=30,
            user="u",
            last_activity_ns=NOW_NS,
            rtt_ns=9,
        ),
    ],
    closed=[
        session(1, [b"x"], stop_ns=NOW_NS - 5 * SECOND_NS, reason="Stale Connection"),
        session(
            4, [b"y"], stop_ns=NOW_NS - 9 * SECOND_NS, reason="Client Closed", account_name="A", user="u"
        ),
    ],
)


def ask(**query: str) -> Connz:
    return whole(connz("ID", BROKER, ManualClock(NOW_NS), read_query(query)))


def cids(**query: str) -> list[int]:
    return [connection.cid for connection in ask(**query).connections]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("", [2, 3, 5]),
        ("cid", [2, 3, 5]),
        ("start", [2, 3, 5]),
        ("subs", [2, 5, 3]),
        ("pending", [5, 2, 3]),
        ("msgs_to", [5, 3, 2]),
        ("msgs_from", [3, 2, 5]),
        ("bytes_to", [2, 3, 5]),
        ("bytes_from", [5, 3, 2]),
        ("last", [3, 2, 5]),
        ("idle", [2, 5, 3]),
        ("uptime", [2, 3, 5]),
        ("rtt", [5, 3, 2]),
    ],
)
def test_sort(sort: str, expected: list[int]) -> None:
    assert cids(sort=sort) == expected


def test_sort_of_closed() -> None:
    assert cids(state="closed", sort="stop") == [1, 4]
    assert cids(state="closed", sort="reason") == [4, 1]
    # Uptime ends when the connection does.
    assert cids(state="closed", sort="uptime") == [4, 1]


def test_every_order_can_be_asked_for() -> None:
    for sort in ORDERS:
        assert len(cids(sort=sort, state="closed")) == 2


def test_state() -> None:
    assert cids(state="open") == [2, 3, 5]
    assert cids(state="CLOSED") == [1, 4]
    assert cids(state="all") == cids(state="any") == [1, 2, 3, 4, 5]


def test_filters() -> None:
    assert cids(acc="A", state="all") == [4, 5]
    assert cids(acc="nobody") == []
    assert cids(user="u", state="all") == [2, 3, 4]
    assert cids(cid="4") == []
    assert cids(cid="4", state="closed") == [4]
    assert cids(cid="2", state="all") == [2]
    assert cids(acc="$G", filter_subject="a.b") == [2]
    assert cids(acc="$G", filter_subject="*.b", state="all") == [2]
    assert cids(acc="$G", filter_subject=">") == [2, 3]


def test_paging() -> None:
    found = ask(offset="1", limit="1")
    assert [connection.cid for connection in found.connections] == [3]
    assert (found.total, found.num_connections, found.offset, found.limit) == (3, 1, 1, 1)
    assert ask(offset="7").connections == []
    assert (ask(limit="-5", offset="-1").limit, ask(offset="-1").offset) == (1024, 0)
    assert ask(cid="2", limit="9").limit == 1


def test_subscriptions_are_listed_on_demand() -> None:
    plain, listed, detailed = (ask(cid="2", subs=subs).connections[0] for subs in ("", "1", "detail"))
    assert plain.subscriptions == 2
    assert not plain.subscriptions_list
    assert listed.subscriptions_list == ("a.*", "b")
    assert not listed.subscriptions_list_detail
    assert not detailed.subscriptions_list
    first = detailed.subscriptions_list_detail[0]
    assert (first.subject, first.sid, first.msgs, first.cid, first.account) == ("a.*", "1", 0, 2, "")
    closed = ask(cid="4", subs="detail", state="closed").connections[0].subscriptions_list_detail[0]
    assert (closed.account, closed.account_tag) == ("A", "A")


def test_subscription_detail() -> None:
    sub = SubscriptionRecord(b"s\xff", b"q", b"9", 3, 5)
    broker = FakeBroker(open=[replace(session(1), subscription_records=(sub,))])
    found = whole(connz("ID", broker, ManualClock(NOW_NS), read_query({"subs": "detail"})))
    detail = found.connections[0].subscriptions_list_detail[0]
    assert (detail.subject, detail.qgroup, detail.sid, detail.msgs, detail.max) == ("s\ufffd", "q", "9", 3, 5)


def test_users_are_named_on_demand() -> None:
    plain, named = (
        ask(cid="4", state="closed").connections[0],
        ask(cid="4", state="closed", auth="1").connections[0],
    )
    assert (plain.authorized_user, plain.account, plain.name_tag) == ("", "", "")
    assert (named.authorized_user, named.account, named.name_tag) == ("u", "A", "A")
    # The global account is not named, but open connections carry its tag.
    mine = ask(cid="2", auth="1").connections[0]
    assert (mine.authorized_user, mine.account, mine.name_tag) == ("u", "", "$G")
    gone = ask(cid="1", auth="1", state="closed").connections[0]
    assert (gone.account, gone.name_tag) == ("", "")


@pytest.mark.parametrize(
    ("ns", "expected"),
    [(0, "0s"), (999, "999ns"), (466_039, "466µs"), (999_999, "999µs"), (1_000_001, "1.000001ms")],
)
def test_round_trip(ns: int, expected: str) -> None:
    assert round_trip(ns) == expected


def test_times() -> None:
    now = ask(cid="2").connections[0]
    assert (now.uptime, now.idle, now.rtt, now.stop) == ("1m40s", "10s", "3ns", "")
    assert (now.start, now.last_activity) == ("2026-11-18T09:58:20Z", "2026-11-18T09:59:50Z")
    gone = ask(cid="1", state="closed").connections[0]
    assert (gone.uptime, gone.idle, gone.stop) == ("1m35s", "5s", "2026-11-18T09:59:55Z")
    assert gone.reason == "Stale Connection"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"sort": "xx"}, "invalid sorting option: xx"),
        ({"state": "x"}, "Error decoding state for x"),
        ({"sort": "stop"}, "sort by stop only valid on closed connections"),
        ({"sort": "reason", "state": "all"}, "sort by reason only valid on closed connections"),
        ({"filter_subject": "foo"}, "filter by subject only valid with account filtering"),
        # The first fault is told.
        (
            {"sort": "xx", "auth": "x"},
            "Error decoding boolean for 'auth': strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
    ],
)
def test_bad_options(query: dict[str, str], text: str) -> None:
    with pytest.raises(BadQuery) as raised:
        read_query(query)
    assert str(raised.value) == text


def test_certificate_of_the_peer_is_shown_with_auth() -> None:
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2027, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    der = certificate.public_bytes(serialization.Encoding.DER)
    broker = FakeBroker(open=[session(1, tls_version="1.3", peer_certificate=der)])
    plain, shown = (
        whole(connz("ID", broker, ManualClock(NOW_NS), read_query({"auth": auth}))).connections[0]
        for auth in ("", "1")
    )
    assert plain.tls_peer_certs == ()
    assert shown.tls_peer_certs[0].subject == "CN=me"
    assert shown.tls_peer_certs[0].cert_sha256 == certificate.fingerprint(hashes.SHA256()).hex()
    assert len(shown.tls_peer_certs[0].spki_sha256) == 64


def test_certificate_that_cannot_be_read_does_not_spoil_the_document() -> None:
    broker = FakeBroker(open=[session(1, peer_certificate=b"junk")])
    shown = (
        whole(connz("ID", broker, ManualClock(NOW_NS), read_query({"auth": "1"})))
        .connections[0]
        .tls_peer_certs[0]
    )
    assert (shown.subject, shown.spki_sha256) == ("", "")
    assert len(shown.cert_sha256) == 64
