"""Clients that do not read, say nothing, or say far too much."""

from crash.bystander import Bystander
from crash.conftest import StartServer
from crash.raw import LogTail, Raw, eventually, highest_size
from tidelog.testing.peer import ServerProcess

MIB = 1024 * 1024
PAYLOAD = b"x" * 32768
MESSAGE = b"PUB flood 32768\r\n" + PAYLOAD + b"\r\n"


def subscribe_and_read_no_more(server: ServerProcess) -> Raw:
    client = Raw(server.port, receive_size=4096)
    client.enter()
    client.send(b"SUB flood 1\r\n")
    client.round_trip()
    return client


def slow_consumers(server: ServerProcess) -> dict[str, int]:
    found = server.monitor_json("/varz")
    return {"slow_consumers": found["slow_consumers"], "connections": found["connections"]}


def test_who_never_reads_is_closed_at_max_pending(start: StartServer) -> None:
    server = start(config="max_pending: 1MB\nwrite_deadline: '60s'")
    before = highest_size(server.pid)
    log = LogTail(server)
    with Bystander(server), Raw(server.port) as publisher:
        publisher.enter()
        reader = Raw(server.port)
        reader.enter()
        reader.send(b"SUB flood 1\r\n")
        reader.round_trip()
        with reader, subscribe_and_read_no_more(server):
            sent = 0
            for _ in eventually():
                publisher.send(MESSAGE)
                sent += 1
                assert reader.line() == b"MSG flood 1 32768\r\n"
                assert reader.lines.read(32770) == PAYLOAD + b"\r\n"
                if "Slow Consumer Detected" in log.text:
                    break
            assert publisher.round_trip() == []
            assert reader.round_trip() == []
        log.has("Slow Consumer Detected: MaxPending of 1048576 Exceeded")
        assert slow_consumers(server)["slow_consumers"] == 1
    assert sent >= 32
    assert highest_size(server.pid) - before < 24 * MIB


def test_who_never_reads_is_closed_at_the_write_deadline(start: StartServer) -> None:
    server = start(config="write_deadline: '300ms'")
    log = LogTail(server)
    with (
        Bystander(server),
        Raw(server.port) as publisher,
        subscribe_and_read_no_more(server),
    ):
        publisher.enter()
        # More than sockets hold, far less than max_pending.
        publisher.send(MESSAGE * 300)
        assert publisher.round_trip() == []
        log.has("Slow Consumer Detected: WriteDeadline of 0.3s exceeded")
        for _ in eventually():
            if slow_consumers(server) == {"slow_consumers": 1, "connections": 2}:
                break


def test_answers_that_nobody_reads_are_bounded(start: StartServer) -> None:
    """PING after PING, and the answers pile up."""
    server = start(config="max_payload: 64KB\nmax_pending: 256KB\nwrite_deadline: '60s'")
    before = highest_size(server.pid)
    log = LogTail(server)
    with Bystander(server), Raw(server.port, receive_size=4096) as client:
        client.enter()
        for _ in eventually():
            try:
                client.send(b"PING\r\n" * 10_000)
            except (ConnectionResetError, BrokenPipeError):
                break
        log.has("Slow Consumer Detected: MaxPending of 262144 Exceeded")
    assert highest_size(server.pid) - before < 16 * MIB


def test_one_that_floods_costs_no_memory_and_holds_nobody_up(start: StartServer) -> None:
    """64 MiB of small messages, to one who reads as fast as it can and to nobody."""
    server = start()
    before = highest_size(server.pid)
    burst = b"PUB nobody 16\r\n0123456789abcdef\r\n" * 32_768
    with Bystander(server) as bystander, Raw(server.port) as client:
        client.enter()
        start_count = bystander.count
        for _ in range(64):
            client.send(burst)
        assert client.round_trip() == []
        assert bystander.count > start_count
        assert server.monitor_json("/varz")["in_msgs"] >= 64 * 32_768
    assert highest_size(server.pid) - before < 16 * MIB


def test_many_subscriptions_and_sudden_ends_leave_nothing(start: StartServer) -> None:
    server = start()
    with Bystander(server):
        for _ in range(3):
            with Raw(server.port) as client:
                client.enter()
                client.send(b"".join(b"SUB a.%d.* %d\r\n" % (number, number) for number in range(5000)))
                assert client.round_trip() == []
        for _ in eventually():
            if server.monitor_json("/subsz")["num_subscriptions"] == 1:
                break


def test_who_says_nothing_is_shown_the_door(start: StartServer) -> None:
    server = start(
        config="authorization { user: a, password: secret-a, timeout: 0.8 }\ndebug: true",
    )
    log = LogTail(server)
    with (
        Bystander(server, user="a", password="secret-a"),
        Raw(server.port) as silent,
        Raw(server.port) as trickling,
    ):
        silent.info()
        trickling.info()
        trickling.send(b"CONN")
        assert silent.rest() == b"-ERR 'Authentication Timeout'\r\n"
        assert trickling.rest() == b"-ERR 'Authentication Timeout'\r\n"
        log.has("Authentication Timeout")
    assert "secret-a" not in server.log


def test_who_answers_no_ping_is_stale(start: StartServer) -> None:
    server = start(config="ping_interval: '400ms'\nping_max: 2\ndebug: true")
    log = LogTail(server)
    with Bystander(server), Raw(server.port) as silent:
        silent.info()
        assert silent.rest() == b"PING\r\n" * 2 + b"-ERR 'Stale Connection'\r\n"
        log.has("Stale Client Connection - Closing")
    assert server.monitor_json("/varz")["stale_connections"] == 1
