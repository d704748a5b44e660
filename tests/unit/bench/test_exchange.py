"""Requesters and a responder, over sockets that are joined by a few lines of Python instead of a server."""

import socket
import struct
import threading
from array import array
from collections.abc import Callable, Iterator

import pytest

from tidelog.base.errors import Disconnected, ServerError, Timeout
from tidelog.bench.exchange import request, respond
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.load import Run
from tidelog.bench.workload import Exchange, exchange

SIZE = 128


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(3)]
    tick = struct.pack("@ll", 0, 20_000)
    for near, far in made:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, tick)
        far.settimeout(10)
    yield made
    for near, far in made:
        near.close()
        far.close()


def reply_to(frame: bytes) -> bytes:
    _, _, inbox, _ = frame.split(b"\r\n")[0].split(b" ")
    return b"MSG %b 1 %d\r\n" % (inbox, SIZE) + frame[frame.index(b"\r\n") + 2 :]


def answering(
    sock: socket.socket, frames: Exchange, count: int, change: Callable[[bytes], bytes]
) -> threading.Thread:
    """A server with an obliging responder: answers `count` requests, each reply passed through `change`."""
    seen: list[bytes] = []

    def work() -> None:
        data = b""
        while len(seen) < count:
            data = (data + sock.recv(4096)).replace(b"PONG\r\n", b"")
            while len(data) >= len(frames.request):
                frame, data = data[: len(frames.request)], data[len(frames.request) :]
                assert frame not in seen
                seen.append(frame)
                sock.sendall(change(reply_to(frame)))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def ask(fds: list[int], several: list[Exchange], each: int, timeout_s: float = 10) -> "array[int]":
    samples = array("q", bytes(8 * each * len(fds)))
    frames = [(one.request, one.reply) for one in several]
    request(Run(timeout_s=timeout_s), fds, frames, several[0].token_places, each, samples)
    return samples


@pytest.mark.parametrize("count", [1, 3])
def test_every_request_gets_its_own_reply(
    pairs: list[tuple[socket.socket, socket.socket]], count: int
) -> None:
    several = [exchange("svc", size=SIZE, requester=number) for number in range(count)]
    threads = [
        answering(far, one, 50, lambda reply: b"PING\r\n" + reply)
        for (_, far), one in zip(pairs, several, strict=False)
    ]
    samples = ask([near.fileno() for near, _ in pairs[:count]], several, 50)
    for thread in threads:
        thread.join()
    assert len(samples) == 50 * count
    assert min(samples) > 0


@pytest.mark.parametrize("place", [4, 20, 40, 60, 179])
def test_changed_reply_is_noticed(pairs: list[tuple[socket.socket, socket.socket]], place: int) -> None:
    one = exchange("svc", size=SIZE)
    near, far = pairs[0]

    def change(reply: bytes) -> bytes:
        changed = bytearray(reply)
        changed[place] ^= 1
        return bytes(changed)

    thread = answering(far, one, 1, change)
    with pytest.raises(WrongDelivery):
        ask([near.fileno()], [one], 1)
    thread.join()


def test_no_answer_ends_at_the_deadline(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    with pytest.raises(Timeout):
        ask([pairs[0][0].fileno()], [exchange("svc", size=SIZE)], 1, timeout_s=0.1)


def test_refusal_and_hang_up_are_told_apart(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    pairs[0][1].sendall(b"-ERR 'Permissions Violation'\r\n")
    with pytest.raises(ServerError):
        ask([pairs[0][0].fileno()], [exchange("svc", size=SIZE)], 1)
    pairs[1][1].shutdown(socket.SHUT_WR)
    with pytest.raises(Disconnected):
        ask([pairs[1][0].fileno()], [exchange("svc", size=SIZE)], 1)


def deliver(one: Exchange, number: int) -> bytes:
    """The request as the responder gets it."""
    places = (one.token_places[0], one.token_places[1])
    frame = bytearray(one.request)
    for place in places:
        frame[place : place + 8] = b"%08d" % number
    return bytes(frame).replace(b"PUB svc ", one.head, 1)


def respond_to(sock: socket.socket, one: Exchange, count: int, timeout_s: float = 10) -> None:
    respond(Run(timeout_s=timeout_s), sock.fileno(), one.head, one.inbox_size, SIZE, count)


def test_responder_sends_back_what_it_got(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    one = exchange("svc", size=SIZE)
    near, far = pairs[0]
    requests = [deliver(one, number) for number in range(20)]
    # Control lines between two whole requests of one read: the second must not wait for another read.
    sent = requests[0] + b"PING\r\n" + b"INFO {}\r\n" + b"".join(requests[1:])

    def send() -> None:
        for at in range(0, len(sent), 37):
            far.sendall(sent[at : at + 37])

    thread = threading.Thread(target=send)
    thread.start()
    respond_to(near, one, 20)
    thread.join()
    near.shutdown(socket.SHUT_WR)
    got = b""
    while piece := far.recv(65536):
        got += piece
    assert got.count(b"PONG\r\n") == 1
    expected = [b"PUB " + frame[len(one.head) :] for frame in requests]
    assert got.replace(b"PONG\r\n", b"") == b"".join(expected)


def test_two_requests_around_a_ping_in_one_read(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    one = exchange("svc", size=SIZE)
    near, far = pairs[0]
    far.sendall(deliver(one, 0) + b"PING\r\n" + deliver(one, 1))
    respond_to(near, one, 2, timeout_s=5)


def test_responder_refuses_what_no_requester_sent(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    one = exchange("svc", size=SIZE)
    for (near, far), frame in zip(
        pairs,
        (deliver(one, 0).replace(b"svc", b"svd"), deliver(one, 0)[:-2] + b"xx", b"+OK\r\n"),
        strict=True,
    ):
        far.sendall(frame)
        with pytest.raises(WrongDelivery):
            respond_to(near, one, 1)


def test_one_sample_per_request_is_required(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    one = exchange("svc", size=SIZE)
    with pytest.raises(ValueError, match="sample"):
        request(
            Run(timeout_s=1),
            [pairs[0][0].fileno()],
            [(one.request, one.reply)],
            one.token_places,
            2,
            array("q"),
        )
