"""Requests with a window, answered by a few lines of Python that can answer wrongly."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from tidelog.base.errors import Disconnected, ServerError, Timeout
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.jetstream.content import INBOX, asked, batched, published
from tidelog.bench.jetstream.window import ACK, VALUE, Units, ask
from tidelog.bench.load import Run

Pair = tuple[socket.socket, socket.socket]
Answer = Callable[[int], bytes]


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 20_000))
    far.settimeout(10)
    yield near, far
    near.close()
    far.close()


def frame(number: int, body: bytes) -> bytes:
    return b"MSG %b%08d 1 %d\r\n%b\r\n" % (INBOX, number, len(body), body)


def ack(number: int) -> bytes:
    return frame(number, b'{"stream":"S","seq":%d}' % (number + 1))


def answering(far: socket.socket, count: int, answer: Answer, end: bytes = b"\r\n") -> list[bytes]:
    """Answer `count` frames that end in payload and `end`. What was read is in the list when the thread ends."""
    seen: list[bytes] = []

    def work() -> None:
        data, number = b"", 0
        while number < count:
            piece = far.recv(65536)
            if not piece:
                return
            data += piece
            while (at := data.find(b"PUB ", 1)) > 0 or data.endswith(end):
                whole, data = (data[:at], data[at:]) if at > 0 else (data, b"")
                if whole.startswith(b"PUB "):
                    seen.append(whole)
                    far.sendall(answer(number))
                    number += 1

    def quietly() -> None:
        with contextlib.suppress(OSError):
            work()

    threading.Thread(target=quietly, daemon=True).start()
    return seen


def run(
    pair: Pair, units: Units, count: int, window: int = 4, timeout_s: float = 10, **settings: object
) -> int:
    settings = {"kind": ACK, "stream": b"S", **settings}
    return ask(Run(timeout_s=timeout_s), pair[0].fileno(), units, INBOX, count, window, **settings)  # type: ignore[arg-type]


UNITS = 3


def some() -> Units:
    return published([b"a", b"b.c"], [b"0" * 16, b"1" * 16, b"2" * 16])


@pytest.mark.parametrize("window", [1, 4, 100])
def test_every_message_is_acknowledged_in_turn(pair: Pair, window: int) -> None:
    seen = answering(pair[1], 50, lambda number: (b"PING\r\n" if number == 7 else b"") + ack(number))
    run(pair, some(), 50, window)
    assert len(set(seen)) == 50
    assert seen[4] == b"PUB b.c %b00000004 16\r\n%b\r\n" % (INBOX, b"1" * 16)


@pytest.mark.parametrize(
    "wrong",
    [
        frame(3, b'{"stream":"S","seq":5}'),
        frame(3, b'{"stream":"T","seq":4}'),
        frame(3, b'{"stream":"S","seq":4,"duplicate":true}'),
        frame(3, b'{"error":{"code":503,"description":"no"},"stream":"S","seq":0}'),
        frame(4, b'{"stream":"S","seq":4}'),
        frame(3, b""),
        b"HMSG %b%08d 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % (INBOX, 3),
        b"MSG nonsense\r\n",
    ],
)
def test_anything_but_the_next_acknowledgement_is_wrong(pair: Pair, wrong: bytes) -> None:
    answering(pair[1], 10, lambda number: wrong if number == 3 else ack(number))
    with pytest.raises(WrongDelivery, match="answer 3 of 10"):
        run(pair, some(), 10)


def test_a_blank_behind_the_comma_is_the_older_spelling(pair: Pair) -> None:
    answering(pair[1], 5, lambda number: ack(number).replace(b',"seq', b', "seq').replace(b"1 22", b"1 23"))
    run(pair, some(), 5)


def test_the_window_is_never_exceeded(pair: Pair) -> None:
    with pytest.raises(Timeout):
        run(pair, some(), 100, window=8, timeout_s=0.1)
    pair[1].setblocking(False)
    assert pair[1].recv(65536).count(b"PUB ") == 8


def test_a_batch_is_one_unit_with_one_acknowledgement(pair: Pair) -> None:
    units = batched([b"a"], [b"x" * 8], 3)

    def answer(number: int) -> bytes:
        body = b'{"stream":"S","seq":%d,"batch":"bench%08d","count":3}' % (3 * number + 3, number)
        return frame(number, body) if number < 2 else b""

    received = b""

    def work() -> None:
        nonlocal received
        for number in range(2):
            while received.count(b"Commit: 1") <= number:
                received += pair[1].recv(65536)
            pair[1].sendall(answer(number))

    thread = threading.Thread(target=work)
    thread.start()
    run(pair, units, 2, window=1, each=3)
    thread.join()
    assert received.count(b"Nats-Batch-Id: bench00000001\r\n") == 3
    assert received.count(INBOX + b"0000000") == 2


def test_values_are_compared_byte_by_byte(pair: Pair) -> None:
    units = asked([(b"g", b'{"seq":1}'), (b"g", b'{"seq":2}')], [b"one", b"two"])

    def value(number: int, body: bytes) -> bytes:
        header = b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n"
        sizes = b"%d %d" % (len(header), len(header) + 3)
        return b"HMSG %b%08d 1 %b\r\n%b%b\r\n" % (INBOX, number, sizes, header, body)

    answering(pair[1], 6, lambda number: value(number, b"two" if number % 2 else b"one"))
    run(pair, units, 6, kind=VALUE)
    answering(pair[1], 2, lambda number: value(number, b"one"))
    with pytest.raises(WrongDelivery, match="answer 1 of 2"):
        run(pair, units, 2, window=1, kind=VALUE)


def test_refusal_and_hang_up_are_told_apart(pair: Pair) -> None:
    pair[1].sendall(b"-ERR 'Permissions Violation'\r\n")
    with pytest.raises(ServerError):
        run(pair, some(), 1)
    pair[1].shutdown(socket.SHUT_WR)
    with pytest.raises(Disconnected):
        run(pair, some(), 1)
