"""Messages on the way to people and to programs. Data goes to standard output, remarks to standard error."""

import base64
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import click

from tidelog.client.message import Message
from tidelog.wire.header import Headers


def remark(text: str) -> None:
    """For people, with the time before it."""
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def write(data: bytes) -> None:
    """Exact bytes to standard output, buffered."""
    sys.stdout.buffer.write(data)


def flush() -> None:
    sys.stdout.buffer.flush()


def write_json(document: Any) -> None:
    write(json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n")
    flush()


def json_line(message: Message, **more: Any) -> bytes:
    """One message as one line.

    Keys: `subject`, `reply`, `headers`, and `payload`, or `payload_base64` when it is no text.
    """
    document: dict[str, Any] = {"subject": message.subject, **more}
    if message.reply:
        document["reply"] = message.reply
    if message.header_block:
        document["headers"] = message.headers
        if message.status:
            document["status"] = message.status
    try:
        document["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        document["payload_base64"] = base64.b64encode(message.payload).decode()
    return json.dumps(document).encode() + b"\n"


def body_lines(message: Message, *, headers_only: bool = False) -> bytes:
    """Headers, a blank line, the payload, a blank line."""
    lines = _header_lines(message.headers) if message.header_block else b""
    if headers_only:
        return lines + b"\n"
    payload = message.payload if message.payload.endswith(b"\n") else message.payload + b"\n"
    return (lines + b"\n" if lines else b"") + payload + b"\n"


def _header_lines(headers: Headers) -> bytes:
    text = "".join(f"{name}: {value}\n" for name, values in headers.items() for value in values)
    return text.encode("utf-8", "surrogateescape")


def parse_headers(texts: Iterable[str], count: int = 1) -> Headers:
    """`Name:value` flags, templates filled in. Raises a usage error."""
    from tidelog.cli import template

    headers: Headers = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME:VALUE", param_hint="--header")
        headers.setdefault(name.strip(), []).append(template.fill(value.strip(), count))
    return headers
