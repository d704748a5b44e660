"""Readers: where they start and stop, what they are told, and what they cost."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest

from sim.worker import SimWorker
from tidelog.base.chance import Chance
from tidelog.log.fact import Lost, Trimmed, TrimmedError
from tidelog.log.filter import Filter
from tidelog.log.log import Start
from tidelog.log.policy import STRICT
from tidelog.log.read import Message, Reader
from tidelog.log.settings import Limits
from unit.log.log_case import LogCase, drain

NS = 1_000_000_000


@pytest.fixture
def case() -> LogCase:
    case = LogCase()
    case.fill(100)
    return case


# ---- backwards ----


def test_a_reverse_read_is_a_finite_scan_of_what_was_committed_when_it_was_opened(case: LogCase) -> None:
    """READ-2, and the bound is known before the first message."""
    reader = case.log.reader(backward=True)
    assert reader.opened_seq == 100
    case.fill(50)
    assert drain(reader) == (list(range(100, 0, -1)), [])
    assert reader.ended


def test_a_reverse_read_does_not_see_what_is_not_committed(case: LogCase) -> None:
    case.log.append(b"s.1", b"later")
    reader = case.log.reader(backward=True, start_seq=101, limit=1)
    case.log.commit()
    assert reader.read().sequences() == [100]


def test_a_reverse_read_starts_at_the_greatest_that_is_not_above(case: LogCase) -> None:
    for seq in (60, 61, 100):
        case.log.remove(seq)
    for start_seq, first in ((61, 59), (62, 62), (100, 99), (10_000, 99)):
        assert case.log.reader(backward=True, start_seq=start_seq, limit=1).read().sequences() == [first]
    assert case.log.reader(backward=True, limit=1).read().sequences() == [99]


def test_a_reverse_read_starts_at_the_newest_that_is_not_later(case: LogCase) -> None:
    moment = case.log.get(50).ts_ns  # type: ignore[union-attr]
    for start_ts_ns, found in ((moment, [50]), (moment + NS - 1, [50]), (moment - 1, [49]), (0, [])):
        assert case.log.reader(backward=True, start_ts_ns=start_ts_ns, limit=1).read().sequences() == found


@pytest.mark.parametrize("start", [Start.FIRST, Start.NEW])
def test_a_reverse_read_from_the_first_or_for_the_new_is_an_error(case: LogCase, start: str) -> None:
    with pytest.raises(ValueError, match="backwards"):
        case.log.reader(backward=True, start=start)


def test_a_reader_does_not_start_anywhere_else(case: LogCase) -> None:
    with pytest.raises(ValueError, match="'latest'"):
        case.log.reader(start="latest")


def test_reverse_stops_are_inclusive(case: LogCase) -> None:
    moment = case.log.get(97).ts_ns  # type: ignore[union-attr]
    log = case.log
    assert drain(log.reader(backward=True, stop_seq=97))[0] == [100, 99, 98, 97]
    assert drain(log.reader(backward=True, stop_ts_ns=moment))[0] == [100, 99, 98, 97]
    assert drain(log.reader(backward=True, stop_ts_ns=moment + 1))[0] == [100, 99, 98]
    assert drain(log.reader(backward=True, limit=4))[0] == [100, 99, 98, 97]
    assert drain(log.reader(backward=True, start_seq=50, stop_seq=50))[0] == [50]


def test_a_reverse_stop_above_the_start_is_an_error(case: LogCase) -> None:
    with pytest.raises(ValueError, match="the stop must not be above the start"):
        case.log.reader(backward=True, start_seq=50, stop_seq=51)
    with pytest.raises(ValueError, match="the time to stop at"):
        case.log.reader(backward=True, start_ts_ns=50, stop_ts_ns=51)


@pytest.mark.parametrize("purged", [False, True])
def test_a_reverse_read_of_an_empty_log_ends_at_once(purged: bool) -> None:
    case = LogCase()
    if purged:
        case.fill(50)
        case.log.purge()
        case.log.commit()
    batch = case.log.reader(backward=True).read()
    assert (len(batch), batch.ended, batch.facts) == (0, True, [])
    batch = case.log.reader(Filter(b"none"), backward=True).read()
    assert (len(batch), batch.ended, batch.facts) == (0, True, [])


def test_retention_that_overtakes_a_reverse_read_ends_it_and_says_so(case: LogCase) -> None:
    reader = case.log.reader(backward=True)
    assert reader.read(20).sequences() == list(range(100, 80, -1))
    case.log.purge(before_seq=91)
    batch = reader.read()
    assert (len(batch), batch.ended, batch.facts) == (0, True, [Trimmed(1, 81)])
    assert not reader.read().facts, "it is said once"


def test_retention_ends_a_reverse_read_only_where_it_gets_to(case: LogCase) -> None:
    reader = case.log.reader(backward=True)
    reader.read(20)
    case.log.purge(before_seq=51)
    assert drain(reader) == (list(range(80, 50, -1)), [Trimmed(1, 51)])


def test_a_reverse_read_whose_stop_was_trimmed_before_it_began_is_told() -> None:
    case = LogCase()
    case.fill(50)
    case.log.purge(before_seq=41)
    assert drain(case.log.reader(backward=True, stop_seq=10)) == (list(range(50, 40, -1)), [Trimmed(10, 41)])
    assert drain(case.log.reader(backward=True, stop_seq=41)) == (list(range(50, 40, -1)), [])
    assert drain(case.log.reader(backward=True)) == (list(range(50, 40, -1)), [])


# ---- forwards ----


def test_a_start_below_the_first_message_is_told_what_was_trimmed(case: LogCase) -> None:
    case.log.purge(before_seq=91)
    assert drain(case.log.reader(start_seq=5)) == (list(range(91, 101)), [Trimmed(5, 91)])


def test_what_is_told_does_not_go_beyond_the_stop(case: LogCase) -> None:
    case.log.purge(before_seq=91)
    reader = case.log.reader(start_seq=5, stop_seq=50)
    batch = reader.read()
    assert (len(batch), batch.facts, batch.ended) == (0, [Trimmed(5, 51)], True)


def test_a_start_above_the_last_message_waits_for_it(case: LogCase) -> None:
    """Subscribing at a future sequence: nothing in front of it comes, then it does."""
    reader = case.log.reader(start_seq=150)
    assert drain(reader) == ([], [])
    case.fill(60)
    assert drain(reader) == (list(range(150, 161)), [])


def test_starts(case: LogCase) -> None:
    moment = case.log.get(50).ts_ns  # type: ignore[union-attr]
    log = case.log
    for given, first in (
        ({}, 1),
        ({"start": Start.FIRST}, 1),
        ({"start": Start.LAST}, 100),
        ({"start_seq": 40}, 40),
        ({"start_ts_ns": moment}, 50),
        ({"start_ts_ns": moment + 1}, 51),
    ):
        assert log.reader(**given, limit=1).read().sequences() == [first]
    reader = log.reader(start=Start.NEW)
    assert drain(reader) == ([], [])
    case.fill(1)
    assert drain(reader) == ([101], [])


def test_the_last_of_a_filter(case: LogCase) -> None:
    assert case.log.reader(Filter(b"s.0"), start=Start.LAST).read().sequences() == [99]
    reader = case.log.reader(Filter(b"none"), start=Start.LAST)
    assert reader.next_seq == 101


def test_stops_are_inclusive_and_hold_though_the_message_is_gone(case: LogCase) -> None:
    for seq in (50, 51, 52):
        case.log.remove(seq)
    moment = case.log.get(53).ts_ns  # type: ignore[union-attr]
    for filter in (None, Filter(b"s.*")):
        for stop in (49, 50, 51, 52):
            reader = case.log.reader(filter, start_seq=48, stop_seq=stop)
            assert (drain(reader)[0], reader.ended) == ([48, 49], True)
            reader = case.log.reader(filter, backward=True, start_seq=54, stop_seq=max(stop, 50))
            assert (drain(reader)[0], reader.ended) == ([54, 53], True)
        reader = case.log.reader(filter, start_seq=48, stop_ts_ns=moment)
        assert (drain(reader)[0], reader.ended) == ([48, 49, 53], True)
        reader = case.log.reader(filter, start_seq=48, limit=3)
        assert (drain(reader)[0], reader.ended) == ([48, 49, 53], True)


def test_a_stop_at_the_last_message_is_fixed_when_the_reader_is_opened(case: LogCase) -> None:
    reader = case.log.reader(start_seq=99, stop_seq=case.log.state().committed_seq)
    case.fill(10)
    assert (drain(reader)[0], reader.ended) == ([99, 100], True)


def test_a_reader_that_may_read_nothing_has_ended(case: LogCase) -> None:
    for given in ({"limit": 0}, {"stop_seq": 0}, {"start_seq": 5, "stop_seq": 4}):
        batch = case.log.reader(**given).read()  # type: ignore[arg-type]
        assert (len(batch), batch.ended) == (0, True)


def test_a_batch_is_as_large_as_it_may_be(case: LogCase) -> None:
    reader = case.log.reader()
    assert len(reader.read(13)) == 13
    batch = reader.read(100, size=200)
    assert 200 <= batch.size < 200 + 100
    assert batch.count == len(list(batch))


def test_pending_counts_what_is_still_to_come(case: LogCase) -> None:
    log = case.log
    log.append(b"s.1", b"not committed")
    moment = log.get(95).ts_ns  # type: ignore[union-attr]
    assert log.reader().pending() == 100
    assert log.reader(start_seq=91, stop_seq=95).pending() == 5
    assert log.reader(start_seq=91, stop_ts_ns=moment).pending() == 5
    assert log.reader(start_seq=91, limit=3).pending() == 3
    assert log.reader(start_seq=500).pending() == 0
    assert log.reader(Filter(b"s.1"), start_seq=91).pending() == 4
    assert log.reader(backward=True, stop_seq=91).pending() == 10
    assert log.reader(backward=True, start_seq=97, stop_ts_ns=moment).pending() == 3
    reader = log.reader(backward=True, limit=30)
    assert reader.read(10).sequences()[-1] == 91
    assert reader.pending() == 20


# ---- what a reader is told ----


def test_trimmed_deleted_and_lost_are_three_things(case: LogCase) -> None:
    case.log.purge(before_seq=11)
    case.log.remove(20)
    case.damage(b"30 ")
    seqs, facts = drain(case.log.reader(start_seq=1, stop_seq=40))
    assert seqs == [seq for seq in range(11, 41) if seq not in (20, 30)]
    assert facts == [Trimmed(1, 11), Lost(30, 31)]
    assert [case.log.fact(seq) for seq in (10, 20, 30, 31, 101)] == [
        "trimmed", "deleted", "lost", "present", "future",
    ]  # fmt: skip
    assert case.log.state().lost == ((30, 31),)
    assert case.log.get(30) is None


def test_what_is_lost_is_told_in_both_directions_and_to_filters(case: LogCase) -> None:
    for seq in (30, 31, 50):
        case.damage(b"%d " % seq)
    forward = [Lost(30, 32), Lost(50, 51)]
    assert drain(case.log.reader())[1] == forward
    assert drain(case.log.reader(backward=True))[1] == forward[::-1]
    # Nobody knows any more which subject it had.
    assert drain(case.log.reader(Filter(b"none")))[1] == forward
    assert drain(case.log.reader(Filter(b"none"), backward=True))[1] == forward[::-1]
    assert drain(case.log.reader(start_seq=31, stop_seq=49))[1] == [Lost(31, 32)]
    assert drain(case.log.reader(start_seq=20, stop_seq=30))[1] == [Lost(30, 31)]
    assert drain(case.log.reader(backward=True, start_seq=40, stop_seq=31))[1] == [Lost(31, 32)]


def test_a_strict_reader_does_not_go_over_what_was_trimmed(case: LogCase) -> None:
    reader = case.log.reader(start_seq=5, strict=True)
    assert reader.read(5).sequences() == [5, 6, 7, 8, 9]
    case.log.purge(before_seq=21)
    with pytest.raises(TrimmedError, match="messages 10 to 20 were trimmed") as caught:
        reader.read()
    assert caught.value.fact == Trimmed(10, 21)
    with pytest.raises(TrimmedError):
        reader.read()
    case.log.remove(50)
    assert drain(case.log.reader(start_seq=21, strict=True))[1] == [], "what somebody deleted is expected"


def test_retention_by_subject_leaves_gaps_without_facts() -> None:
    case = LogCase(limits=Limits(max_per_subject=1))
    case.fill(30)
    case.log.append(b"other", b"p")
    case.fill(30)
    assert drain(case.log.reader()) == ([31, 59, 60, 61], [])


# ---- following ----


def test_a_follower_takes_what_it_reads_from_the_window_that_all_share() -> None:
    case = LogCase(window_size=1 << 20)
    readers = [case.log.reader(start=Start.NEW) for _ in range(10)]
    case.fill(50)
    for file in case.memory.files.values():
        file[:] = bytes(len(file))  # nobody looks at it
    assert {tuple(drain(reader)[0]) for reader in readers} == {tuple(range(1, 51))}


def test_the_window_is_bounded_in_bytes() -> None:
    """TAIL-1: what is written goes when it is beyond the window, what is not stays."""
    case = LogCase(window_size=2000, segment_size=1 << 20)
    for _ in range(50):
        case.log.append(b"s", bytes(1000))
    assert case.log.store.tail.size > 50_000
    case.log.commit()
    assert case.log.store.tail.size <= 2000
    case.fill(100, size=1000)
    assert case.log.store.tail.size <= 2000
    assert len(drain(case.log.reader())[0]) == 150


def test_what_is_not_written_can_be_read_from_nowhere_else_and_is_kept() -> None:
    """A reader from the start, a window of nothing, and nothing in the file yet: it waits, and misses nothing."""
    case = LogCase(window_size=0)
    reader = case.log.reader()
    for number in range(16_000):
        case.log.append(b"s", b"%d" % number)
    assert drain(reader) == ([], [])
    case.log.commit()
    assert drain(reader, 1000) == (list(range(1, 16_001)), [])


@pytest.mark.parametrize("filter", [None, Filter(b"s.1", b"s.2")])
def test_a_follower_that_stalls_catches_up_without_a_gap_and_without_much_memory(
    filter: Filter | None,
) -> None:
    """READ-1, from the tail to files and back again."""
    case = LogCase(window_size=2000, segment_size=20_000)
    reader = case.log.reader(filter)
    seen: list[int] = []
    chance = Chance(1)
    for _ in range(60):
        case.fill(chance.integer(60))
        for _ in range(chance.integer(3)):
            batch = reader.read(1 + chance.integer(40))
            assert batch.facts == []
            seen += batch.sequences()
    seen += drain(reader)[0]
    last_seq = case.log.state().last_seq
    assert last_seq > 1000
    assert seen == [seq for seq in range(1, last_seq + 1) if filter is None or seq % 3]


def test_a_batch_stays_readable_whatever_becomes_of_the_log(case: LogCase) -> None:
    batch = case.log.reader(start_seq=90).read()
    before = list(batch)
    case.log.purge()
    case.fill(200)
    case.log.close()
    assert list(batch) == before
    assert [message.payload.strip() for message in before] == [b"%d" % seq for seq in range(90, 101)]


# ---- waiting ----


def test_who_waits_is_woken_once_and_only_by_a_commit(case: LogCase) -> None:
    """READ-4."""
    woken: list[str] = []
    reader, other = case.log.reader(start=Start.NEW), case.log.reader(start=Start.NEW)
    reader.arm(lambda: woken.append("first"))
    reader.arm(lambda: woken.append("instead"))
    other.arm(lambda: woken.append("other"))
    assert case.log.horizon.waiting() == 2
    case.log.append(b"s", b"p")
    assert woken == []
    case.log.commit()
    case.fill(3)
    assert woken == ["instead", "other"]
    assert case.log.horizon.waiting() == 0


def test_a_reader_may_arm_itself_again_when_it_is_woken(case: LogCase) -> None:
    reader = case.log.reader(start=Start.NEW)
    seen: list[int] = []

    def on_more() -> None:
        seen.extend(reader.read().sequences())
        reader.arm(on_more)

    reader.arm(on_more)
    case.fill(5)
    assert seen == [101, 102, 103, 104, 105]


def test_who_does_not_wait_any_more_leaves_nothing_behind(case: LogCase) -> None:
    for _ in range(100):
        reader = case.log.reader(start=Start.NEW)
        reader.arm(lambda: pytest.fail("nobody wants to hear of it"))
        reader.disarm()
    assert case.log.horizon.waiting() == 0
    case.fill(1)
    reader.disarm()


def test_a_reader_that_waits_holds_no_messages(case: LogCase) -> None:
    """READ-4: neither a block of a file, nor a chunk of the tail, nor a window of matches."""
    case = LogCase(segment_size=1 << 20, window_size=1 << 20)
    for number in range(5000):
        case.log.append(b"many.%d" % (number % 50), bytes(100))
    case.log.commit()
    gc.collect()
    tracemalloc.start()
    readers: list[Reader] = []
    try:
        for _ in range(100):
            reader = case.log.reader(Filter(b"many.1*", b"many.2", b"many.3"), start_seq=4000)
            while len(reader.read()):
                pass
            reader.arm(lambda: None)
            readers.append(reader)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / len(readers) < 2000


def test_opening_at_the_newest_touches_no_file(case: LogCase) -> None:
    case.log.store.tail.drop()
    case.memory.files.clear()
    reader = case.log.reader(start=Start.NEW)
    assert (reader.next_seq, reader.opened_seq) == (101, 100)
    assert drain(reader) == ([], [])


# ---- the newest, while others append ----


@pytest.mark.parametrize("seed", range(20))
def test_what_is_acknowledged_before_a_reader_is_opened_is_not_new_and_all_else_is(seed: int) -> None:
    """Opening at the newest happens at one moment between acknowledgements, also inside of one."""
    chance, worker = Chance(seed), SimWorker()
    case = LogCase(policy=STRICT, worker=worker, segment_size=600)
    acknowledged = 0
    opened: list[tuple[int, int, Reader]] = []

    def open_reader() -> None:
        opened.append((acknowledged, case.log.state().last_seq, case.log.reader(start=Start.NEW)))

    def acknowledge(seq: int, failure: object) -> None:
        nonlocal acknowledged
        assert (failure, seq) == (None, acknowledged + 1)
        acknowledged = seq
        assert case.log.get(seq) is not None, "what is acknowledged can be read"
        if chance.integer(4) == 0:
            open_reader()

    for _ in range(300):
        what = chance.integer(5)
        if what == 0:
            open_reader()
        elif what == 1:
            case.log.commit()
        elif what == 2:
            worker.step()
        else:
            seq = case.log.append(b"s", b"p")
            case.log.wait(seq, lambda failure, seq=seq: acknowledge(seq, failure))  # type: ignore[misc]
    case.log.commit()
    worker.run_all()
    assert acknowledged == case.log.state().last_seq > 50
    assert len(opened) > 20
    for excluded_seq, sent_seq, reader in opened:
        # What was under way when it was opened may be on either side.
        assert excluded_seq < reader.next_seq <= sent_seq + 1
        assert drain(reader) == (list(range(reader.opened_seq + 1, acknowledged + 1)), [])


def test_a_reader_is_as_good_after_a_change_of_settings(case: LogCase) -> None:
    reader = case.log.reader()
    reader.read(10)
    case.log.configure(replace(case.settings, limits=Limits(max_messages=60), window_size=0))
    assert case.log.store.tail.size == 0
    assert drain(reader) == (list(range(41, 101)), [Trimmed(11, 41)])


def test_a_message_is_told_apart_by_all_that_it_has() -> None:
    message = Message(1, 2, b"s", b"h", b"p", 3)
    assert message == Message(1, 2, b"s", b"h", b"p", 3)
    assert hash(message) == hash(Message(1, 2, b"s", b"h", b"p", 3))
    for other in (
        Message(2, 2, b"s", b"h", b"p", 3),
        Message(1, 3, b"s", b"h", b"p", 3),
        Message(1, 2, b"t", b"h", b"p", 3),
        Message(1, 2, b"s", b"i", b"p", 3),
        Message(1, 2, b"s", b"h", b"q", 3),
        Message(1, 2, b"s", b"h", b"p", 0),
    ):
        assert message != other
    assert repr(message) == "Message(1, b's', b'p')"
