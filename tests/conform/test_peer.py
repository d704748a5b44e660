"""A server process takes ports of its own choice, says where, obeys signals, and leaves nothing behind."""

import os
import signal
import sys

import pytest

from tidelog.testing.peer import ServerProcess, ServerProcessError


def test_ports_are_known_and_nothing_is_left_when_it_stops(peer_argv: list[str]) -> None:
    config = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
    with ServerProcess(peer_argv, config=config) as server:
        pid, directory = server.pid, server.directory
        assert server.running
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert len({server.port, server.monitor_port, server.port_of("websocket")}) == 3
        assert server.monitor_json("/varz")["port"] == server.port
        assert "Server is ready" in server.log
    assert not server.running
    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_that_cannot_start_says_what_it_logged(peer_argv: list[str]) -> None:
    server = ServerProcess(peer_argv, config="no_such_key: 1\n")
    with pytest.raises(ServerProcessError, match="no_such_key"):
        server.start()
    assert not server.running


def test_a_server_that_is_never_ready_is_ended() -> None:
    server = ServerProcess([sys.executable, "-c", "import time; time.sleep(60)"], ready_s=0.2)
    with pytest.raises(ServerProcessError, match="not ready after"):
        server.start()
    assert not server.running


def test_reload_and_end_by_signal(peer_argv: list[str]) -> None:
    with ServerProcess(peer_argv, config="max_payload: 100\n", flags=["-D"]) as server:
        server.write_config("max_payload: 200\n")
        server.signal(signal.SIGHUP)
        server.wait_for_log("Reloaded server configuration")
        assert server.monitor_json("/varz")["max_payload"] == 200
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert not server.running


def test_waiting_for_what_is_never_logged_has_an_end(peer_argv: list[str]) -> None:
    with ServerProcess(peer_argv) as server, pytest.raises(ServerProcessError, match="the moon"):
        server.wait_for_log("the moon", timeout_s=0.02)
