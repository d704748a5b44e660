"""What a log has promised to those who use it, and whether it is true of the log that is found after a bad day.

The log as it should be now is `unit.log.log_model`. Beside it stand what the log has said to be written and synced, and
what somebody outside knows: the content of a sequence that was acknowledged or read is fixed for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tidelog.log.erase import KIND_POS
from tidelog.log.filter import Filter
from tidelog.log.log import Log
from tidelog.log.read import Message
from tidelog.log.record import find_valid
from tidelog.log.recover import Findings
from tidelog.log.walk import MESSAGE
from unit.log.log_model import Model

# How much of the beginning of a payload tells it from all others.
MARK_SIZE = 22


@runtime_checkable
class Bringer(Protocol):
    def bring(self, log: Log) -> None: ...


@dataclass
class Mark:
    """The messages of a log at some moment, and how far it had come."""

    seqs: frozenset[int] = frozenset()
    first_seq: int = 1
    last_seq: int = 0


@dataclass
class Promise:
    model: Model = field(default_factory=Model)
    contents: dict[int, Message] = field(default_factory=dict)  # by sequence, what was appended last as that
    known: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)  # may be deleted by the call that is being made
    # How those begin of which nothing may be left; that is asked, written, or synced.
    erasing: set[bytes] = field(default_factory=set)
    unsaid: set[bytes] = field(default_factory=set)
    erased: set[bytes] = field(default_factory=set)
    written: Mark = field(default_factory=Mark)
    synced: Mark = field(default_factory=Mark)
    synced_seq: int = 0
    # Said to be deleted: for as long as the power stays, or for ever.
    gone_written: set[int] = field(default_factory=set)
    gone_synced: set[int] = field(default_factory=set)
    torn: bool = (
        False  # a segment without messages was being emptied where it was, and the write was cut short
    )
    unsafe: bool = False  # some time the power was lost, and with it perhaps what was not synced
    acks: int = 0
    checked: int = 0  # messages that had to be there after a crash
    gone: int = 0  # messages that were said to be deleted

    # ---- what is said ----

    def appended(self, message: Message) -> None:
        seq = self.model.append(message)
        assert seq not in self.known, f"{seq} is given out again"
        self.contents[seq] = message

    def acknowledged(self, seqs: Iterable[int], synced: bool) -> None:
        for seq in seqs:
            self.known.add(seq)
            self.acks += 1
            if synced:
                self.synced_seq = max(self.synced_seq, seq)

    def deleted(self, seqs: Iterable[int], synced: bool) -> None:
        """Who has deleted these was told so."""
        gone = self.gone_synced if synced else self.gone_written
        before = len(gone)
        gone.update(seqs)
        self.gone += len(gone) - before

    def committed(self, log: Log) -> None:
        """A commit has returned; what it says is taken down."""
        if log.refusal is None and log.failure is None:
            self.written = self.mark()
            self.unsaid |= self.erasing
            self.erasing.clear()
        self.settled(log)

    def closed(self) -> None:
        self.erased |= self.unsaid | self.erasing
        self.written = self.synced = self.mark()
        self.synced_seq = self.model.last_seq

    def settled(self, log: Log) -> None:
        """Perhaps a sync has ended."""
        committer = log.committer
        self.synced_seq = max(self.synced_seq, committer.synced_seq)
        if committer.failure is None and committer.unsynced_size == 0 and not committer.under_way:
            self.synced = self.written
            self.erased |= self.unsaid
            self.unsaid.clear()

    def mark(self) -> Mark:
        model = self.model
        return Mark(frozenset(model.messages), model.first_seq, model.last_seq)

    # ---- what is there ----

    def check_crash(self, log: Log, unsafe: bool) -> None:
        """After the process has ended, or, `unsafe`, with it the power. What is there is what should be from now on."""
        found, state = by_seq(log), log.state()
        safe_seq = self.synced_seq if unsafe else max(self.synced_seq, self.written.last_seq)
        safe = self.synced if unsafe else self.written
        required = {seq for seq in self.model.messages.keys() - self.going if seq <= safe_seq}
        assert not required - found.keys(), f"promised, and not there: {sorted(required - found.keys())}"
        self.checked += len(required)
        self.check_contents(found)
        back = {seq for seq in found if seq <= safe.last_seq} - safe.seqs
        assert not back, f"deleted for certain, and there again: {sorted(back)}"
        said = self.gone_synced if unsafe else self.gone_synced | self.gone_written
        assert not said & found.keys(), f"said to be deleted, and there again: {sorted(said & found.keys())}"
        assert state.first_seq >= safe.first_seq, "the first sequence has moved back"
        assert state.last_seq >= max(safe.last_seq, safe_seq), "the last sequence has moved back"
        assert state.last_seq >= max(self.known, default=0), "sequences that are known may be given out again"
        self.unsafe = self.unsafe or unsafe
        if not unsafe:
            self.erased |= self.unsaid
        self.unsaid.clear()
        self.erasing.clear()
        assert self.unsafe or self.torn or not state.lost, f"{state.lost} are lost without a reason"
        self.adopt(log, found)

    def check_flip(self, log: Log, findings: Findings, path: str, packed: bool) -> None:
        """After one bit was turned at rest: at most the record that it hit is lost, and that is said; packed, none."""
        said = {seq for start_seq, end_seq in findings.lost for seq in range(start_seq, end_seq)}
        log.store.on_lost = lambda start_seq, end_seq: said.update(range(start_seq, end_seq))
        found = by_seq(log)
        self.check_contents(found)
        missing = self.written.seqs & self.model.messages.keys() - self.going - found.keys()
        if not path.endswith(".seg"):
            assert not missing, f"a bit of {path} has cost {sorted(missing)}"
        if missing:
            assert len(missing) <= (not packed), f"one bit of {path} has cost {sorted(missing)}"
            assert missing <= said or findings.cut_size, f"nobody says that {sorted(missing)} are lost"

    def check_erased(self, image: dict[str, bytes], salt: int) -> None:
        """Nothing is left to be erased, so those are nowhere, but where the power has torn them."""
        for data in image.values():
            for mark in self.erased:
                seq = int(mark[:9])
                pos = find_valid(data, 0, seq, seq, salt) if mark in data else -1
                assert pos < 0 or data[pos + KIND_POS] != MESSAGE, f"erased, and still there: {mark!r}"

    def check_contents(self, found: dict[int, Message]) -> None:
        for seq, message in found.items():
            assert message == self.contents.get(seq), f"{seq} is {message!r}, not {self.contents.get(seq)!r}"

    def adopt(self, log: Log, found: dict[int, Message]) -> None:
        """What is found is what there is, for certain: opening has read it from the medium, or from the system."""
        state, model = log.state(), self.model
        model.messages = dict(found)
        model.last_seq, model.last_ts_ns = state.last_seq, state.last_ts_ns
        self.going.clear()
        self.gone_synced |= self.gone_written - found.keys()
        self.gone_written.clear()
        self.written = self.synced = self.mark()
        self.synced_seq = state.synced_seq
        if log.committer.unsynced_size:
            # What the power has taken is left out; that is said, and not yet synced.
            first_seq = min(state.first_seq, state.synced_seq + 1)
            self.synced = Mark(self.written.seqs, first_seq, state.synced_seq)

    def check_now(self, log: Log, patterns: tuple[bytes, ...]) -> None:
        """The log answers as the dictionary would."""
        state, model = log.state(), self.model
        model.committed_seq = state.committed_seq
        assert (state.messages, state.size) == (len(model.messages), model.size)
        assert (state.first_seq, state.last_seq) == (model.first_seq, model.last_seq)
        assert state.committed_seq <= state.last_seq
        filter, seen = Filter(*patterns), model.seen(patterns)
        forward, backward = scan(log, filter), scan(log, filter, backward=True)
        assert forward == [model.messages[seq] for seq in seen]
        assert backward == forward[::-1]
        assert log.count(filter) == len(seen)
        middle = (state.first_seq + state.last_seq) // 2
        assert log.next(filter, middle) == next((seq for seq in seen if seq >= middle), 0)
        assert log.previous(filter, middle) == next((seq for seq in reversed(seen) if seq <= middle), 0)
        assert log.subjects(filter) == model.subjects(patterns)
        assert log.last_per_subject(filter) == model.last_per_subject(patterns, state.last_seq)


def by_seq(log: Log) -> dict[int, Message]:
    return {message.seq: message for message in scan(log, Filter())}


def scan(log: Log, filter: Filter, *, backward: bool = False) -> list[Message]:
    reader, messages = log.reader(filter, backward=backward), []
    while len(batch := reader.read()) or batch.awaited:
        messages += list(batch)
        if not len(batch):
            bring(log)
    return messages


def bring(log: Log) -> None:
    """Have something back from where it has gone, if that is in the game at all."""
    assert log.settings.tiering is not None, "nothing is awaited where everything is here"
    depot = log.settings.tiering.depot
    assert isinstance(depot, Bringer)
    depot.bring(log)
