"""The file of cursors: its bytes, and what is told of damage."""

from pathlib import Path

import pytest

from tidelog.base.errors import StorageError
from tidelog.log.cursor_file import (
    FILE_HEADER_SIZE,
    RECORD_HEADER_SIZE,
    Cursor,
    Kind,
    encode_file,
    encode_record,
    read_cursors,
)
from tidelog.log.record import checksum

GOLDEN = Path(__file__).parent / "golden" / "cursors-1"
TS_NS = 1_700_000_000_000_000_000
FIRST = Cursor("orders", 1000, 5, TS_NS)
SECOND = Cursor("zähler", 2**64 - 1, 7, TS_NS + 1, doubtful=True)


def golden() -> bytes:
    moved = FIRST._replace(seq=2000, revision=10)
    return (
        encode_file([FIRST, SECOND], 9, TS_NS)
        + encode_record(Kind.SET, 3, 2, moved)
        + encode_record(Kind.DELETE, 4, 2, SECOND._replace(revision=11))
        + encode_record(Kind.CLOSED, 5, 4, Cursor("", 0, 11, TS_NS))
    )


def test_the_bytes_are_those_of_the_format() -> None:
    assert golden() == GOLDEN.read_bytes()
    contents = read_cursors(GOLDEN.read_bytes())
    assert contents.cursors == {"orders": FIRST._replace(seq=2000, revision=10)}
    assert (contents.number, contents.revision, contents.damaged, contents.cut_size) == (5, 11, 0, 0)
    assert contents.closed


def test_doubt_is_kept_when_written() -> None:
    assert read_cursors(encode_file([FIRST, SECOND], 9, TS_NS)).cursors["zähler"] == SECOND


def test_a_record_lost_in_the_middle_is_counted_and_doubted() -> None:
    records = [
        encode_record(Kind.SET, number, number - 1, Cursor(name, number, number, TS_NS))
        for number, name in enumerate(["a", "b", "a", "c", "b"], 1)
    ]
    whole = encode_file([], 0, TS_NS) + b"".join(records)
    start = len(whole) - 3 * len(records[0])
    for lost in (
        whole[:start] + bytes(len(records[0])) + whole[start + len(records[0]) :],
        whole[:start] + whole[start + len(records[0]) :],
        whole[:start] + b"\xff" * 7 + whole[start + len(records[0]) :],
    ):
        contents = read_cursors(lost)
        assert (contents.damaged, contents.cut_size) == (1, 0)
        assert contents.cursors == {
            "a": Cursor("a", 1, 1, TS_NS, doubtful=True),
            "c": Cursor("c", 4, 4, TS_NS),
            "b": Cursor("b", 5, 5, TS_NS),
        }


def test_what_is_missing_and_was_not_synced_is_no_damage() -> None:
    """The power took the second record of a batch and left the third."""
    batch = [encode_record(Kind.SET, n, 1, Cursor("abc"[n - 2], n, n, TS_NS)) for n in (2, 3, 4)]
    synced = encode_file([FIRST], 5, TS_NS)
    torn = synced + batch[0] + bytes(len(batch[1])) + batch[2]
    contents = read_cursors(torn)
    assert (contents.damaged, contents.cut_size) == (0, len(batch[1]))
    assert list(contents.cursors) == ["orders", "a", "c"]
    assert not any(cursor.doubtful for cursor in contents.cursors.values())
    later = read_cursors(torn + encode_record(Kind.SET, 5, 4, SECOND))
    assert (later.damaged, later.cut_size) == (1, 0)
    assert later.cursors["a"].doubtful


def test_strange_bytes_between_records_are_reported() -> None:
    data = encode_file([FIRST], 5, TS_NS) + b"strange" + encode_record(Kind.SET, 2, 1, SECOND)
    assert (read_cursors(data).damaged, read_cursors(data).cut_size) == (0, 7)
    contents = read_cursors(data + encode_record(Kind.CLOSED, 3, 2, Cursor("", 0, 7, TS_NS)))
    assert (contents.damaged, contents.cut_size, contents.number, contents.closed) == (1, 0, 3, False)
    assert not contents.cursors["orders"].doubtful


def test_a_damaged_header_does_not_cost_the_records() -> None:
    data = bytearray(golden())
    data[20] ^= 1
    contents = read_cursors(bytes(data))
    assert not contents.header_valid
    assert contents.damaged == 1
    assert contents.cursors == {"orders": FIRST._replace(seq=2000, revision=10)}
    assert contents.revision == 11


@pytest.mark.parametrize("data", [b"", b"short", bytes(200), golden()[: FILE_HEADER_SIZE - 1]])
def test_a_file_that_is_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(StorageError, match="move it away"):
        read_cursors(data)


def test_a_version_of_tomorrow_is_refused() -> None:
    facts = (2).to_bytes(2, "little") + bytes(18)
    with pytest.raises(StorageError, match="version 2"):
        read_cursors(b"TIDECUR1" + checksum(facts).to_bytes(4, "little") + facts)


def test_no_flipped_bit_passes_unreported() -> None:
    whole = golden()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        contents = read_cursors(bytes(data))
        assert contents.damaged or contents.cut_size, bit
        found = contents.cursors.get("orders")
        assert found is None or found.doubtful or found.seq == 2000 or contents.cut_size, bit


def test_a_name_that_looks_like_a_record_is_none() -> None:
    """A record can be spelled in a name but for its kind, which is a control character: hence the rule for names."""
    inner = encode_record(Kind.SET, 2, 1, Cursor("evil", 9, 9, TS_NS))
    assert inner[4] < 0x20
    assert len(inner) > RECORD_HEADER_SIZE
