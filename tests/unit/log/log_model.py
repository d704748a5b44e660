"""What a log should hold, told by a plain dictionary."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace

from tidelog.log.read import Message
from tidelog.log.settings import Limits

NS = 1_000_000_000
HEADER_SIZE, EXPIRY_SIZE = 32, 8
NONE = Limits()


def accepts(pattern: bytes, subject: bytes) -> bool:
    """Whether a pattern takes a subject, by its tokens."""
    wanted, tokens = pattern.split(b"."), subject.split(b".")
    if wanted[-1] == b">":
        return len(tokens) >= len(wanted) and accepts(
            b".".join([*wanted[:-1], b"*"]), b".".join(tokens[: len(wanted)])
        )
    return len(wanted) == len(tokens) and all(
        one in (b"*", other) for one, other in zip(wanted, tokens, strict=True)
    )


def accepts_any(patterns: tuple[bytes, ...], subject: bytes) -> bool:
    return not patterns or any(accepts(pattern, subject) for pattern in patterns)


def record_size(message: Message) -> int:
    expiry_size = EXPIRY_SIZE if message.expiry_ns else 0
    return HEADER_SIZE + expiry_size + len(message.subject) + len(message.header) + len(message.payload)


@dataclass
class Model:
    """`durable` is what a process that ends now leaves behind."""

    limits: Limits = NONE
    messages: dict[int, Message] = field(default_factory=dict)
    last_seq: int = 0
    last_ts_ns: int = 0
    committed_seq: int = 0
    durable: Model | None = None

    def __post_init__(self) -> None:
        if self.durable is None:
            self.durable = replace(self, messages=dict(self.messages), durable=self)

    # ---- what is done to it ----

    def append(self, message: Message) -> int:
        """`message` without a sequence; its time is at least the last one."""
        message.seq = self.last_seq + 1
        message.ts_ns = max(message.ts_ns, self.last_ts_ns)
        self.messages[message.seq] = message
        self.last_seq, self.last_ts_ns = message.seq, message.ts_ns
        self.enforce(message.subject)
        return message.seq

    def refusal(self, message: Message) -> str:
        """The limit that the log has to name when it refuses this; empty: it takes it."""
        size, bounds = record_size(message), self.limits
        if bounds.max_size and size > bounds.max_size:
            return "size"
        same = [one for one in self.messages.values() if one.subject == message.subject]
        replaces = bounds.max_per_subject and len(same) >= bounds.max_per_subject
        if replaces and bounds.discard_new and bounds.discard_new_per_subject:
            return "per subject"
        freed = record_size(same[0]) if replaces else 0
        if bounds.discard_new:
            if bounds.max_messages and len(self.messages) >= bounds.max_messages and not replaces:
                return "messages"
            if bounds.max_size and self.size + size - freed > bounds.max_size:
                return "size"
        return ""

    def enforce(self, subject: bytes | None = None) -> None:
        """Trim to the limits; `subject`: the one that has just grown, None: any may be too large."""
        bounds = self.limits
        subjects = {one.subject for one in self.messages.values()} if subject is None else {subject}
        if bounds.max_per_subject:
            for name in subjects:
                same = [seq for seq, one in self.messages.items() if one.subject == name]
                for seq in same[: -bounds.max_per_subject]:
                    del self.messages[seq]
        if bounds.discard_new:
            return
        while bounds.max_messages and len(self.messages) > bounds.max_messages:
            del self.messages[self.first_seq]
        while bounds.max_size and self.size > bounds.max_size and len(self.messages) > 1:
            del self.messages[self.first_seq]

    def expire(self, now_ns: int) -> None:
        due = [seq for seq, one in self.messages.items() if one.expiry_ns and one.expiry_ns <= now_ns]
        if self.limits.max_age_ns:
            due += [seq for seq, one in self.messages.items() if one.ts_ns <= now_ns - self.limits.max_age_ns]
        for seq in set(due):
            del self.messages[seq]

    def purge(self, patterns: tuple[bytes, ...], before_seq: int | None, keep: int) -> int:
        chosen = [seq for seq in self.matching(patterns) if before_seq is None or seq < before_seq]
        chosen = chosen[:-keep] if keep else chosen
        for seq in chosen:
            del self.messages[seq]
        return len(chosen)

    def skip_to(self, next_seq: int) -> None:
        self.last_seq = max(self.last_seq, next_seq - 1)

    def commit(self) -> None:
        self.committed_seq = self.last_seq
        self.durable = self
        self.durable = copy.copy(self)
        self.durable.messages = dict(self.messages)

    def crash(self) -> None:
        """Go back to what was committed last."""
        assert self.durable is not None
        self.messages = dict(self.durable.messages)
        self.last_seq, self.last_ts_ns = self.durable.last_seq, self.durable.last_ts_ns
        self.committed_seq = self.last_seq

    # ---- what it says ----

    @property
    def first_seq(self) -> int:
        return min(self.messages, default=self.last_seq + 1)

    @property
    def size(self) -> int:
        return sum(map(record_size, self.messages.values()))

    def matching(self, patterns: tuple[bytes, ...]) -> list[int]:
        """All, committed or not."""
        return [seq for seq in sorted(self.messages) if accepts_any(patterns, self.messages[seq].subject)]

    def seen(self, patterns: tuple[bytes, ...]) -> list[int]:
        """Those that readers may see."""
        return [seq for seq in self.matching(patterns) if seq <= self.committed_seq]

    def fact(self, seq: int) -> str:
        if seq > self.committed_seq:
            return "future"
        if seq < self.first_seq:
            return "trimmed"
        return "present" if seq in self.messages else "deleted"

    def subjects(self, patterns: tuple[bytes, ...]) -> list[tuple[bytes, int, int, int]]:
        rows: dict[bytes, list[int]] = {}
        for seq in self.matching(patterns):
            rows.setdefault(self.messages[seq].subject, []).append(seq)
        return [(subject, len(seqs), seqs[0], seqs[-1]) for subject, seqs in sorted(rows.items())]

    def last_per_subject(self, patterns: tuple[bytes, ...], last_seq: int) -> list[int]:
        newest = {self.messages[seq].subject: seq for seq in self.seen(patterns) if seq <= last_seq}
        return sorted(newest.values())

    def seq_at_time(self, ts_ns: int) -> int:
        return next(
            (seq for seq in sorted(self.messages) if self.messages[seq].ts_ns >= ts_ns), self.last_seq + 1
        )
