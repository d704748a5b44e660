"""What a round of the crash test writes, all of it drawn from numbers: settings by seed, messages by run and sequence.

So whoever finds a message knows whether each of its bytes is right, and a failure can be had again by its seed.
"""

import zlib
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.base.chance import Chance
from tidelog.log.key_ring import SECRET_SIZE, Key, KeyRing
from tidelog.log.policy import BALANCED, STRICT, SyncPolicy
from tidelog.log.read import Message
from tidelog.log.settings import Limits, LogSettings

NS_PER_MS = 1_000_000

# Many commits and syncs in the short life of a writer.
HASTY = SyncPolicy(messages=20, interval_ns=10 * NS_PER_MS)

POLICIES = (STRICT, HASTY, BALANCED)
LIMITS = (
    Limits(max_messages=400),
    Limits(max_messages=300, max_per_subject=12),
    Limits(max_size=60_000),
    Limits(max_messages=300, discard_new=True),
    Limits(max_per_subject=9),
    Limits(max_messages=900, max_age_ns=150 * NS_PER_MS),
    Limits(max_per_subject=3),
)
# Every writer has both, and seals with the first.
KEYS = (Key("one", b"1" * SECRET_SIZE), Key("two", b"2" * SECRET_SIZE))

# What a record has besides subject, header and payload, and how much more if it expires: docs/formats/log.md.
RECORD_SIZE = 32
EXPIRY_SIZE = 8


@dataclass(frozen=True)
class Plan:
    """How one store is written to, in all of its rounds."""

    seed: int
    logs: int
    limits: Limits
    batch_most: int
    skips: bool

    @classmethod
    def drawn(cls, seed: int, logs: int = 1) -> "Plan":
        chance = Chance(seed)
        limits = LIMITS[chance.integer(len(LIMITS))]
        return cls(seed, logs, limits, (4, 16, 60)[chance.integer(3)], chance.integer(3) == 0)

    def settings(self, run: int) -> LogSettings:
        """Each writer comes with its own, within the limits of the store."""
        chance = Chance(self.seed * 1_000_003 + run)
        return LogSettings(
            policy=POLICIES[chance.integer(len(POLICIES))],
            limits=self.limits,
            segment_size=1 << (11 + chance.integer(5)),
            window_size=1 << (9 + chance.integer(8)),
            keys=KeyRing(KEYS if chance.integer(2) else KEYS[::-1]),
            compression="none" if chance.integer(2) else "zstd",
            encrypt=chance.integer(4) == 0,
        )

    def directory(self, number: int) -> str:
        return f"log-{number}"


class Draft(NamedTuple):
    """A message that is to be appended."""

    subject: bytes
    header: bytes
    payload: bytes
    expiry_ns: int


def draft(run: int, seq: int, expiry_ns: int) -> Draft:
    """What the writer `run` appends as `seq`. The payload says all of it."""
    number = zlib.crc32(b"%d/%d" % (run, seq))
    size = 3000 if number % 97 == 0 else (number >> 8) % 220
    said = b"%d %d %d %08x " % (run, seq, expiry_ns, number)
    return Draft(
        b"s.%d.%d" % (number % 13, (number >> 4) % 3),
        b"NATS/1.0\r\nNumber: %d\r\n\r\n" % number if number % 5 == 0 else b"",
        said + (b"%08x" % number) * (size // 8),
        expiry_ns,
    )


def author(message: Message) -> int:
    """The run that wrote a message; AssertionError if a byte of it is wrong."""
    run, seq, expiry_ns, _ = message.payload.split(b" ", 3)
    wanted = draft(int(run), int(seq), int(expiry_ns))
    found = Draft(message.subject, message.header, message.payload, message.expiry_ns)
    assert (message.seq, found) == (int(seq), wanted), f"{message!r} is not what was written: {wanted}"
    return int(run)


def record_size(message: Message) -> int:
    body = len(message.subject) + len(message.header) + len(message.payload)
    return RECORD_SIZE + body + (EXPIRY_SIZE if message.expiry_ns else 0)
