import shlex
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.client import Connection, Message

Ask = Callable[..., Message]

PRINT_WORDS = shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1:])"])
PRINT_ENVIRONMENT = shlex.join(
    [
        sys.executable,
        "-c",
        "import os; print(os.environ['NATS_REQUEST_SUBJECT'], os.environ['NATS_REQUEST_BODY'])",
    ]
)


@pytest.fixture
def ask(begin: Callable[..., Any], await_listener: Callable[[str], None], connection: Connection) -> Ask:
    """Run `reply q.* ...` for one request; the answer."""

    def run(body: bytes, *arguments: str, headers: dict[str, str] | None = None) -> Message:
        running = begin("reply", "q.*", *arguments, "--count", "2")
        await_listener("q.ready")
        answer = connection.request("q.a", body, headers=headers, timeout_s=10)
        assert running.wait() == 0
        return answer

    return run


def test_a_body_may_repeat_the_request(ask: Ask) -> None:
    answer = ask(b"hi", "#{{Count}} {{Request}}", "-H", "A:b")
    assert (answer.payload, answer.headers) == (b"#2 hi", {"A": ["b"]})


def test_echo_returns_payload_and_headers(ask: Ask) -> None:
    answer = ask(b"\xff", headers={"K": "v"})
    assert (answer.payload, answer.headers) == (b"\xff", {"K": ["v"]})


def test_a_request_adds_no_word_to_a_command(ask: Ask) -> None:
    answer = ask(b"x y; echo '$HOME", "--command", PRINT_WORDS + " {{1}} 'got {{Request}}'")
    assert answer.payload == (str(["a", "got x y; echo '$HOME"]) + "\n").encode()


def test_a_command_finds_the_request_in_its_environment(ask: Ask) -> None:
    assert ask(b"hi", "--command", PRINT_ENVIRONMENT).payload == b"q.a hi\n"


def test_a_command_that_fails_is_answered_with_what_it_printed(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = shlex.join([sys.executable, "-c", "import sys; sys.exit('sorry')"])
    assert ask(b"", "--command", failing).payload == b"sorry\n"
    assert "ended with code 1" in capsys.readouterr().err


def test_a_command_that_is_not_there_is_answered_with_nothing(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(b"", "--command", "/no/such/thing").payload == b""
    assert "cannot run" in capsys.readouterr().err
