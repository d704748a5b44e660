"""Surveys: what is found in a whole segment, behind damage, and at a torn end."""

import threading

import pytest

from tidelog.base import limits
from tidelog.log.record import checksum, encode_fact, encode_message
from tidelog.log.survey import Survey, survey
from unit.log.segment import DELETE, HEADER, SALT, SAMPLE_EVERY, SKIP, TRIM, Segment, example

NAMES = (
    "last_seq",
    "messages",
    "message_bytes",
    "first_ts_ns",
    "last_ts_ns",
    "samples",
    "controls",
    "expiries",
)


def facts(found: Survey | Segment) -> dict[str, object]:
    told: dict[str, object] = {name: getattr(found, name) for name in (*NAMES, "holes")}
    told["rows"] = found.subjects if isinstance(found, Survey) else dict(sorted(found.rows.items()))
    return told


def test_everything_in_a_segment_is_found() -> None:
    segment = example()
    found = survey(segment.data, 10, SALT)
    assert facts(found) == facts(segment)
    assert list(found.subjects) == [b"orders", b"orders.eu", b"orders.us"]
    assert found.holes == [(10, 2), (15, 3)]
    assert (found.end, found.torn_size, found.damages) == (len(segment.data), 0, [])
    assert (found.base_seq, found.subject_count) == (10, 3)


@pytest.mark.parametrize("size", [0, 1, 63, 64])
def test_a_segment_without_records(size: int) -> None:
    found = survey(HEADER[:size], 7, SALT)
    assert (found.last_seq, found.messages, found.samples, found.subjects) == (6, 0, [], {})
    assert (found.end, found.torn_size, found.damages) == (64, 0, [])


def test_samples_are_as_far_apart_as_said() -> None:
    segment = Segment(1)
    record_size = 32 + 1 + 31
    for seq in range(1, 300):
        segment.add(seq, seq, b"s", bytes(31))
    found = survey(segment.data, 1, SALT)
    assert found.samples == segment.samples
    every = SAMPLE_EVERY // record_size
    assert [seq for seq, _, _ in found.samples] == list(range(1, 300, every))


@pytest.mark.parametrize("cast", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(cast: type) -> None:
    assert facts(survey(cast(example().data), 10, SALT)) == facts(example())


def test_bounds_of_the_door() -> None:
    with pytest.raises(ValueError, match="sequences begin at 1"):
        survey(HEADER, 0, SALT)
    with pytest.raises(ValueError, match="expected up to 65"):
        survey(HEADER, 1, SALT, expected_end=65)
    with pytest.raises((TypeError, BufferError)):
        survey("text", 1, SALT)  # type: ignore[arg-type]


def without(segment: Segment, hit: int) -> dict[str, object]:
    """What is left of a segment when the record with that number cannot be read."""
    left = Segment(segment.base_seq)
    controls, expiries = [], dict(segment.expiries)
    sizes = [pos for pos, _ in segment.records[1:]] + [len(segment.data)]
    for number, (pos, seq) in enumerate(segment.records):
        if number == hit:
            left.data += bytes(sizes[number] - pos)
        elif seq:
            [subject] = [subject for subject, seqs in segment.rows.items() if seq in seqs]
            ts_ns = int.from_bytes(segment.data[pos + 16 : pos + 24], "little", signed=True)
            front = 32 + len(subject) + (8 if seq in expiries else 0)
            left.add(seq, ts_ns, subject, segment.data[pos + front : sizes[number]], expiries.get(seq, 0))
        else:
            controls.append(pos)
            left.data += segment.data[pos : sizes[number]]
    left.controls = controls
    return facts(left)


def test_a_flipped_bit_costs_one_record_and_no_more() -> None:
    segment = example()
    ends = [pos for pos, _ in segment.records[1:]] + [len(segment.data)]
    for hit, (pos, _) in enumerate(segment.records):
        expected = without(segment, hit)
        for bit in range(8 * pos, 8 * ends[hit]):
            damaged = bytearray(segment.data)
            damaged[bit // 8] ^= 1 << bit % 8
            found = survey(damaged, 10, SALT)
            assert facts(found) == expected, (hit, bit)
            if hit == len(ends) - 1:
                assert (found.damages, found.end, found.torn_size) == ([], pos, ends[hit] - pos)
                found = survey(damaged, 10, SALT, expected_end=len(damaged))
                assert facts(found) == expected
            assert found.damages == [(pos, ends[hit] - pos)]
            assert (found.end, found.torn_size) == (len(segment.data), 0)


def test_the_header_is_not_looked_at() -> None:
    segment = example()
    assert facts(survey(bytes(64) + segment.data[64:], 10, SALT)) == facts(segment)


def test_a_cut_leaves_the_records_before_it() -> None:
    whole = example()
    starts = [pos for pos, _ in whole.records]
    for size in range(64, len(whole.data)):
        found = survey(whole.data[:size], 10, SALT)
        kept = max((pos for pos in [*starts, len(whole.data)] if pos <= size), default=64)
        assert facts(found) == facts(survey(whole.data[:kept], 10, SALT))
        assert (found.end, found.torn_size, found.damages) == (kept, size - kept, [])


@pytest.mark.parametrize(
    "stray",
    [
        encode_message(12, 100, b"again", b"", b"", 0, SALT),
        encode_message(9, 100, b"below the base", b"", b"", 0, SALT),
        encode_message(13, 99, b"time falls", b"", b"", 0, SALT),
        encode_message(1000, 101, b"beyond the most", b"", b"", 0, SALT),
        encode_message(10 + 2**32, 101, b"too far from the base", b"", b"", 0, SALT),
        encode_fact(SKIP, 11, 100, bytes(8), SALT),
        encode_fact(SKIP, 12, 100, bytes(7), SALT),
        encode_fact(TRIM, 12, 100, bytes(9), SALT),
        encode_fact(DELETE, 1000, 100, b"", SALT),
    ],
)
def test_a_valid_record_out_of_order_is_damage(stray: bytes) -> None:
    segment = Segment(10)
    segment.add(12, 100, b"a")
    start = len(segment.data)
    segment.data += stray + stray
    segment.add(13, 100, b"b")
    seq_most = 2**64 - 1 if int.from_bytes(stray[8:16], "little") > 1000 else 999
    found = survey(segment.data, 10, SALT, seq_most)
    assert facts(found) == facts(segment)
    assert found.damages == [(start, 2 * len(stray))]


def test_the_sequence_of_a_control_is_not_given_out_again() -> None:
    segment = Segment(10)
    segment.add(10, 100, b"a")
    data = segment.data + b"?" * 40 + encode_fact(SKIP, 11, 100, bytes(8), SALT)
    data += encode_message(11, 100, b"no", b"", b"", 0, SALT) + encode_message(
        12, 100, b"b", b"", b"", 0, SALT
    )
    found = survey(data, 10, SALT)
    assert (found.subjects, found.holes) == ({b"a": [10], b"b": [12]}, [(11, 1)])


def test_an_erased_message_is_a_message_without_a_subject() -> None:
    erased = bytearray(encode_message(2, 5, b"secret", b"", b"secret", 9, 0))
    erased[25] |= 2
    erased[40:] = bytes(len(erased) - 40)
    crc = salted_crc(bytes(erased))
    segment = Segment(1)
    segment.add(1, 5, b"a")
    data = segment.data + crc + bytes(erased[4:]) + encode_message(3, 5, b"a", b"", b"", 0, SALT)
    found = survey(data, 1, SALT)
    assert (found.messages, found.last_seq, found.holes, found.expiries) == (3, 3, [], [])
    assert (found.subjects, found.damages) == ({b"a": [1, 3]}, [])


def salted_crc(record: bytes) -> bytes:
    return (checksum(record[4:]) ^ SALT).to_bytes(4, "little")


def test_how_far_is_searched() -> None:
    segment = Segment(1)
    segment.add(1, 1, b"a")
    start, record = len(segment.data), encode_message(2, 1, b"b", b"", bytes(100), 0, SALT)
    reach = limits.LOG_RESYNC_SIZE
    within = segment.data + bytes(reach - 1) + record
    found = survey(within, 1, SALT)
    assert (found.damages, found.last_seq, found.torn_size) == ([(start, reach - 1)], 2, 0)
    beyond = segment.data + bytes(reach) + record
    found = survey(beyond, 1, SALT)
    assert (found.damages, found.last_seq, found.end) == ([], 1, start)
    assert found.torn_size == reach + len(record)
    # Where records are expected, they are searched for however far that is.
    found = survey(beyond, 1, SALT, expected_end=len(beyond))
    assert (found.damages, found.last_seq, found.torn_size) == ([(start, reach)], 2, 0)


def test_bytes_that_look_like_large_records_do_not_hold_up_the_search() -> None:
    # 131,072 heads, each of a record of some 4 MiB: to read them all would take minutes.
    count = 4 * limits.MIB // 32
    heads = b"".join(
        encode_message(2, 1, b"", b"", b"", 0, 0)[:4]
        + (32 * (count - number)).to_bytes(4, "little")
        + encode_message(2 + number, 1, b"", b"", b"", 0, 0)[8:]
        for number in range(count)
    )
    segment = Segment(1)
    segment.add(1, 1, b"a")
    start = len(segment.data)
    data = segment.data + heads + encode_message(2, 1, b"b", b"", b"", 0, SALT)
    found = survey(data, 1, SALT)
    assert (found.damages, found.last_seq, found.torn_size) == ([(start, len(heads))], 2, 0)


def test_subjects_are_in_byte_order() -> None:
    words = [b"", b"a", b"a.", b"a" * 6, b"a" * 7, b"a" * 8, b"a" * 14, b"a" * 15, b"b", b"\xff", b"\xff" * 9]
    words += [
        front + bytes([byte]) for front in (b"", b"common.front.of.all.", b"a" * 13) for byte in range(256)
    ]
    words += [b"n" * 21 + bytes(count) for count in range(30)] + [b"x" * 65_535, b"x" * 65_534]
    words = sorted(set(words), key=lambda word: hash(word))
    segment = Segment(1)
    for turn in range(2):
        for number, word in enumerate(words):
            segment.add(turn * len(words) + number + 1, 0, word)
    found = survey(segment.data, 1, SALT).subjects
    assert list(found) == sorted(words)
    assert found == segment.rows


def test_surveys_in_threads_do_not_meet() -> None:
    segment = Segment(1)
    for seq in range(1, 2000):
        segment.add(seq, seq, b"s.%d" % (seq % 700), bytes(50))
    expected = survey(segment.data, 1, SALT).index_bytes()
    made: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: made.append(survey(segment.data, 1, SALT).index_bytes()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [expected] * 4
