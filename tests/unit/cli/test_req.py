import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidelog.cli import command
from tidelog.client import Connection
from tidelog.testing import Server

Begin = Callable[..., Any]
AwaitListener = Callable[[str], None]


@pytest.fixture
def service(
    begin: Begin, await_listener: AwaitListener, capsys: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Answers two requests to `svc`: the one that finds it, and the test's."""
    capsys.readouterr()
    running = begin("reply", "svc", "you said {{Request}}", "--count", "2", "-H", "A:b")
    await_listener("svc")
    yield
    assert running.wait() == 0


@pytest.mark.usefixtures("service")
def test_the_reply_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["req", "svc", "hi {{Count}}"]) == 0
    shown = capsys.readouterr()
    assert "A: b\n\nyou said hi 1\n" in shown.out
    assert "Received with rtt" in shown.err


@pytest.mark.usefixtures("service")
def test_raw_is_the_payload_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["req", "svc", "hi", "--raw"]) == 0
    assert capsys.readouterr().out.endswith("you said hi\n")


@pytest.mark.usefixtures("service")
def test_json_has_the_time_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["req", "svc", "hi", "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["payload"] == "you said hi"
    assert document["headers"] == {"A": ["b"]}
    assert document["rtt_ns"] > 0


def test_several_replies_are_waited_for(
    begin: Begin, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    service = connection.subscribe("svc.many")
    connection.flush()
    running = begin("req", "svc.many", "x", "--replies", "2", "--raw")
    request = service.next(10)
    for answer in (b"one", b"two", b"three"):
        request.respond(answer)
    connection.flush()
    assert running.wait() == 0
    assert capsys.readouterr().out == "one\ntwo\n"


def test_all_replies_are_waited_for_until_timeout(
    begin: Begin, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    service = connection.subscribe("svc.all")
    connection.flush()
    running = begin("req", "svc.all", "x", "--replies", "0", "--raw", "--timeout", "300ms")
    request = service.next(10)
    for answer in (b"one", b"two", b"three"):
        request.respond(answer)
    connection.flush()
    assert running.wait() == 0
    assert capsys.readouterr().out == "one\ntwo\nthree\n"


@pytest.mark.usefixtures("server")
def test_nobody_listening_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["req", "nobody", "x"]) == 1
    assert "tidelog: nobody listens to 'nobody'" in capsys.readouterr().err


def test_no_answer_in_time_is_a_failure(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with server.connect() as silent:
        silent.subscribe("silent")
        silent.flush()
        assert command.run(["req", "silent", "x", "--timeout", "50ms"]) == 1
    assert "no reply from 'silent' within 50ms" in capsys.readouterr().err


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(("flag", "value"), [("--timeout", "soon"), ("-H", "no colon"), ("--count", "0")])
def test_wrong_flags_are_wrong_usage(flag: str, value: str) -> None:
    assert command.run(["req", "a", "b", flag, value]) == 2
