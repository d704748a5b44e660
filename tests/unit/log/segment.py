"""Segments for tests: bytes made record by record, and what they say told by a plain model."""

from dataclasses import dataclass, field

from tidelog.log.record import encode_fact, encode_message

SALT = 0x5EED_CAFE
HEADER = b"TIDESEG1" + bytes(56)
DELETE, TRIM, SKIP = 2, 3, 4
SAMPLE_EVERY = 4096


@dataclass
class Segment:
    """Records behind a header, with what a survey of them has to find."""

    base_seq: int = 1
    data: bytes = HEADER
    last_seq: int = 0
    messages: int = 0
    message_bytes: int = 0
    first_ts_ns: int = 0
    last_ts_ns: int = 0
    samples: list[tuple[int, int, int]] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    expiries: list[tuple[int, int]] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)
    rows: dict[bytes, list[int]] = field(default_factory=dict)
    # Each record: its position, and the sequence of its message; 0: it is none.
    records: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last_seq = self.base_seq - 1

    def add(self, seq: int, ts_ns: int, subject: bytes, payload: bytes = b"", expiry_ns: int = 0) -> None:
        pos = len(self.data)
        record = encode_message(seq, ts_ns, subject, b"", payload, expiry_ns, SALT)
        if seq != self.last_seq + 1:
            self.holes.append((self.last_seq + 1, seq - self.last_seq - 1))
        if not self.samples or pos - self.samples[-1][1] >= SAMPLE_EVERY:
            self.samples.append((seq, pos, ts_ns))
        if expiry_ns:
            self.expiries.append((seq, expiry_ns))
        self.first_ts_ns = self.first_ts_ns if self.messages else ts_ns
        self.rows.setdefault(subject, []).append(seq)
        self.messages += 1
        self.message_bytes += len(record)
        self.last_seq = seq
        self.last_ts_ns = ts_ns
        self.records.append((pos, seq))
        self.data += record

    def control(self, kind: int, payload: bytes = bytes(8)) -> None:
        self.controls.append(len(self.data))
        self.records.append((len(self.data), 0))
        self.data += encode_fact(kind, self.last_seq, self.last_ts_ns, payload, SALT)


def example() -> Segment:
    """A bit of everything, in some hundred bytes."""
    segment = Segment(10)
    segment.control(TRIM, (10).to_bytes(8, "little"))
    segment.add(12, 100, b"orders.eu", b"first")
    segment.add(13, 100, b"orders.us", b"second", expiry_ns=5000)
    segment.control(DELETE, b"\x0c\x01\x2e")
    segment.add(14, 150, b"orders.eu")
    segment.control(SKIP, (18).to_bytes(8, "little"))
    segment.add(18, 151, b"orders", b"x" * 40)
    segment.add(19, 152, b"orders.eu", b"last", expiry_ns=6000)
    return segment
