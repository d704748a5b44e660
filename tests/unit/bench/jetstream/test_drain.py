"""Readers of streams, fed with frames that a server could send, and with some that it must not."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tidelog.base.errors import Timeout
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.jetstream.drain import CONSUMED, FETCHED, GOT, PUSHED, Expected, Source, drain
from tidelog.bench.load import Run

Pair = tuple[socket.socket, socket.socket]
SUBJECTS = [b"a.1", b"a.2"]
PAYLOADS = [b"one!", b"two!"]
INBOX = b"_INBOX.drain."
HEAD = b"$JS.ACK.S.c.1."


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 20_000))
    far.settimeout(10)
    yield near, far
    near.close()
    far.close()


def delivery(number: int, count: int, *, seq: int = 0) -> bytes:
    """The number-th message of a consumer of everything."""
    seq = seq or number + 1
    subject, body = SUBJECTS[(seq - 1) % 2], PAYLOADS[(seq - 1) % 2]
    reply = b"%b%d.%d.1700000000000000000.%d" % (HEAD, seq, number + 1, count - number - 1)
    return b"MSG %b 1 %b 4\r\n%b\r\n" % (subject, reply, body)


def status(words: bytes, reply: bytes = b"") -> bytes:
    header = b"NATS/1.0 %b\r\n\r\n" % words
    return b"HMSG _INBOX.drain.pull 1 %b%d %d\r\n%b\r\n" % (reply, len(header), len(header), header)


OPENED = b'{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":"S","name":"c"%b}' % (
    b" " * 200
)
CREATED = b"MSG _INBOX.drain.opened 1 %d\r\n%b\r\n" % (len(OPENED), OPENED)


def read(pair: Pair, source: Source, kind: int, batch: int = 4, timeout_s: float = 5) -> None:
    drain(
        Run(timeout_s=timeout_s), pair[0].fileno(), Expected(SUBJECTS, PAYLOADS), [source], kind, batch, INBOX
    )


def test_pushed_messages_pass_and_flow_control_is_answered(pair: Pair) -> None:
    frames = [CREATED, *(delivery(number, 5) for number in range(5))]
    frames.insert(3, status(b"100 FlowControl Request", b"$JS.FC.S.c.x "))
    frames.insert(5, status(b"100 Idle Heartbeat"))
    # Cut at every line end: no frame comes whole.
    for piece in b"".join(frames).splitlines(keepends=True):
        pair[1].sendall(piece)
    read(pair, Source(opening=b"PUB open\r\n", ack_head=HEAD, count=5), PUSHED)
    assert requests_of(pair[1], 1, b"FC") == b"PUB open\r\nPUB $JS.FC.S.c.x 0\r\n\r\n"


@pytest.mark.parametrize(
    "wrong",
    [
        delivery(2, 5, seq=4),
        delivery(2, 6),
        delivery(2, 5).replace(b"a.1", b"a.2"),
        delivery(2, 5).replace(b"one!", b"one?"),
        delivery(2, 5).replace(b".c.1.", b".c.2."),
        delivery(3, 5),
        status(b"409 Consumer Deleted"),
        b"MSG a.1 1 4\r\none!\r\n",
    ],
)
def test_anything_but_the_next_message_is_wrong(pair: Pair, wrong: bytes) -> None:
    pair[1].sendall(delivery(0, 5) + delivery(1, 5) + wrong)
    with pytest.raises(WrongDelivery, match="message 2 of 5"):
        read(pair, Source(ack_head=HEAD, count=5), PUSHED)


def test_a_consumer_that_cannot_be_made_is_an_error(pair: Pair) -> None:
    refused = OPENED.replace(b',"stream_name":"S"', b',"error":{"code":1}').ljust(300)
    pair[1].sendall(b"MSG _INBOX.drain.opened 1 %d\r\n%b\r\n" % (len(refused), refused))
    with pytest.raises(WrongDelivery, match="message 0"):
        read(pair, Source(opening=b"PUB open\r\n", ack_head=HEAD, count=5), CONSUMED)


def requests_of(far: socket.socket, wanted: int, word: bytes = b"pull") -> bytes:
    data = b""
    while data.count(word) < wanted:
        data += far.recv(4096)
    return data


def test_the_next_batch_is_asked_for_in_time(pair: Pair) -> None:
    def serve() -> None:
        requests_of(pair[1], 1)
        pair[1].sendall(b"".join(delivery(number, 10) for number in range(2)))
        requests_of(pair[1], 1)
        pair[1].sendall(b"".join(delivery(number, 10) for number in range(2, 6)))
        requests_of(pair[1], 1)
        # An end of a request that asked for more than came.
        pair[1].sendall(status(b"408 Request Timeout"))
        requests_of(pair[1], 1)
        pair[1].sendall(b"".join(delivery(number, 10) for number in range(6, 10)))

    thread = threading.Thread(target=serve)
    thread.start()
    read(pair, Source(request=b"PUB pull\r\n", ack_head=HEAD, count=10), CONSUMED)
    thread.join()


def test_fetched_messages_are_acknowledged_and_the_last_one_waits(pair: Pair) -> None:
    got: list[bytes] = []

    def serve() -> None:
        got.append(requests_of(pair[1], 1))
        pair[1].sendall(b"".join(delivery(number, 6) for number in range(4)))
        got.append(requests_of(pair[1], 1))
        pair[1].sendall(b"".join(delivery(number, 6) for number in range(4, 6)))
        got.append(requests_of(pair[1], 1, b"confirmed"))
        pair[1].sendall(b"MSG %bconfirmed 1 0\r\n\r\n" % INBOX)

    thread = threading.Thread(target=serve)
    thread.start()
    read(pair, Source(request=b"PUB pull\r\n", ack_head=HEAD, count=6), FETCHED)
    thread.join()
    sent = b"".join(got)
    assert sent.count(b"+ACK") == 6
    assert sent.endswith(b"PUB %b6.6.1700000000000000000.0 %bconfirmed 4\r\n+ACK\r\n" % (HEAD, INBOX))


def test_who_is_not_confirmed_waits_until_the_deadline(pair: Pair) -> None:
    pair[1].sendall(delivery(0, 1))
    with pytest.raises(Timeout):
        read(pair, Source(request=b"PUB pull\r\n", ack_head=HEAD, count=1), FETCHED, timeout_s=0.1)


def got(seq: int) -> bytes:
    header = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Sequence: %d\r\n\r\n" % seq
    sizes = b"%d %d" % (len(header), len(header) + 4)
    return b"HMSG _INBOX.drain.got 1 %b\r\n%b%b\r\n" % (sizes, header, PAYLOADS[(seq - 1) % 2])


def test_batches_of_direct_gets_go_on_where_the_last_one_ended(pair: Pair) -> None:
    asked: list[bytes] = []

    def serve() -> None:
        for first in (1, 5):
            asked.append(requests_of(pair[1], 1, b"}"))
            frames = [got(seq) for seq in range(first, min(first + 4, 7))]
            pair[1].sendall(b"".join(frames) + status(b"204 EOB"))

    thread = threading.Thread(target=serve)
    thread.start()
    read(pair, Source(request=b'PUB get\r\n{"seq":%b1}\r\n' % (b" " * 11), count=6), GOT)
    thread.join()
    assert asked == [b'PUB get\r\n{"seq":%b%d}\r\n' % (b" " * 11, seq) for seq in (1, 5)]


def test_an_empty_batch_and_a_gap_are_wrong(pair: Pair) -> None:
    source = {"request": b'{"seq":%b1}' % (b" " * 11), "count": 6}
    pair[1].sendall(status(b"204 EOB"))
    with pytest.raises(WrongDelivery):
        read(pair, Source(**source), GOT)  # type: ignore[arg-type]
    pair[1].sendall(got(1) + got(3))
    with pytest.raises(WrongDelivery, match="message 1 of 6"):
        read(pair, Source(**source), GOT)  # type: ignore[arg-type]
