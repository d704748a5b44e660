"""What is sent, and what must arrive: the messages of a lap, as bytes of both sides.

A publisher sends its lap over and over. Each payload begins with the publisher's letter and the number of
the message within the lap, so that order and completeness can be seen in the bytes; the rest is filler that
differs from message to message. Both sides of the wire are made from the same messages, so they cannot
disagree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SID = "1"
# 62 letters and digits: prime to no power of two, so the filler of neighbours never lines up.
FILLER = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
INBOX_NAME_SIZE = 22


@dataclass(frozen=True, slots=True)
class Message:
    subject: str
    payload: bytes
    headers: bytes = b""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A lap as a subscriber gets it: its bytes and the positions at which the frames begin."""

    data: bytes
    starts: tuple[int, ...]
    # Where the publisher's letter stands in each frame; -1 if not in the same place everywhere.
    mark_at: int


def payload(publisher: int, number: int, size: int) -> bytes:
    """`size` bytes that tell who sent them and as which message of the lap."""
    mark = b"%c%06d:" % (ord("A") + publisher, number)
    start = number % len(FILLER)
    filler = (FILLER[start:] + FILLER * (size // len(FILLER) + 1))[: max(0, size - len(mark))]
    return (mark + filler)[:size]


def lap(
    subjects: Sequence[str], *, size: int, count: int, publisher: int = 0, headers: bytes = b""
) -> list[Message]:
    """`count` messages that go through the subjects in turn."""
    return [
        Message(subjects[number % len(subjects)], payload(publisher, number, size), headers)
        for number in range(count)
    ]


def published(messages: Sequence[Message]) -> bytes:
    """The bytes of PUB and HPUB operations."""
    frames = []
    for message in messages:
        subject, size = message.subject.encode(), len(message.payload)
        if message.headers:
            head = len(message.headers)
            frames.append(b"HPUB %b %d %d\r\n%b" % (subject, head, head + size, message.headers))
        else:
            frames.append(b"PUB %b %d\r\n" % (subject, size))
        frames.append(message.payload + b"\r\n")
    return b"".join(frames)


def delivered(messages: Sequence[Message], sid_of: Callable[[str], str | None] = lambda _: SID) -> Delivered:
    """The MSG and HMSG frames of a subscriber; `sid_of` names the subscription that matches, or None."""
    frames: list[bytes] = []
    starts: list[int] = []
    marks: set[int] = set()
    at = 0
    for message in messages:
        sid = sid_of(message.subject)
        if sid is None:
            continue
        names, size = f"{message.subject} {sid}".encode(), len(message.payload)
        if message.headers:
            head = len(message.headers)
            line = b"HMSG %b %d %d\r\n%b" % (names, head, head + size, message.headers)
        else:
            line = b"MSG %b %d\r\n" % (names, size)
        frame = line + message.payload + b"\r\n"
        frames.append(frame)
        starts.append(at)
        marks.add(len(line))
        at += len(frame)
    return Delivered(b"".join(frames), tuple(starts), marks.pop() if len(marks) == 1 else -1)


def matches(pattern: str, subject: str) -> bool:
    """NATS wildcards: `*` is one token, `>` the rest. Slow and plain, for a server is judged by it."""
    wanted, tokens = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > index
        if index >= len(tokens) or token not in ("*", tokens[index]):
            return False
    return len(wanted) == len(tokens)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The frames of a requester and of its responder. Tokens are eight digits, written in by the loop."""

    request: bytes
    reply: bytes
    # Where the token stands in the request's inbox and payload, and in the reply's inbox and payload.
    token_places: tuple[int, int, int, int]
    # A delivered request up to its reply subject, and the size of that subject.
    head: bytes
    inbox_size: int


def exchange(subject: str, *, size: int, requester: int = 0) -> Exchange:
    """A request with an inbox as client libraries make it: `_INBOX.`, 22 characters, a token."""
    name = f"Bench{requester:03d}".ljust(INBOX_NAME_SIZE, "x")
    inbox = f"_INBOX.{name}.00000000".encode()
    body = b"0" * 8 + payload(requester % 26, 0, size - 8)
    request = b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), inbox, size, body)
    reply = b"MSG %b %b %d\r\n%b\r\n" % (inbox, SID.encode(), size, body)
    inbox_end_in_request = 4 + len(subject) + 1 + len(inbox)
    places = (inbox_end_in_request - 8, len(request) - size - 2, 4 + len(inbox) - 8, len(reply) - size - 2)
    return Exchange(request, reply, places, b"MSG %b %b " % (subject.encode(), SID.encode()), len(inbox))
