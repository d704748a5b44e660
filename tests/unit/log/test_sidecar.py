"""Sidecars: what is believed of an index file, what is kept of it, and look-ups while a segment grows."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.record import checksum
from tidelog.log.sidecar import Sidecar, decode_ranges, encode_ranges, refusal
from tidelog.log.survey import survey
from unit.log.segment import SALT, Segment, example
from unit.log.test_survey import NAMES, facts

GOLDEN = Path(__file__).parent / "golden"


def index_of(segment: Segment) -> bytes:
    return survey(segment.data, segment.base_seq, SALT).index_bytes()


def parsed(segment: Segment) -> Sidecar:
    sidecar = Sidecar.parse(index_of(segment), segment.base_seq, len(segment.data))
    assert sidecar is not None
    return sidecar


def told(sidecar: Sidecar) -> dict[str, object]:
    answers: dict[str, object] = {name: getattr(sidecar, name) for name in (*NAMES, "holes")}
    rows = sidecar.take_rows()
    assert rows is not None
    answers["rows"] = dict(rows)
    assert (rows.broken, rows.rows) == (False, 0)
    return answers


def test_an_index_says_what_the_survey_found() -> None:
    segment = example()
    for sidecar in (parsed(segment), Sidecar.of(survey(segment.data, 10, SALT))):
        assert (sidecar.base_seq, sidecar.size) == (10, len(segment.data))
        assert told(sidecar) == facts(segment)
        assert sidecar.take_rows() is None


def test_an_index_of_nothing() -> None:
    sidecar = parsed(Segment(7))
    assert (sidecar.last_seq, sidecar.messages, sidecar.samples, sidecar.size) == (6, 0, [], 64)
    assert told(sidecar)["rows"] == {}
    assert sidecar.find_seq(7) == sidecar.find_time(0) == -1


def test_the_bytes_are_those_of_the_format() -> None:
    segment = Segment(10)
    segment.add(11, 1000, b"a", b"", expiry_ns=77)
    segment.control(4)
    segment.add(300, 2000, b"a")
    first_size, last_size = 32 + 8 + 1, 32 + 1
    body = struct.pack("<IIq", 1, 64, 1000)
    body += struct.pack("<I", 64 + first_size)
    body += struct.pack("<Qq", 11, 77)
    body += struct.pack("<QQQQ", 10, 1, 12, 288)
    body += struct.pack("<H", 1) + b"a" + bytes([2, 1, 2]) + bytes([0x80 | 289 & 127, 289 >> 7])
    numbers = (10, 300, len(segment.data), 2, first_size + last_size, 1000, 2000, 1, 1, 1, 1, 2, 0)
    head = struct.pack("<IQQQQQqqIIIIII", 1, *numbers)
    expected = (
        b"TIDEIDX1" + struct.pack("<I", checksum(head)) + head + body + struct.pack("<I", checksum(body))
    )
    assert index_of(segment) == expected


def test_golden_files_are_read_and_made_as_ever() -> None:
    data = (GOLDEN / "00000000000000000010.seg").read_bytes()
    index = (GOLDEN / "00000000000000000010.idx").read_bytes()
    segment = example()
    assert data[:8] == b"TIDESEG1"
    assert int.from_bytes(data[8:12], "little") == checksum(data[12:64])
    assert int.from_bytes(data[16:20], "little") == SALT
    assert data[64:] == segment.data[64:]
    found = survey(data, 10, SALT)
    assert facts(found) == facts(segment)
    assert found.index_bytes() == index
    sidecar = Sidecar.parse(index, 10, len(data))
    assert sidecar is not None
    assert told(sidecar) == facts(segment)


# ---- what is not believed ----


def test_no_flipped_bit_and_no_cut_goes_unseen() -> None:
    segment = example()
    index = index_of(segment)
    for bit in range(8 * len(index)):
        damaged = bytearray(index)
        damaged[bit // 8] ^= 1 << bit % 8
        assert Sidecar.parse(bytes(damaged), 10, len(segment.data)) is None, bit
    for size in range(len(index)):
        assert Sidecar.parse(index[:size], 10, len(segment.data)) is None
    assert Sidecar.parse(index + b"\0", 10, len(segment.data)) is None


def resealed(index: bytes, pos: int, patch: bytes) -> bytes:
    """Other bytes in an index, with checksums that match."""
    head = bytearray(index[:96])
    body = bytearray(index[96:-4])
    if pos < 96:
        head[pos : pos + len(patch)] = patch
    else:
        body[pos - 96 : pos - 96 + len(patch)] = patch
    head[8:12] = checksum(bytes(head[12:])).to_bytes(4, "little")
    return bytes(head + body) + checksum(bytes(body)).to_bytes(4, "little")


def test_why_an_index_is_refused() -> None:
    segment = example()
    index, size = index_of(segment), len(segment.data)
    assert refusal(index, 10, size) == ""
    assert refusal(b"", 10, size) == "cut short: 0 bytes"
    assert refusal(b"X" + index[1:], 10, size) == "no index file"
    assert refusal(index[:95] + b"\1" + index[96:], 10, size) == "checksum of the header"
    assert refusal(index[:-1], 10, size) == "checksum of the body"
    assert refusal(resealed(index, 12, b"\2"), 10, size) == "version 2"
    assert refusal(index, 11, size) == "base 10, not 11"
    assert refusal(index, 10, size + 1) == f"made of {size} bytes, not {size + 1}"


@pytest.mark.parametrize("pos", [24, 40, 48, 56, 64, 72, 76, 80, 84, 88, 92])
@pytest.mark.parametrize("value", [0, 0xFFFF_FFFF, 0x7FFF_FFFF, 0x0FFF_FFFF])
def test_numbers_that_do_not_add_up(pos: int, value: int) -> None:
    segment = example()
    index, size = index_of(segment), len(segment.data)
    patched = resealed(index, pos, value.to_bytes(4, "little"))
    if patched == index:
        return
    sidecar = Sidecar.parse(patched, 10, size)
    if sidecar is not None:
        # A count that is too small makes the sections behind it something else, down to the rows.
        rows = sidecar.take_rows()
        assert rows is not None
        assert (list(rows), rows.broken)[1] or pos in (48, 56, 64)
    else:
        assert refusal(patched, 10, size) == "sections that do not add up"


@given(st.integers(96, 2000), st.binary(min_size=1, max_size=8))
def test_rows_that_are_not_right_end_the_walk(pos: int, patch: bytes) -> None:
    segment = example()
    index, size = index_of(segment), len(segment.data)
    pos = 96 + pos % (len(index) - 100 - len(patch))
    sidecar = Sidecar.parse(resealed(index, pos, patch), 10, size)
    if sidecar is None:
        return
    rows = sidecar.take_rows()
    assert rows is not None
    found = list(rows)
    assert [subject for subject, _ in found] == sorted({subject for subject, _ in found})
    for _, sequences in found:
        assert sequences == sorted(set(sequences))
        assert segment.base_seq <= sequences[0] <= sequences[-1] <= segment.last_seq


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 9, 10, 11])
def test_a_number_without_end_ends_the_walk(length: int) -> None:
    segment = Segment(1)
    for seq in range(1, 20):
        segment.add(seq, 0, b"s")
    index = index_of(segment)
    sidecar = Sidecar.parse(resealed(index, len(index) - 4 - length, b"\x80" * length), 1, len(segment.data))
    assert sidecar is not None
    rows = sidecar.take_rows()
    assert rows is not None
    assert (list(rows), rows.broken) == ([], True)


@given(st.binary(max_size=400))
def test_garbage_is_refused(data: bytes) -> None:
    assert Sidecar.parse(data, 1, 64) is None
    sealed = resealed(b"TIDEIDX1" + (bytes(88) + data)[-500:] + bytes(100), 12, b"\1")
    assert Sidecar.parse(sealed, 1, 64) is None


# ---- look-ups, and an open segment ----


def grown(segment: Segment) -> Sidecar:
    sidecar = Sidecar.fresh(segment.base_seq)
    ends = [pos for pos, _ in segment.records[1:]] + [len(segment.data)]
    expiries = dict(segment.expiries)
    for (pos, seq), end in zip(segment.records, ends, strict=False):
        if not seq:
            sidecar.note_control(pos, end - pos)
            continue
        sidecar.note(
            seq, pos, int.from_bytes(segment.data[pos + 16 : pos + 24], "little", signed=True), end - pos
        )
        if seq in expiries:
            sidecar.note_expiry(seq, expiries[seq])
    return sidecar


def long() -> Segment:
    segment = Segment(5)
    for number in range(400):
        segment.add(6 + 2 * number, number // 100, b"s", bytes(100))
    return segment


@pytest.mark.parametrize("segment", [example(), long()])
def test_growing_comes_to_the_same(segment: Segment) -> None:
    sidecar = grown(segment)
    assert {name: getattr(sidecar, name) for name in NAMES} == {
        name: getattr(segment, name) for name in NAMES
    }
    assert (sidecar.holes, sidecar.size) == (segment.holes, len(segment.data))
    assert sidecar.take_rows() is None


def test_a_surveyed_segment_grows_on() -> None:
    segment = long()
    sidecar = Sidecar.of(survey(segment.data, 5, SALT))
    pos = len(segment.data)
    segment.add(2000, 9, b"t")
    sidecar.note(2000, pos, 9, len(segment.data) - pos)
    assert (sidecar.last_seq, sidecar.messages, sidecar.holes) == (2000, 401, segment.holes)
    assert (sidecar.last_ts_ns, sidecar.size) == (9, len(segment.data))


@pytest.mark.parametrize("make", [parsed, grown])
def test_samples_are_found_by_sequence_and_time(make: type) -> None:
    sidecar = make(long())
    samples = sidecar.samples
    assert len(samples) == 13
    for seq in range(820):
        assert sidecar.find_seq(seq) == sum(first <= seq for first, _, _ in samples) - 1
    for ts_ns in range(-1, 6):
        assert sidecar.find_time(ts_ns) == sum(first < ts_ns for _, _, first in samples) - 1


def test_what_does_not_belong_is_not_noted() -> None:
    with pytest.raises(ValueError, match="begin at 1"):
        Sidecar.fresh(0)
    sidecar = Sidecar.fresh(5)
    for seq, pos, ts_ns in ((4, 64, 0), (5, 63, 0), (5, 2**32, 0), (5 + 2**32, 64, 0)):
        with pytest.raises(ValueError, match="does not belong"):
            sidecar.note(seq, pos, ts_ns, 40)
    sidecar.note(5, 64, 10, 40)
    for seq, pos, ts_ns in ((5, 104, 10), (6, 103, 10), (6, 104, 9)):
        with pytest.raises(ValueError, match="does not belong"):
            sidecar.note(seq, pos, ts_ns, 40)
    with pytest.raises(ValueError, match="does not belong"):
        sidecar.note_control(103, 40)
    assert (sidecar.messages, sidecar.size, sidecar.controls) == (1, 104, [])


# ---- delete records ----

UINT64 = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(st.integers(0, 2**50), st.integers(1, 2**50), UINT64), max_size=20))
def test_ranges_are_what_they_were(steps: list[tuple[int, int, int]]) -> None:
    ranges, floor = [], 0
    for distance, count, size in steps:
        ranges.append((floor + distance, count, size))
        floor += distance + count
    data = encode_ranges(ranges)
    assert decode_ranges(data) == ranges
    for size in range(len(data)):
        found = decode_ranges(data[:size])
        assert found is None or found == ranges[: len(found)]


@given(st.binary(max_size=60))
def test_ranges_of_garbage(data: bytes) -> None:
    found = decode_ranges(data)
    assert found is None or encode_ranges(found) == data


def test_ranges_that_are_none() -> None:
    assert encode_ranges([(12, 1, 46), (13, 2, 300)]) == bytes([12, 1, 46, 0, 2, 0xAC, 2])
    for wrong in ([(5, 0, 0)], [(5, 2, 0), (6, 1, 0)], [(2**64 - 1, 2, 0)]):
        with pytest.raises(ValueError, match="does not belong"):
            encode_ranges(wrong)
    assert decode_ranges(b"\x05\x00\x00") is None
    assert decode_ranges(b"\xff" * 9 + b"\x01" + b"\x02\x00") is None
    assert decode_ranges(b"\x80\x00\x01\x00") is None, "a number has one form"
    assert decode_ranges(b"\xff" * 9 + b"\x02\x01\x00") is None, "more than 64 bits"
