"""Replies that may be published because a request came."""

import pytest

from tidelog.base import limits
from tidelog.broker import reply
from tidelog.broker.reply import ReplyLedger
from tidelog.broker.settings import ResponseRights


def test_nothing_is_allowed_that_was_not_noted() -> None:
    assert not ReplyLedger(ResponseRights()).allows(b"r", 0)


def test_uses_are_counted() -> None:
    ledger = ReplyLedger(ResponseRights(max_msgs=2))
    ledger.note(b"r", 0)
    assert [ledger.allows(b"r", 1) for _ in range(3)] == [True, True, False]
    assert len(ledger) == 0


def test_a_new_request_with_the_same_reply_starts_afresh() -> None:
    ledger = ReplyLedger(ResponseRights(max_msgs=1, expires_ns=10))
    ledger.note(b"r", 0)
    ledger.note(b"r", 8)
    assert ledger.allows(b"r", 18)
    assert not ledger.allows(b"r", 18)


def test_expiry_at_its_edge() -> None:
    ledger = ReplyLedger(ResponseRights(max_msgs=-1, expires_ns=10))
    ledger.note(b"r", 5)
    assert ledger.allows(b"r", 15)
    assert not ledger.allows(b"r", 16)
    assert len(ledger) == 0


def test_without_limits_a_note_lasts() -> None:
    ledger = ReplyLedger(ResponseRights(max_msgs=-1, expires_ns=-1))
    ledger.note(b"r", 0)
    assert all(ledger.allows(b"r", 10**18) for _ in range(100))


def test_expired_notes_go_when_others_come() -> None:
    ledger = ReplyLedger(ResponseRights(expires_ns=10))
    for number in range(100):
        ledger.note(b"old.%d" % number, 0)
    for number in range(100):
        ledger.note(b"new.%d" % number, 11)
    assert len(ledger) == 100
    assert ledger.allows(b"new.0", 11)


def test_the_oldest_note_goes_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reply.REPLIES_TRACKED == limits.REPLIES_TRACKED
    monkeypatch.setattr(reply, "REPLIES_TRACKED", 3)
    ledger = ReplyLedger(ResponseRights())
    for name in (b"a", b"b", b"c"):
        ledger.note(name, 0)
    assert len(ledger) == 3
    ledger.note(b"d", 0)
    assert len(ledger) == 3
    assert not ledger.allows(b"a", 0)
    assert all(ledger.allows(name, 0) for name in (b"b", b"c", b"d"))


def test_long_replies_are_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "REPLIES_TRACKED_SIZE", 1000)
    ledger = ReplyLedger(ResponseRights(max_msgs=1, expires_ns=10**9))
    for number in range(50):
        ledger.note(b"%0100d" % number, 0)
        ledger.note(b"%0100d" % number, 0)
    assert len(ledger) == 10
    assert ledger.allows(b"%0100d" % 49, 0)
    assert len(ledger) == 9
    ledger.note(b"x" * 2000, 0)
    assert len(ledger) == 1
    assert ledger.allows(b"x" * 2000, 0)
