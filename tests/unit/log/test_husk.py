"""What is left of a segment, byte by byte."""

from __future__ import annotations

from tidelog.base.seqset import SequenceSet
from tidelog.log.columns import segment_columns
from tidelog.log.header import HUSK_VERSION, read_header, segment_header
from tidelog.log.husk import refill, strip
from tidelog.log.record import decode, encode_fact, encode_message
from tidelog.log.survey import survey
from tidelog.log.walk import SHELL

LOG_ID = bytes(range(16))
SALT = int.from_bytes(LOG_ID[:4], "little")
HEADER = segment_header(LOG_ID, 1, 5)
MESSAGES = (
    encode_message(1, 1000, b"a", b"", b"", 0, SALT),
    encode_message(2, 2000, b"a.b", b"NATS/1.0\r\nA: b\r\n\r\n", b"payload" * 9, 0, SALT),
    encode_message(4, 2000, b"\xff", b"", b"x", 99, SALT),
)
DELETE = encode_fact(2, 4, 3000, b"\x03\x01\x40", SALT)
# Header, three shells of 37, 39 and 45 bytes, and the delete record as it was.
GOLDEN = (
    "544944455345473126ad709702000000000102030405060708090a0b0c0d0e0f010000000000000005000000000000000000"
)


def test_a_husk_has_all_but_headers_and_payloads() -> None:
    """COLD-7"""
    data = HEADER + b"".join(MESSAGES) + DELETE
    husk = strip(data, SALT)
    assert husk is not None
    assert read_header(husk, "").version == HUSK_VERSION
    assert len(husk) == 64 + 37 + 39 + 45 + len(DELETE)
    assert husk.endswith(DELETE)
    pos = 64
    for record in MESSAGES:
        whole, shell = decode(record, 0, SALT), decode(husk, pos, SALT)
        assert shell["flags"] == whole["flags"] | SHELL
        assert shell["payload"] == len(record).to_bytes(4, "little")
        for name in ("seq", "ts_ns", "kind", "subject", "expiry_ns"):
            assert shell[name] == whole[name]
        pos += shell["size"]
    assert husk[:50].hex() == GOLDEN


def test_its_survey_is_that_of_the_segment() -> None:
    data = HEADER + b"".join(MESSAGES) + DELETE
    husk = strip(data, SALT)
    assert husk is not None
    whole, found = survey(data, 1, SALT), survey(husk, 1, SALT, expected_end=len(husk))
    assert found.damages == []
    for name in (
        "messages",
        "message_bytes",
        "last_seq",
        "first_ts_ns",
        "last_ts_ns",
        "subjects",
        "expiries",
        "holes",
    ):
        assert getattr(found, name) == getattr(whole, name), name
    assert len(found.controls) == 1


def test_once_is_enough_and_damage_is_left_alone() -> None:
    data = HEADER + b"".join(MESSAGES)
    husk = strip(data, SALT)
    assert husk is not None
    assert strip(husk, SALT) == husk
    assert strip(data[:-1] + b"?", SALT) is None


def test_a_husk_is_not_sent() -> None:
    husk = strip(HEADER + b"".join(MESSAGES), SALT)
    assert husk is not None
    assert segment_columns(husk, SALT, SequenceSet(), 1, 1 << 62)[0].count == 0


def test_refilled_it_is_the_segment_again() -> None:
    """COLD-9"""
    data = HEADER + b"".join(MESSAGES)
    columns, _ = segment_columns(data, SALT, SequenceSet(), 1, 1 << 62)
    assert refill([columns], HEADER, SALT, 1, 10) == data
    assert refill([columns], HEADER, SALT, 2, 4) == HEADER + MESSAGES[1]
    # What comes twice, as two files may have it for a moment, is there once.
    assert refill([columns, columns], HEADER, SALT, 1, 10) == data
