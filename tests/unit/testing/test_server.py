import gc
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.base.errors import ClientError, ConfigError, Disconnected, ServerError
from tidelog.client import connect
from tidelog.testing import Server
from tidelog.testing.peer import ServerProcessError
from tidelog.testing.plugin import start_tidelog, tidelog_server  # noqa: F401  # used by name

Start = Callable[..., Server]

both = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


@both
def test_it_serves_clients_and_monitoring(process: bool) -> None:
    with Server(process=process) as server:
        connection = server.connect()
        inbound = connection.subscribe("a")
        connection.publish("a", b"x")
        assert inbound.next(5).payload == b"x"
        with urllib.request.urlopen(f"http://{server.host}:{server.monitor_port}/varz", timeout=5) as answer:
            assert answer.status == 200
        assert "Listening for client connections" in server.log
        url = server.url
    assert not connection.is_connected
    with pytest.raises(Disconnected, match="refused"):
        connect(url)


@both
def test_configuration_and_flags_are_taken(process: bool) -> None:
    config = "max_payload: 10\nwebsocket { listen: '127.0.0.1:-1', no_tls: true }"
    flags = ["--user", "u", "--pass", "p"]
    with Server(config, flags=flags, process=process, monitor=False) as server:
        with connect(f"ws://127.0.0.1:{server.websocket_port}", user="u", password="p") as connection:
            assert connection.max_payload == 10
            with pytest.raises(ClientError, match="10 at most"):
                connection.publish("a", b"x" * 11)
        with pytest.raises(ServerError, match="Authorization Violation"):
            server.connect()
        with pytest.raises(KeyError):
            server.monitor_port  # noqa: B018


def test_two_servers_in_one_process_know_nothing_of_each_other() -> None:
    with Server() as one, Server() as other:
        assert one.port != other.port
        inbound = other.connect().subscribe("a")
        other.connect().flush()
        publisher = one.connect()
        publisher.publish("a")
        publisher.flush()
        publisher = other.connect()
        publisher.publish("a", b"from other")
        publisher.flush()
        # The subscription is known since a later connection was answered; only one message can come.
        inbound._connection.flush()
        publisher.publish("a", b"from other")
        publisher.flush()
        assert inbound.next(5).payload == b"from other"


def test_a_bad_configuration_is_told() -> None:
    with pytest.raises(ConfigError, match=r"server\.conf:1"):
        Server("no_such_key: 1").start()
    with pytest.raises(ServerProcessError, match="no_such_key"):
        Server("no_such_key: 1", process=True).start()


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Server():
        pass  # What a first start leaves for good, such as the random number generator's descriptor.
    threads, descriptors = threading.enumerate(), os.listdir("/proc/self/fd")
    for _ in range(3):
        with Server() as server:
            server.connect().flush()
        server.stop()
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert threading.enumerate() == threads
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def test_a_process_can_be_killed() -> None:
    with Server(process=True) as server:
        inbound = server.connect().subscribe("a")
        os.kill(server._runner._process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        with pytest.raises(Disconnected):
            inbound.next(5)


def test_the_fixtures_give_running_servers(tidelog_server: Server, start_tidelog: Start) -> None:  # noqa: F811
    tidelog_server.connect().flush()
    assert start_tidelog("max_payload: 5").connect().max_payload == 5


def test_the_package_alone_loads_no_event_loop() -> None:
    check = "import sys, tidelog.testing, tidelog.testing.plugin; assert 'uvloop' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=20)
