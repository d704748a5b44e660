"""`tidelog stream view` and `get`: messages of a stream, from any point, in either direction."""

import base64
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from tidelog.base.instant import instant_ns, read_instant
from tidelog.cli import output
from tidelog.cli.jetstream import BEFORE, json_option, opened
from tidelog.cli.target import connection_options
from tidelog.client.jetstream import StoredMessage, StreamReader
from tidelog.client.jetstream.read import find_message

TRANSLATE_TIMEOUT_S = 10.0


@click.command()
@click.argument("name", metavar="STREAM")
@click.argument("size", default=10, type=click.IntRange(1, 10_000))
@click.option("--reverse", "-R", is_flag=True, help="Newest first.")
@click.option("--id", "seq", type=click.IntRange(min=1), help="From this sequence on.")
@click.option("--since", "since", type=BEFORE, help="From a time on, or from so long ago (1h30m, 2d).")
@click.option("--until", "until", type=BEFORE, help="Up to a time, or so long ago.")
@click.option("--subject", default="", help="Messages of this subject only (wildcards may be in it).")
@click.option("--all", "everything", is_flag=True, help="All pages, without asking.")
@click.option("--raw", is_flag=True, help="Payloads only.")
@click.option("--translate", default="", metavar="COMMAND", help="Show payloads as this command writes them.")
@json_option
@connection_options
def view(
    name: str,
    size: int,
    reverse: bool,
    seq: int | None,
    since: str | None,
    until: str | None,
    subject: str,
    everything: bool,
    raw: bool,
    translate: str,
    as_json: bool,
) -> None:
    """Show messages, SIZE at a time: oldest first, or newest first with --reverse.

    Where nobody can be asked for the next page, one is shown (or all of them with --all). In JSON each message
    is a line.
    """
    if seq is not None and (since or until) and not reverse:
        raise click.UsageError("--id and a time exclude each other.")
    with opened() as js:
        messages = chosen(StreamReader(js, name, subject=subject), reverse, seq, since, until, size)
        shown = 0
        while page := list(islice(messages, size)):
            for message in page:
                output.write(line_of(message, raw=raw, as_json=as_json, translate=translate))
            output.flush()
            shown += len(page)
            if len(page) < size or not (everything or wants_more()):
                return
        if not (shown or raw or as_json):
            output.remark(f"{name} has no such messages")


def chosen(
    reader: StreamReader, reverse: bool, seq: int | None, since: str | None, until: str | None, size: int
) -> Iterator[StoredMessage]:
    if not reverse:
        last_ns = instant_ns(until) if until else None
        for message in reader.forward(seq=seq or 1, start_time=since or "", page_count=size):
            if last_ns is not None and time_ns(message) > last_ns:
                return
            yield message
        return
    first_ns = instant_ns(since) if since else 0
    for message in reader.backward(seq=seq, end_time=until or "", page_count=size):
        if time_ns(message) < first_ns:
            return
        yield message


def time_ns(message: StoredMessage) -> int:
    return instant_ns(read_instant(message.time))


def wants_more() -> bool:
    """Another page: only somebody at a terminal can say."""
    return sys.stdin.isatty() and sys.stdout.isatty() and click.confirm("Next page?", default=True, err=True)


@click.command()
@click.argument("name", metavar="STREAM")
@click.argument("seq", type=click.IntRange(min=1), required=False)
@click.option("--last-for", "-S", "last_for", default="", metavar="SUBJECT", help="The last one on it.")
@click.option(
    "--translate", default="", metavar="COMMAND", help="Show the payload as this command writes it."
)
@json_option
@connection_options
def get(name: str, seq: int | None, last_for: str, translate: str, as_json: bool) -> None:
    """Show one message, by its sequence or as the last one on a subject."""
    if bool(seq) == bool(last_for):
        raise click.UsageError("Which message? Give SEQ, or --last-for SUBJECT.")
    with opened() as js:
        js.stream_info(name)
        message = find_message(js, name, seq=seq or 0, last_for=last_for)
    if as_json:
        output.write_json(document_of(message))
    else:
        output.write(line_of(message, raw=False, as_json=False, translate=translate))
        output.flush()


def line_of(message: StoredMessage, *, raw: bool, as_json: bool, translate: str) -> bytes:
    if as_json:
        return json.dumps(document_of(message)).encode() + b"\n"
    payload = translated(message, translate) if translate else message.payload
    if raw:
        return payload + b"\n"
    lines = [f"[{message.seq}] Subject: {message.subject} Received: {message.time}"]
    lines += [f"{name}: {value}" for name, values in message.headers.items() for value in values]
    head = "\n".join(lines).encode("utf-8", "surrogateescape")
    return head + b"\n\n" + (payload if payload.endswith(b"\n") else payload + b"\n") + b"\n"


def document_of(message: StoredMessage) -> dict[str, Any]:
    """`seq`, `time`, `subject`, `headers`, and `payload`, or `payload_base64` when it is no text."""
    found: dict[str, Any] = {"seq": message.seq, "time": message.time, "subject": message.subject}
    if message.headers:
        found["headers"] = message.headers
    try:
        found["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        found["payload_base64"] = base64.b64encode(message.payload).decode()
    return found


def translated(message: StoredMessage, command: str) -> bytes:
    """What a command makes of a payload; `{{Subject}}` in it is the subject. No shell is involved."""
    words = [word.replace("{{Subject}}", message.subject) for word in shlex.split(command)]
    try:
        done = subprocess.run(
            words, input=message.payload, capture_output=True, timeout=TRANSLATE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise click.ClickException(f"--translate {command}: {error}") from error
    return done.stdout
