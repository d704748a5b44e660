import json
from typing import Any, cast

import click
import pytest

from tidelog.cli import output
from tidelog.client.message import Message


def message(payload: bytes, *, reply: bytes | None = None, block: bytes | None = None) -> Message:
    return Message(("MSG", b"a.b", b"1", reply, block, payload), cast(Any, None))


def test_json_line_holds_what_the_message_has() -> None:
    line = output.json_line(message(b"x", reply=b"r", block=b"NATS/1.0 503\r\nA: 1\r\nA: 2\r\n\r\n"))
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "subject": "a.b", "reply": "r", "headers": {"A": ["1", "2"]}, "status": 503, "payload": "x",
    }  # fmt: skip
    assert json.loads(output.json_line(message(b""))) == {"subject": "a.b", "payload": ""}


def test_json_line_takes_base64_for_what_is_no_text() -> None:
    assert json.loads(output.json_line(message(b"\xff")))["payload_base64"] == "/w=="


def test_body_lines_show_headers_then_payload() -> None:
    shown = message(b"x\n", block=b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n")
    assert output.body_lines(shown) == b"A: 1\nA: 2\n\nx\n\n"
    assert output.body_lines(shown, headers_only=True) == b"A: 1\nA: 2\n\n"
    assert output.body_lines(message(b"x")) == b"x\n\n"


def test_headers_are_read_from_flags() -> None:
    assert output.parse_headers(["A:1", "A: {{Count}}", "b:c:d"], 4) == {"A": ["1", "4"], "b": ["c:d"]}
    with pytest.raises(click.BadParameter, match="NAME:VALUE"):
        output.parse_headers(["A"])
