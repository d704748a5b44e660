"""Traced messages whose headers are not what they should be."""

import json
from typing import Any

import msgspec
import pytest

from unit.broker.house import House


@pytest.mark.parametrize("first", [b"NAT\nS/1.0", b"HTTP/1.1 200 OK", b"", b"NATS/1.0 " + b"9" * 5000])
def test_a_block_that_cannot_be_read_asks_for_nothing(first: bytes) -> None:
    client = House().client(headers=True)
    block = first + b"\r\nNats-Trace-Dest: \r\n\r\n"
    sizes = b"%d %d\r\n" % (len(block), len(block) + 2)
    client.send(b"SUB foo 1\r\nHPUB foo " + sizes + block + b"ok\r\n")
    assert client.read() == b"HMSG foo 1 " + sizes + block + b"ok\r\n"
    assert client.reason == ""


def test_a_report_of_bytes_that_are_no_text_can_be_written() -> None:
    house = House()
    reports: list[dict[str, Any]] = []
    house.broker.on_journey = lambda _account, _destination, content: reports.append(content)
    client = house.client(headers=True)
    client.send(b"SUB foo 1\r\n")
    block = b"NATS/1.0\r\nNats-Trace-Dest: t\r\nB\xff: v\xfe\r\n\r\n"
    client.send(b"HPUB foo %d %d\r\n%s\r\n" % (len(block), len(block), block))
    assert client.reason == ""
    written = json.loads(msgspec.json.encode(reports[0]))
    assert written["request"]["header"] == {"Nats-Trace-Dest": ["t"], "B\ufffd": ["v\ufffd"]}
