"""The loops over socket pairs: what they send, what they accept, and that none of them outlives its run."""

import functools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tidelog.base.errors import Disconnected, ServerError, Timeout
from tidelog.bench.check import Check
from tidelog.bench.fault import Stopped, WrongDelivery
from tidelog.bench.load import Run, publish, receive
from tidelog.bench.workload import Delivered, delivered, lap

Pair = tuple[socket.socket, socket.socket]
Connect = Callable[[], Pair]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Loopback connections whose near end has the time-outs that the loops expect."""
    made: list[socket.socket] = []

    def one() -> Pair:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        made.extend((near, far))
        tick = struct.pack("@ll", 0, 20_000)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, tick)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, tick)
        far.settimeout(10)
        return near, far

    yield one
    for sock in made:
        sock.close()


def stream_and_check(laps: int, count: int = 100, size: int = 128) -> tuple[Delivered, Check]:
    stream = delivered(lap(("bench.data",), size=size, count=count))
    return stream, Check([(stream.data, stream.starts)], laps=laps, mark_at=stream.mark_at)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def read_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "closed early"
        data += piece
    return bytes(data)


def test_publish_sends_all_laps_then_ping_and_waits_for_pong(connect: Connect) -> None:
    near, far = connect()
    seen = bytearray()
    ponged_ns = 0

    def server() -> None:
        nonlocal ponged_ns
        seen.extend(read_exactly(far, 3 * 200_000 + 6))
        far.sendall(b'PING\r\nINFO {"x":1}\r\n')
        seen.extend(read_exactly(far, 6))
        ponged_ns = time.monotonic_ns()
        far.sendall(b"PONG\r\n")

    thread = in_background(server)
    data = bytes(range(200)) * 1000
    end_ns = publish(Run(timeout_s=10), near.fileno(), data, 3)
    thread.join()
    assert seen == data * 3 + b"PING\r\n" + b"PONG\r\n"
    assert end_ns >= ponged_ns > 0


def test_publish_reports_the_servers_refusal(connect: Connect) -> None:
    near, far = connect()
    far.sendall(b"-ERR 'Authorization Violation'\r\n")
    with pytest.raises(ServerError, match="Authorization Violation"):
        publish(Run(timeout_s=10), near.fileno(), b"x", 1)


def test_publish_to_one_who_hangs_up(connect: Connect) -> None:
    near, far = connect()
    far.close()
    with pytest.raises(Disconnected):
        publish(Run(timeout_s=10), near.fileno(), bytes(100_000), 1000)


def test_publish_to_one_who_never_reads_ends_at_the_deadline(connect: Connect) -> None:
    near, _far = connect()
    with pytest.raises(Timeout):
        publish(Run(timeout_s=0.2), near.fileno(), bytes(1_000_000), 100)


def test_receive_takes_exactly_what_was_expected(connect: Connect) -> None:
    near, far = connect()
    stream, check = stream_and_check(laps=50)
    thread = in_background(lambda: far.sendall(b"PING\r\n" + stream.data * 50))
    receive(Run(timeout_s=10), [near.fileno()], [check])
    thread.join()
    assert check.left == 0
    assert far.recv(100) == b"PONG\r\n"


def test_receive_from_several_sockets(connect: Connect) -> None:
    pairs = [connect() for _ in range(4)]
    prepared = [stream_and_check(laps=20 * (number + 1)) for number in range(4)]
    threads = [
        in_background(functools.partial(far.sendall, stream.data * (20 * (number + 1))))
        for number, ((_, far), (stream, _)) in enumerate(zip(pairs, prepared, strict=True))
    ]
    receive(Run(timeout_s=10), [near.fileno() for near, _ in pairs], [check for _, check in prepared])
    for thread in threads:
        thread.join()
    assert [check.left for _, check in prepared] == [0, 0, 0, 0]


@pytest.mark.parametrize("sockets", [1, 2])
def test_lost_message_is_an_error_not_a_short_count(connect: Connect, sockets: int) -> None:
    pairs = [connect() for _ in range(sockets)]
    prepared = [stream_and_check(laps=2) for _ in range(sockets)]
    for (_, far), (stream, _) in zip(pairs, prepared, strict=True):
        far.sendall(stream.data + stream.data[stream.starts[1] :])
    with pytest.raises(WrongDelivery):
        receive(Run(timeout_s=10), [near.fileno() for near, _ in pairs], [check for _, check in prepared])


@pytest.mark.parametrize("sockets", [1, 2])
def test_missing_tail_ends_at_the_deadline(connect: Connect, sockets: int) -> None:
    pairs = [connect() for _ in range(sockets)]
    prepared = [stream_and_check(laps=2) for _ in range(sockets)]
    for (_, far), (stream, _) in zip(pairs, prepared, strict=True):
        far.sendall((stream.data * 2)[:-1])
    with pytest.raises(Timeout, match="1 bytes"):
        receive(Run(timeout_s=0.3), [near.fileno() for near, _ in pairs], [check for _, check in prepared])


@pytest.mark.parametrize("sockets", [1, 2])
def test_closed_connection_says_how_much_is_missing(connect: Connect, sockets: int) -> None:
    pairs = [connect() for _ in range(sockets)]
    prepared = [stream_and_check(laps=1) for _ in range(sockets)]
    for _, far in pairs:
        far.close()
    with pytest.raises(Disconnected, match=f"{prepared[0][1].left} bytes"):
        receive(Run(timeout_s=10), [near.fileno() for near, _ in pairs], [check for _, check in prepared])


@pytest.mark.parametrize("sockets", [1, 2])
def test_stop_ends_a_loop_that_waits(connect: Connect, sockets: int) -> None:
    pairs = [connect() for _ in range(sockets)]
    checks = [stream_and_check(laps=1)[1] for _ in range(sockets)]
    run = Run(timeout_s=30)
    timer = threading.Timer(0.05, run.stop)
    timer.start()
    with pytest.raises(Stopped):
        receive(run, [near.fileno() for near, _ in pairs], checks)
    timer.join()


def test_each_socket_needs_its_check(connect: Connect) -> None:
    near, _ = connect()
    with pytest.raises(ValueError, match="check"):
        receive(Run(timeout_s=1), [near.fileno()], [])
