"""Messages as columns: everything that the log has of them, and nothing else."""

import itertools
import struct

import pytest

from tidelog.base.seqset import SequenceSet
from tidelog.log.columns import Columns, batch_columns, segment_columns
from tidelog.log.record import encode_fact, encode_message
from unit.log.house import House
from unit.log.segment import HEADER, SALT, SKIP

NONE = SequenceSet()
ALL = 1 << 62


def texts(ends: bytes, data: bytes) -> list[bytes]:
    marks = struct.unpack(f"<{len(ends) // 4}i", ends)
    return [data[start:end] for start, end in itertools.pairwise(marks)]


def rows(columns: Columns) -> list[tuple[int, int, int, bytes, bytes, bytes]]:
    """(seq, ts_ns, expiry_ns, subject, header, payload)"""
    count = columns.count
    seqs = struct.unpack(f"<{count}q", columns.seq)
    micros = struct.unpack(f"<{count}q", columns.time_us)
    rests = struct.unpack(f"<{count}h", columns.time_ns)
    assert all(0 <= rest < 1000 for rest in rests)
    times = [us * 1000 + rest for us, rest in zip(micros, rests, strict=True)]
    return list(
        zip(
            seqs,
            times,
            struct.unpack(f"<{count}q", columns.expiry_ns),
            texts(columns.subject_ends, columns.subjects),
            texts(columns.header_ends, columns.headers),
            texts(columns.payload_ends, columns.payloads),
            strict=True,
        )
    )


# (seq, ts_ns, expiry_ns, subject, header, payload)
MESSAGES = [
    (3, -1_000_000_001, 0, b"a", b"", b""),
    (4, -1, 0, b"a.b", b"NATS/1.0\r\nA: b\r\n\r\n", b"payload"),
    (6, 999, 5_000_000_000, b"\xff\x00", b"", b"\x00" * 300),
    (7, 1_700_000_000_123_456_789, 0, b"c", b"NATS/1.0\r\n\r\n", b"x"),
]


def segment(messages: list[tuple[int, int, int, bytes, bytes, bytes]]) -> bytes:
    return HEADER + b"".join(
        encode_message(seq, ts_ns, subject, header, payload, expiry_ns, SALT)
        for seq, ts_ns, expiry_ns, subject, header, payload in messages
    )


def test_every_message_is_there_with_all_of_it() -> None:
    columns, damaged = segment_columns(segment(MESSAGES), SALT, NONE, 1, ALL)
    assert rows(columns) == MESSAGES
    assert (damaged, columns.expires, columns.has_headers) == (0, True, True)


def test_a_record_can_be_made_from_its_row_again() -> None:
    columns, _ = segment_columns(segment(MESSAGES), SALT, NONE, 1, ALL)
    assert segment(rows(columns)) == segment(MESSAGES)


def test_what_is_dead_or_out_of_bounds_is_left_out() -> None:
    dead = SequenceSet()
    dead.add(6)
    columns, damaged = segment_columns(segment(MESSAGES), SALT, dead, 4, 7)
    assert [row[0] for row in rows(columns)] == [4]
    assert (damaged, columns.expires, columns.has_headers) == (0, False, True)


def test_no_message_at_all() -> None:
    columns, damaged = segment_columns(HEADER, SALT, NONE, 1, ALL)
    assert (columns.count, damaged, rows(columns)) == (0, 0, [])
    assert columns.subject_ends == bytes(4)


def test_records_that_are_no_messages_are_passed_over() -> None:
    data = segment(MESSAGES[:2]) + encode_fact(SKIP, 5, 0, (6).to_bytes(8, "little"), SALT)
    columns, damaged = segment_columns(data, SALT, NONE, 1, ALL)
    assert ([row[0] for row in rows(columns)], damaged) == ([3, 4], 0)


@pytest.mark.parametrize("at", range(len(MESSAGES)))
def test_damage_costs_the_message_that_it_hit(at: int) -> None:
    data = bytearray(segment(MESSAGES))
    start = len(segment(MESSAGES[:at]))
    data[start + 20] ^= 1
    columns, damaged = segment_columns(bytes(data), SALT, NONE, 1, ALL)
    assert rows(columns) == MESSAGES[:at] + MESSAGES[at + 1 :]
    assert damaged == len(segment(MESSAGES[: at + 1])) - start


def test_a_torn_end_is_left_out() -> None:
    columns, damaged = segment_columns(segment(MESSAGES)[:-1], SALT, NONE, 1, ALL)
    assert rows(columns) == MESSAGES[:-1]
    assert damaged == len(segment(MESSAGES[-1:])) - len(HEADER) - 1


@pytest.mark.parametrize("backward", [False, True])
def test_what_a_reader_has_read(backward: bool) -> None:
    house = House()
    house.fill(500)
    house.remove([7, 8, 100])
    house.settle()
    batch = house.log.reader(backward=backward).read(1000, 1 << 20)
    assert rows(batch_columns(batch)) == [
        (one.seq, one.ts_ns, one.expiry_ns, one.subject, one.header, one.payload) for one in batch
    ]
    assert len(batch) == 497
