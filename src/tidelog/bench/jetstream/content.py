"""What is sent to streams and read back: units for the loops, made from the same messages on both sides."""

import json
from collections.abc import Mapping, Sequence

from tidelog.bench.jetstream.case import Act, StreamCase
from tidelog.bench.jetstream.window import Units
from tidelog.bench.workload import payload

INBOX = b"_INBOX.BenchJetStreamUnits000."
TOKEN = b"0" * 8
# Messages of a lap where there is one subject: some tens of KiB.
LAP_COUNT = 512
# Payloads that differ; the rest repeats them.
PAYLOADS = 1_000


def keys_of(case: StreamCase, bucket: str) -> list[bytes]:
    return [b"$KV.%b.key.%d" % (bucket.encode(), number) for number in range(case.subjects)]


def subjects_of(case: StreamCase) -> list[bytes]:
    """As many as the case has, of three tokens."""
    if case.act is Act.FILTERED:
        return [b"data.%d.%d" % divmod(number, 1_000) for number in range(case.subjects)]
    return [b"data.site%d.device%d" % (number % 97, number) for number in range(case.subjects)]


def payloads_of(case: StreamCase, count: int) -> list[bytes]:
    known = [payload(0, number, case.size) for number in range(min(count, PAYLOADS))]
    return [known[number % len(known)] for number in range(count)]


def published(subjects: Sequence[bytes], payloads: Sequence[bytes]) -> Units:
    """PUB of each payload on its subject, with a reply subject."""
    frames, places, starts, at = [], [], [0], 0
    for number, body in enumerate(payloads):
        subject = subjects[number % len(subjects)]
        frame = b"PUB %b %b%b %d\r\n%b\r\n" % (subject, INBOX, TOKEN, len(body), body)
        frames.append(frame)
        places.append([at + 4 + len(subject) + 1 + len(INBOX)])
        at += len(frame)
        starts.append(at)
    return Units(b"".join(frames), starts, places)


def batched(subjects: Sequence[bytes], payloads: Sequence[bytes], size: int) -> Units:
    """One unit: a whole batch, whose last message commits it."""
    frames, places, at = [], [], 0
    for number in range(size):
        subject, body = subjects[number % len(subjects)], payloads[number % len(payloads)]
        last = number == size - 1
        header = b"NATS/1.0\r\nNats-Batch-Id: bench%b\r\nNats-Batch-Sequence: %d\r\n" % (TOKEN, number + 1)
        header += b"Nats-Batch-Commit: 1\r\n\r\n" if last else b"\r\n"
        reply = INBOX + TOKEN + b" " if last else b""
        line = b"HPUB %b %b%d %d\r\n" % (subject, reply, len(header), len(header) + len(body))
        if last:
            places.append(at + 5 + len(subject) + 1 + len(INBOX))
        places.append(at + len(line) + header.index(TOKEN))
        frames.append(line + header + body + b"\r\n")
        at += len(frames[-1])
    return Units(b"".join(frames), [0, at], [places])


def asked(targets: Sequence[tuple[bytes, bytes]], values: list[bytes]) -> Units:
    """Requests (subject and body), each answered by a value."""
    frames, places, starts, at = [], [], [0], 0
    for subject, body in targets:
        frame = b"PUB %b %b%b %d\r\n%b\r\n" % (subject, INBOX, TOKEN, len(body), body)
        frames.append(frame)
        places.append([at + 4 + len(subject) + 1 + len(INBOX)])
        at += len(frame)
        starts.append(at)
    return Units(b"".join(frames), starts, places, values)


def request(subject: str, reply: bytes, document: Mapping[str, object]) -> bytes:
    """PUB of a JSON request."""
    body = json.dumps(document, separators=(",", ":")).encode()
    return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(body), body)
