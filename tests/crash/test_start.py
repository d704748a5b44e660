"""A server that cannot start says why and ends; one that can is there soon, and its files come and go."""

import json
import os
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from crash.conftest import StartServer
from crash.raw import Raw, eventually
from tidelog.bench.startup import free_port, knock, measure
from tidelog.testing.peer import tidelog_argv

# What a busy machine may take; the goal on a quiet one is 150 ms.
LISTENING_S = 0.5


def run_in_vain(*flags: str) -> str:
    """What a server that does not come to listen says on stderr; it ends with exit code 1."""
    done = subprocess.run(
        [*tidelog_argv(), "-a", "127.0.0.1", *flags], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_listens_soon() -> None:
    times = [measure() for _ in range(5)]
    connects, greetings = zip(*times, strict=True)
    medians = [round(statistics.median(column) * 1000) for column in (connects, greetings)]
    print("\nexec to connect {} ms, to INFO {} ms".format(*medians))
    # The fastest: what others do on the machine says nothing about this server.
    assert min(connects) < LISTENING_S
    assert min(greetings) < 2 * LISTENING_S


def test_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = run_in_vain("-p", str(port))
        assert "[FTL] Error listening on port: " in said
        assert f"listen tcp 127.0.0.1:{port}: bind: address already in use" in said
        said = run_in_vain("-p", "-1", "-m", str(port))
        assert "[FTL] Error listening on monitor port: " in said
        assert "address already in use" in said


def test_a_start_in_vain_leaves_no_files(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run_in_vain("-p", "-1", "-m", port, "-P", str(tmp_path / "pid"), "--ports_file_dir", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_address_of_somebody_else() -> None:
    assert "cannot assign requested address" in run_in_vain("-a", "192.0.2.1", "-p", "-1")


def test_an_error_on_line_37(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text("# comment\n" * 36 + "max_payload: lots\n" + "debug: true\n" * 10)
    said = run_in_vain("-c", str(path), "-p", "-1")
    assert f"{path}:37:1: " in said or f"{path}:37:14: " in said
    path.write_text("# comment\n" * 36 + "  authorization { user: }\n")
    assert f"{path}:37:" in run_in_vain("-c", str(path), "-p", "-1")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("cert_file: '{0}/none.pem', key_file: '{0}/none.key'", "No such file or directory"),
        ("cert_file: '{0}/junk.pem', key_file: '{0}/junk.pem'", "cannot use cert_file"),
        ("cert_file: '{0}', key_file: '{0}'", "Is a directory"),
    ],
)
def test_unreadable_certificate(tmp_path: Path, block: str, words: str) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    path = tmp_path / "server.conf"
    path.write_text("tls { " + block.format(tmp_path) + " }\n")
    said = run_in_vain("-c", str(path), "-p", "-1")
    assert words in said
    assert "tls" in said


def test_a_log_file_that_cannot_be_opened(tmp_path: Path) -> None:
    said = run_in_vain("-p", "-1", "-l", str(tmp_path / "no" / "server.log"))
    assert "error opening file" in said


def test_pid_file_and_ports_file(start: StartServer, tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    server = start(flags=["-P", str(pid_file)])
    assert int(pid_file.read_text()) == server.pid
    [ports_file] = server.directory.glob(f"*_{server.pid}.ports")
    assert json.loads(ports_file.read_text())["nats"] == [server.url]
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert not pid_file.exists()
    assert not ports_file.exists()


def test_a_log_file_that_was_moved_away(start: StartServer, tmp_path: Path) -> None:
    path, moved = tmp_path / "server.log", tmp_path / "moved.log"
    server = start(flags=["-l", str(path)])
    os.rename(path, moved)
    with Raw(server.port) as client:
        client.enter()
        client.send(b"NONSENSE\r\n")
        client.rest()
    assert "NONSENSE" in moved.read_text()
    server.signal(signal.SIGUSR1)
    for _ in eventually():
        if path.exists() and "File log re-opened" in path.read_text():
            break
    with Raw(server.port) as client:
        client.enter()
        client.send(b"GARBAGE\r\n")
        client.rest()
    assert "GARBAGE" in path.read_text()
    assert "GARBAGE" not in moved.read_text()
    assert server.log == ""


def test_killed_and_started_again(start: StartServer, tmp_path: Path) -> None:
    """What a killed server leaves behind, connections in mid-air and its files, blocks nothing."""
    pid_file = tmp_path / "server.pid"
    first = start(flags=["-P", str(pid_file)])
    port = first.port
    with Raw(port) as client:
        client.enter()
        client.send(b"PUB half 10\r\nabc")
        begin = time.monotonic()
        first.signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert client.rest() == b""
    second = start(flags=["-P", str(pid_file), "-p", str(port)])
    with Raw(port) as client:
        client.enter()
    assert second.port == port
    assert int(pid_file.read_text()) == second.pid
    assert time.monotonic() - begin < 10


def test_a_signal_right_after_the_start_is_kept(tmp_path: Path) -> None:
    """SIGHUP would end a process that does not handle it yet; whoever connects may send it."""
    port, log_path = free_port(), tmp_path / "server.log"
    command = [*tidelog_argv(), "-a", "127.0.0.1", "-p", str(port), "-l", str(log_path)]
    with subprocess.Popen(command) as process:
        try:
            knock(process, port, time.monotonic() + 20).close()
            process.send_signal(signal.SIGHUP)
            for _ in eventually():
                if log_path.exists() and "Reloaded server configuration" in log_path.read_text():
                    break
        finally:
            process.terminate()
    assert process.returncode == 0
