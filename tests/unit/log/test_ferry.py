"""Segments that are sent away, husks that are left of them, and what it takes to read them again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tidelog.base.errors import ConfigError, StorageError
from tidelog.base.seqset import SequenceSet
from tidelog.log.columns import segment_columns
from tidelog.log.depot import Depot, Tiering
from tidelog.log.filter import Filter
from tidelog.log.fsck import Severity, check_log
from tidelog.log.inspection import inspect_file
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.log import LogRefused
from tidelog.log.policy import BALANCED, STRICT, THROUGHPUT, SyncPolicy
from tidelog.log.read import Message
from tidelog.log.record import encode_message
from tidelog.log.settings import Limits, LogSettings
from unit.log.house import KIB, House
from unit.log.shed import Shed, rows_of

SETTINGS = LogSettings(policy=STRICT, segment_size=4 * KIB, window_size=KIB)
SECOND = 1_000_000_000


class ColdHouse(House):
    """With a shed beside it."""

    def __init__(self, tiering: Tiering | None = None, settings: LogSettings = SETTINGS) -> None:
        self.shed = Shed()
        self.tiering = tiering or Tiering(self.shed, local_size=0)
        super().__init__(replace(settings, tiering=replace(self.tiering, depot=self.depot())))
        self.woken = 0

    def depot(self) -> Depot:
        return self.shed

    def others(self) -> int:
        """What is done elsewhere; how much that was."""
        return self.shed.sender.run_all()

    def wake(self) -> None:
        self.woken += 1

    def settle(self) -> None:
        """Both here and there."""
        self.log.commit()
        for _ in range(2000):
            if self.worker.run_all() + self.others():
                continue
            due_ns = self.log.next_due_ns()
            if due_ns is None or due_ns > self.clock.monotonic_ns() + 120 * SECOND:
                return
            self.clock.advance(ns=max(0, due_ns - self.clock.monotonic_ns()))
            self.log.tick()
        raise AssertionError("there is always something to do")

    def husks(self) -> int:
        return sum(one.husk for one in self.log.store.segments)

    def walk(self, backward: bool = False, filter: Filter | None = None) -> list[Message]:
        """All messages in order of their sequences, whatever has to be brought for it."""
        reader, found = self.log.reader(filter, backward=backward), []
        while True:
            batch = reader.read(7)
            found += list(batch)
            if batch.awaited and not len(batch):
                woken = self.woken
                self.log.when_warm(self.wake)
                self.settle()
                assert self.woken == woken + 1
            elif not len(batch):
                return found[::-1] if backward else found

    def crash(self, power: bool = False) -> None:
        self.shed.sender.drop_all()
        super().crash(power)


def filled(count: int = 200, **changes: object) -> tuple[ColdHouse, list[Message]]:
    """A house of which everything but the open segment is husks, and what it holds."""
    house = ColdHouse(Tiering(Shed(), **{"local_size": 0, **changes}))  # type: ignore[arg-type]
    plain = House(SETTINGS)
    for one in (house, plain):
        one.fill(count)
        one.settle()
    return house, plain.messages()


def test_complete_segments_become_husks_and_come_back_in_both_directions() -> None:
    """COLD-7, COLD-9"""
    house, messages = filled()
    segments = len(house.log.store.segments)
    assert house.husks() == segments - 1 > 5
    assert house.log.state().messages == 200
    assert house.log.store.cold_size > 0.9 * house.log.store.size
    assert sum(house.segment_sizes().values()) < 0.4 * house.log.store.size
    assert house.walk() == messages
    assert house.walk(backward=True) == messages
    assert check_log(house.disk, "log").severity is Severity.NOTE
    assert house.log.keeper.figures.troubles == 0


def test_questions_to_the_index_need_nobody() -> None:
    house, messages = filled()
    house.shed.break_down()
    log = house.log
    assert log.next(Filter(b"s.3"), 20) == next(
        m.seq for m in messages if m.seq >= 20 and m.subject == b"s.3"
    )
    assert log.count(Filter(b"s.3")) == sum(m.subject == b"s.3" for m in messages)
    assert log.previous(Filter(b"s.*"), 50) == 50
    assert log.seq_at_time(messages[40].ts_ns) == 41
    assert log.first_ts_ns() == messages[0].ts_ns
    assert log.subject(17) == messages[16].subject
    assert log.remove(60)
    assert log.purge(before_seq=31) == 30
    assert log.state().size == sum(32 + len(m.subject) + len(m.payload) for m in messages[30:] if m.seq != 60)
    assert "rows" not in house.shed.calls


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_husks_are_opened_without_the_history(clean: bool, power: bool) -> None:
    """COLD-7"""
    house, messages = filled()
    house.remove([5, 60, 61])
    house.worker.run_all()
    state = house.log.state()
    house.shed.break_down()
    if clean:
        house.reopen()
    else:
        house.crash(power)
    assert house.husks() > 5
    assert house.log.state() == state
    house.shed.mend()
    gone = [m for m in messages if m.seq not in (5, 60, 61)]
    assert house.walk() == gone
    assert house.walk(backward=True) == gone


def test_messages_that_are_smaller_than_their_shells_are_counted_right() -> None:
    house = ColdHouse()
    for number in range(600):
        house.log.append(b"s", b"xyz"[: number % 4])
    house.settle()
    state, cold = house.log.state(), house.log.store.cold_size
    assert house.husks() > 2
    assert cold < state.size
    for name in [name for name in house.disk.list("log") if name.endswith(".idx")]:
        house.disk.remove(f"log/{name}")
    house.crash()
    assert (house.log.state(), house.log.store.cold_size) == (state, cold)


def test_an_index_file_is_made_again_from_the_husk() -> None:
    house, messages = filled()
    house.remove([9])
    state = house.log.state()
    house.log.commit()
    house.disk.kill()
    house.worker.drop_all()
    house.disk = house.disk.reopen()
    for name in [name for name in house.disk.list("log") if name.endswith(".idx")]:
        house.disk.remove(f"log/{name}")
    house.log, house.findings = house.open()
    assert house.log.state() == state
    assert house.log.count(Filter(b"s.3")) == sum(m.subject == b"s.3" for m in messages)


def test_what_is_deleted_in_a_husk_stays_deleted_when_it_comes_back() -> None:
    house, messages = filled()
    house.walk()
    house.remove([30, 31, 150])
    house.log.purge(before_seq=12)
    house.log.commit()
    house.settle()
    left = [m for m in messages if m.seq >= 12 and m.seq not in (30, 31, 150)]
    assert house.walk() == left
    house.crash(power=True)
    house.settle()
    assert house.walk(backward=True) == left


def test_a_reader_is_given_what_is_here_before_it_waits() -> None:
    house, messages = filled()
    reader = house.log.reader(backward=True)
    batch = reader.read(500, 1 << 20)
    here = [m for m in messages if m.seq >= house.log.store.segments[-1].base_seq]
    assert list(batch)[::-1] == here
    assert batch.awaited
    assert not batch.ended
    assert reader.next_seq == here[0].seq - 1


def test_nothing_is_brought_back_for_a_filter_that_does_not_match() -> None:
    house, messages = filled()
    house.log.append(b"rare", b"x")
    house.settle()
    house.shed.calls.clear()
    assert [m.subject for m in house.walk(filter=Filter(b"rare", b"none.*"))] == [b"rare"]
    assert "rows" not in house.shed.calls
    assert len(house.walk(filter=Filter(b"s.1", b"none.*"))) == sum(m.subject == b"s.1" for m in messages)


def test_counting_brings_nothing_back() -> None:
    house, messages = filled()
    reader = house.log.reader(Filter(b"s.1", b"s.2", b"none.*")).heads_only()
    assert sum(len(reader.read()) for _ in range(5)) == sum(m.subject in (b"s.1", b"s.2") for m in messages)
    assert "rows" not in house.shed.calls


def test_while_nobody_answers_everything_stays_and_it_is_told() -> None:
    house = ColdHouse()
    house.shed.break_down()
    house.fill(200)
    for _ in range(50):
        house.worker.run_all()
        house.shed.sender.run_all()
        house.clock.advance(ns=SECOND)
        house.log.tick()
    assert house.husks() == 0
    ferry = house.log.keeper.ferry
    assert ferry.lag().segments == 0 or ferry.lag().size > 0
    assert "does not answer" in ferry.failing
    assert 3 < ferry.figures.failures < 30
    assert house.log.keeper.figures.troubles == ferry.figures.failures
    house.shed.mend()
    house.settle()
    assert house.husks() == len(house.log.store.segments) - 1
    assert ferry.lag().segments == 0
    assert ferry.failing == ""
    assert house.shed.only.seqs() == list(range(1, house.log.store.segments[-1].base_seq))


def test_a_reader_waits_until_the_history_answers_again() -> None:
    house, messages = filled()
    house.shed.break_down()
    reader = house.log.reader()
    assert reader.read().awaited
    woken: list[int] = []
    house.log.when_warm(lambda: woken.append(1))
    for _ in range(200):
        house.shed.sender.run_all()
        house.clock.advance(ns=SECOND)
        house.log.tick()
    assert not woken
    assert 5 < house.shed.calls.count("rows") < 30
    assert house.log.state().lost == ()
    house.shed.mend()
    house.settle()
    assert woken == [1]
    assert list(reader.read(3)) == messages[:3]


def test_no_more_is_sent_in_a_second_than_may_be() -> None:
    house = ColdHouse()
    house.shed.throttle.bytes_per_second = 3000
    begun_ns = house.clock.monotonic_ns()
    house.fill(200)
    house.settle()
    sent = house.log.keeper.ferry.figures.sent_size
    last = len(rows_of(house.shed.only.stretches[-1][2])) * 106
    assert sent > 15_000
    assert house.clock.monotonic_ns() - begun_ns >= (sent - last) * SECOND // 3000


def test_local_bounds() -> None:
    house = ColdHouse(Tiering(Shed(), local_size=10 * KIB))
    house.fill(200)
    house.settle()
    hot = [one.side.size for one in house.log.store.segments if not one.husk]
    assert 6 * KIB < sum(hot) <= 10 * KIB
    assert house.shed.only.end_seq() == house.log.store.segments[-1].base_seq
    assert house.log.keeper.ferry.lag().segments == 0

    house = ColdHouse(Tiering(Shed(), local_age_ns=1000 * SECOND))
    house.fill(200)
    house.settle()
    assert house.husks() == 0
    house.clock.advance(ns=1001 * SECOND)
    house.log.tick()
    house.settle()
    assert house.husks() == len(house.log.store.segments) - 1


@pytest.mark.parametrize("policy", [THROUGHPUT, BALANCED, STRICT])
def test_husks_are_left_whatever_the_policy_and_never_at_the_end(policy: SyncPolicy) -> None:
    house = ColdHouse(settings=replace(SETTINGS, policy=policy))
    house.fill(200)
    house.settle()
    assert house.husks() == len(house.log.store.segments) - 1
    assert house.log.committer.synced_seq >= house.log.store.segments[-1].base_seq
    # A segment that is complete, and nothing behind it yet.
    house.log.store.roll()
    house.settle()
    assert not house.log.store.segments[-2].husk
    house.fill(1)
    house.settle()
    assert house.log.store.segments[-2].husk


def test_nothing_young_becomes_a_husk() -> None:
    house = ColdHouse(Tiering(Shed(), local_size=0, least_age_ns=100 * SECOND))
    house.fill(200)
    for _ in range(20):
        house.worker.run_all()
        house.shed.sender.run_all()
    assert house.husks() == 0
    assert house.shed.only.seqs()


def test_retention_of_the_whole_removes_husks_and_is_followed_by_the_history() -> None:
    house, _ = filled()
    house.walk()
    house.log.configure(replace(house.settings, limits=Limits(max_messages=50)))
    house.settle()
    assert house.log.state().first_seq == 151
    history = house.shed.only
    assert history.trims[-1][0] == house.log.store.segments[0].base_seq > 120
    assert not [name for name in house.disk.list("log") if name.endswith(".warm")] or house.husks()
    assert [m.seq for m in house.walk()] == list(range(151, 201))
    assert house.log.store.cold_size < house.log.store.size


def test_what_is_to_outlive_the_log_is_sent_before_it_goes() -> None:
    """COLD-8"""
    house = ColdHouse(Tiering(Shed(), keep_ns=None), replace(SETTINGS, limits=Limits(max_messages=20)))
    house.shed.break_down()
    house.fill(200)
    for _ in range(5):
        house.worker.run_all()
        house.shed.sender.run_all()
        house.log.tick()
    assert house.log.state().first_seq == 181
    assert house.log.store.segments[0].base_seq == 1
    house.shed.mend()
    house.settle()
    assert house.log.store.segments[0].base_seq > 150
    assert house.shed.only.seqs() == list(range(1, house.log.store.segments[-1].base_seq))
    assert house.shed.only.trims == []


def test_what_has_outlived_the_log_long_enough_goes_though_nothing_comes() -> None:
    house = ColdHouse(
        Tiering(Shed(), keep_ns=5000 * SECOND), replace(SETTINGS, limits=Limits(max_messages=20))
    )
    house.fill(200)
    house.settle()
    assert house.shed.only.seqs()[0] == 1
    house.shed.only.trims.clear()
    due_ns = house.log.next_due_ns()
    assert due_ns is not None
    house.clock.advance(ns=due_ns - house.clock.monotonic_ns())
    house.log.tick()
    house.settle()
    ((first_seq, before_ns),) = house.shed.only.trims
    assert first_seq == house.log.store.segments[0].base_seq
    assert before_ns == house.clock.now_ns() - 5000 * SECOND


def test_without_that_retention_waits_for_nobody() -> None:
    house = ColdHouse(Tiering(Shed()), replace(SETTINGS, limits=Limits(max_messages=20)))
    house.shed.break_down()
    house.fill(200)
    for _ in range(5):
        house.worker.run_all()
        house.shed.sender.run_all()
        house.log.tick()
    assert house.log.store.segments[0].base_seq > 150
    house.shed.mend()
    house.fill(100)
    house.settle()
    # What was never sent left no gap: the next stretch says that nothing of it is there.
    stretches = [(start, end) for start, end, _ in house.shed.only.stretches]
    assert all(before[1] == after[0] for before, after in pairwise(stretches))


def test_erasing_is_refused_for_what_was_sent() -> None:
    house, _ = filled()
    with pytest.raises(LogRefused, match="no_erase"):
        house.log.remove(10, erase=True)
    assert house.log.get(200) is not None
    assert house.log.remove(200, erase=True)
    assert house.log.remove(10)
    assert not house.log.remove(10, erase=True)


def test_without_a_depot_husks_are_not_opened() -> None:
    house, _ = filled()
    house.log.close()
    house.settings = replace(house.settings, tiering=None)
    with pytest.raises(StorageError, match="cold tier"):
        house.open()


def test_switched_off_it_is_still_read() -> None:
    house, messages = filled()
    house.log.configure(replace(house.settings, tiering=None))
    house.fill(100)
    house.settle()
    assert house.walk()[:200] == messages
    assert not house.log.store.segments[-2].husk


def test_few_that_have_come_back_stay() -> None:
    house, messages = filled(400, warm_size=20 * KIB)
    assert house.walk() == messages
    assert house.walk(backward=True) == messages
    house.settle()
    warm = [name for name in house.disk.list("log") if name.endswith(".warm")]
    assert 3 <= len(warm) <= 6
    house.crash()
    assert not [name for name in house.disk.list("log") if name.endswith(".warm")]


def test_a_history_that_lacks_something_is_never_taken_for_less() -> None:
    """COLD-9"""
    house, messages = filled()
    lost = house.shed.only.stretches.pop(2)
    reader = house.log.reader(start_seq=lost[0])
    assert reader.read().awaited
    house.log.when_warm(lambda: None)
    for _ in range(5):
        house.shed.sender.run_all()
        house.clock.advance(ns=SECOND)
        house.log.tick()
    assert f"message {lost[0]}" in house.log.keeper.ferry.fetcher.failing
    assert reader.read().awaited
    assert house.log.state().messages == len(messages)
    house.shed.only.stretches.insert(2, lost)
    house.settle()
    assert next(iter(reader.read())).seq == lost[0]


def test_a_damaged_copy_is_fetched_again() -> None:
    house, messages = filled()
    house.walk()
    (name, *_) = [name for name in house.disk.list("log") if name.endswith(".warm")]
    file = house.disk.open(f"log/{name}")
    file.write(200, b"\xff" * 300)
    file.close()
    assert house.walk() == messages
    assert house.log.state().lost == ()


def test_a_deleted_log_takes_its_history_with_it() -> None:
    for keep_ns, removed in ((0, True), (None, False), (SECOND, False)):
        house, _ = filled(keep_ns=keep_ns)
        told: list[BaseException | None] = []
        house.log.keeper.ferry.forget(told.append)
        house.shed.sender.run_all()
        assert house.shed.only.removed is removed
        assert told == ([None] if removed else [])


def test_what_somebody_else_goes_on_with_is_not_removed() -> None:
    """COLD-10"""
    house, _ = filled()
    history = house.shed.only
    history.stretches.append((history.end_seq(), 1000, history.stretches[-1][2]))
    told: list[BaseException | None] = []
    house.log.keeper.ferry.forget(told.append)
    house.shed.sender.run_all()
    assert "it ends before 1000" in str(told[0])
    assert not history.removed


def test_somebody_who_has_sent_the_same_is_no_stranger() -> None:
    """As `tidelog export` does, into the archive of the server: what is not complete yet, too."""
    house, messages = filled(local_size=1 << 30)
    history, end_seq = house.shed.only, house.shed.only.end_seq()
    more = [message for message in messages if message.seq >= end_seq]
    assert len(more) > 2
    records = [encode_message(m.seq, m.ts_ns, m.subject, m.header, m.payload, m.expiry_ns, 7) for m in more]
    columns, _ = segment_columns(bytes(64) + b"".join(records), 7, SequenceSet(), 1, 1000)
    history.stretches.append((end_seq, 201, columns))
    history.trims.clear()
    house.log.purge(before_seq=150)
    house.log.commit()
    house.settle()
    assert history.trims == []
    house.fill(100)
    house.settle()
    assert house.log.keeper.ferry.foreign == ""
    assert history.trims[-1][0] > 100
    starts = [(start, end) for start, end, _ in history.stretches]
    assert all(before[1] == after[0] for before, after in pairwise(starts))
    assert starts[-1][1] > 270


def test_what_nobody_has_looked_at_is_not_removed() -> None:
    house, _ = filled()
    house.shed.break_down()
    house.crash()
    told: list[BaseException | None] = []
    house.log.keeper.ferry.forget(told.append)
    house.shed.sender.run_all()
    assert "nobody has looked" in str(told[0])


def test_what_is_encrypted_here_does_not_go_in_the_clear() -> None:
    keys = KeyRing((Key("k", bytes(32)),))
    with pytest.raises(ConfigError, match="in the clear"):
        replace(SETTINGS, encrypt=True, keys=keys, tiering=Tiering(Shed())).check()


def flipped(house: ColdHouse, name: str, pos: int) -> None:
    file = house.disk.open(name)
    file.write(pos, bytes([file.read(pos, 1)[0] ^ 4]))
    file.close()


def test_a_bit_that_turns_in_a_husk_is_turned_back_and_it_stays_one() -> None:
    house, messages = filled()
    (name, *_) = [f"log/{name}" for name in house.disk.list("log") if name.endswith(".seg")]
    house.log.close()
    house.worker.run_all()
    file = house.disk.open(name)
    flipped(house, name, file.size // 2)
    file.close()
    assert check_log(house.disk, "log").severity is not Severity.LOSS
    house.log, house.findings = house.open()
    assert house.log.subject(3) == messages[2].subject
    husks = house.husks()
    house.log.tick()
    house.settle()
    assert house.husks() == husks
    assert check_log(house.disk, "log").findings == []
    assert house.walk() == messages
    house.crash()
    assert house.husks() == husks
    assert house.walk() == messages


def test_what_a_husk_lacks_is_told_as_lost_and_the_rest_goes_on() -> None:
    house, messages = filled()
    names = [f"log/{name}" for name in house.disk.list("log") if name.endswith(".seg")]
    house.log.close()
    house.worker.run_all()
    file = house.disk.open(names[1])
    file.write(file.size // 2, bytes(40))
    file.close()
    house.disk.remove(names[1].replace(".seg", ".idx"))
    for name in house.disk.list("log"):
        if name == "snapshot":
            house.disk.remove("log/snapshot")
    house.log, house.findings = house.open()
    lost = {seq for start, end in house.log.state().lost for seq in range(start, end)}
    assert 0 < len(lost) < 60
    assert house.walk() == [message for message in messages if message.seq not in lost]


def test_a_husk_shows_what_it_has() -> None:
    house, messages = filled()
    (name, *_) = [f"log/{name}" for name in house.disk.list("log") if name.endswith(".seg")]
    found = inspect_file(house.disk, name)
    (first, *_) = found.entries
    assert (first["seq"], first["subject"]) == (1, messages[0].subject)
    assert first["shell_of"] == 32 + len(messages[0].subject) + len(messages[0].payload)
    assert "payload" not in first
