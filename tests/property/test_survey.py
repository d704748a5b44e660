"""What is true of every segment: the survey, the index and a plain model say the same, whatever is damaged."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.sidecar import Sidecar
from tidelog.log.survey import survey
from unit.log.segment import DELETE, HEADER, SALT, SKIP, TRIM, Segment
from unit.log.test_sidecar import grown, told
from unit.log.test_survey import facts, without

SUBJECTS = st.one_of(
    st.sampled_from([b"a", b"a.b", b"a.b.c", b"orders.eu.berlin", b"orders.eu.bern"]), st.binary(max_size=40)
)
MESSAGES = st.tuples(
    st.integers(1, 300) | st.just(1),
    st.sampled_from([0, 0, 1, 10**9]),
    SUBJECTS,
    st.binary(max_size=60) | st.integers(0, 6000).map(bytes),
    st.sampled_from([0, 0, 0, 12345]),
)
CONTROLS = st.sampled_from([DELETE, TRIM, SKIP])


@st.composite
def segments(draw: st.DrawFn, most: int = 40) -> Segment:
    segment = Segment(draw(st.sampled_from([1, 2, 1000, 2**63])))
    ts_ns = draw(st.integers(-10, 2**60))
    for record in draw(st.lists(MESSAGES | CONTROLS, max_size=most)):
        if isinstance(record, int):
            segment.control(record)
            continue
        distance, passed, subject, payload, expiry_ns = record
        ts_ns += passed
        segment.add(segment.last_seq + distance, ts_ns, subject, payload, expiry_ns)
    return segment


@given(segments())
def test_survey_index_and_model_agree(segment: Segment) -> None:
    found = survey(segment.data, segment.base_seq, SALT)
    expected = facts(segment)
    assert facts(found) == expected
    assert list(found.subjects) == sorted(segment.rows)
    assert (found.end, found.torn_size, found.damages) == (len(segment.data), 0, [])
    index = found.index_bytes()
    sidecar = Sidecar.parse(index, segment.base_seq, len(segment.data))
    assert sidecar is not None
    assert told(sidecar) == expected
    assert told(Sidecar.of(found)) == expected
    noted = grown(segment)
    for name in ("samples", "controls", "expiries", "holes", "messages", "message_bytes", "size"):
        assert getattr(noted, name) == getattr(sidecar, name)


@given(segments(12), st.data())
def test_damage_costs_what_it_hit(segment: Segment, data: st.DataObject) -> None:
    if not segment.records:
        return
    hit = data.draw(st.integers(0, len(segment.records) - 1))
    pos = segment.records[hit][0]
    end = segment.records[hit + 1][0] if hit + 1 < len(segment.records) else len(segment.data)
    where = data.draw(st.integers(pos, end - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=end - where))
    damaged = segment.data[:where] + garbage + segment.data[where + len(garbage) :]
    if damaged == segment.data:
        return
    found = survey(damaged, segment.base_seq, SALT, expected_end=len(damaged))
    assert facts(found) == without(segment, hit)
    assert found.damages == [(pos, end - pos)]


@given(segments(12), st.integers(0, 2**32))
def test_a_cut_leaves_what_is_before_it(segment: Segment, cut: int) -> None:
    size = 64 + cut % (len(segment.data) - 63)
    found = survey(segment.data[:size], segment.base_seq, SALT)
    kept = max(pos for pos in (*[pos for pos, _ in segment.records], len(segment.data)) if pos <= size)
    assert (found.end, found.torn_size, found.damages) == (kept, size - kept, [])
    assert found.messages == sum(1 for pos, seq in segment.records if seq and pos < kept)


@given(st.binary(max_size=300), segments(4), st.binary(max_size=300))
def test_garbage_around_records(before: bytes, segment: Segment, behind: bytes) -> None:
    data = HEADER + before + segment.data[64:] + behind
    found = survey(data, segment.base_seq, SALT)
    assert (found.messages, found.subjects) == (segment.messages, dict(sorted(segment.rows.items())))
    assert found.controls == [len(before) + pos for pos in segment.controls]
    index = found.index_bytes()
    assert Sidecar.parse(index, segment.base_seq, found.end) is not None


@given(
    st.binary(max_size=600), st.integers(1, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
)
def test_garbage_alone(data: bytes, base_seq: int, salt: int, seq_most: int) -> None:
    found = survey(data, base_seq, salt, seq_most)
    assert found.messages == 0
    sealed = survey(data, base_seq, salt, seq_most, len(data))
    assert sealed.torn_size == 0
    assert sealed.damages == ([(64, len(data) - 64)] if len(data) > 64 else [])
