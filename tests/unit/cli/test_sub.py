import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.cli import command
from tidelog.client import Connection
from tidelog.testing import Server

Begin = Callable[..., Any]
AwaitListener = Callable[[str], None]


@pytest.fixture
def subscribed(
    begin: Begin, await_listener: AwaitListener, connection: Connection, capsysbinary: Any
) -> Callable[..., bytes]:
    """Run `sub` until it has seen two messages; what it wrote."""

    def run(*arguments: str) -> bytes:
        # The first message is the one that found out that somebody listens.
        running = begin("sub", "s.*", "--count", "3", *arguments)
        await_listener("s.ready")
        connection.publish("s.a", b"one", headers={"A": ["1", "2"]})
        connection.publish("s.b", b"\xff", reply="r")
        connection.flush()
        assert running.wait() == 0
        written: bytes = capsysbinary.readouterr().out
        return written

    return run


def test_messages_are_shown_with_headers(subscribed: Callable[..., bytes]) -> None:
    shown = subscribed()
    assert b'[#2] Received on "s.a"\nA: 1\nA: 2\n\none\n\n' in shown
    assert shown.endswith(b'[#3] Received on "s.b" with reply "r"\n\xff\n\n')


def test_raw_is_the_payload_alone(subscribed: Callable[..., bytes]) -> None:
    assert subscribed("--raw") == b"\none\n\xff\n"


def test_headers_may_be_all(subscribed: Callable[..., bytes]) -> None:
    shown = subscribed("--headers-only")
    assert b"A: 2\n" in shown
    assert b"one" not in shown


def test_json_is_one_document_per_line(subscribed: Callable[..., bytes]) -> None:
    documents = [json.loads(line) for line in subscribed("--json").splitlines()]
    assert documents[1:] == [
        {"subject": "s.a", "headers": {"A": ["1", "2"]}, "payload": "one"},
        {"subject": "s.b", "reply": "r", "payload_base64": "/w=="},
    ]


def test_a_subject_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["sub"]) == 2
    assert "SUBJECT is missing" in capsys.readouterr().err


def spawn(server: Server, *arguments: str) -> "subprocess.Popen[bytes]":
    command_line = [sys.executable, "-m", "tidelog", "sub", "-s", server.url, *arguments]
    return subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_an_interrupt_ends_it_without_traceback(server: Server, await_listener: AwaitListener) -> None:
    with spawn(server, "interrupted") as process:
        await_listener("interrupted")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"Traceback" not in told


def test_a_closed_pipe_ends_it_without_traceback(
    server: Server, await_listener: AwaitListener, connection: Connection
) -> None:
    with spawn(server, "piped", "--raw") as process:
        await_listener("piped")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        for _ in range(3):
            connection.publish("piped", b"x" * 100_000)
        connection.flush()
        told = process.stderr.read()
        assert process.wait(10) == 141
    assert b"Traceback" not in told
    assert b"Exception" not in told
