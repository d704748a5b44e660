"""`tidelog pub`: publish messages from the command line or from standard input."""

import itertools
import sys
import time
from collections.abc import Iterable, Iterator

import click

from tidelog.cli import output, template
from tidelog.cli.duration import DURATION
from tidelog.cli.target import connection_options, current_target

# Beyond this many a line per message is no longer of use.
SHOWN_COUNT_MAX = 20


def stdin_bodies(send_on: str) -> Iterator[bytes]:
    """Standard input as one body, or as one per line."""
    if sys.stdin.isatty():
        output.remark("Reading payload from STDIN")
    if send_on == "newline":
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
    else:
        yield sys.stdin.buffer.read()


def numbers(count: int) -> Iterable[int]:
    """1 to `count`, or without end for 0."""
    return range(1, count + 1) if count else itertools.count(1)


def filled(body: bytes, number: int, *, templates: bool) -> bytes:
    """The body of this message. One that is no text holds no templates."""
    if not templates or b"{{" not in body:
        return body
    text = body.decode("utf-8", "surrogateescape")
    return template.fill(text, number).encode("utf-8", "surrogateescape")


@click.command()
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--reply", default="", help="Subject for replies.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME:VALUE", help="A header; repeatable.")
@click.option(
    "--count", default=1, show_default=True, type=click.IntRange(min=0), help="How many; 0: no end."
)
@click.option("--sleep", default=0.0, type=DURATION, help="Pause between messages.")
@click.option("--force-stdin", is_flag=True, help="Take the body from standard input even if one is given.")
@click.option("--send-on", default="eof", type=click.Choice(["eof", "newline"]), help="When to send input.")
@click.option("--quiet", "-q", is_flag=True, help="No remarks.")
@click.option("--templates/--no-templates", default=True, help="Fill {{Count}} and its like in the body.")
@connection_options
def pub(
    subject: str,
    body: str | None,
    reply: str,
    headers: tuple[str, ...],
    count: int,
    sleep: float,
    force_stdin: bool,
    send_on: str,
    quiet: bool,
    templates: bool,
) -> None:
    """Publish BODY to SUBJECT; without BODY what standard input gives.

    Body and headers may hold {{Count}}, {{TimeStamp}}, {{Time}}, {{Unix}}, {{UnixNano}}, {{ID}}, {{UUID}} and
    {{Random 10 100}}.
    """
    bodies = iter([body.encode("utf-8", "surrogateescape")]) if body is not None and not force_stdin else None
    published = 0
    with current_target().connect() as connection:
        for source in bodies or stdin_bodies(send_on):
            for number in numbers(count):
                if published and sleep:
                    time.sleep(sleep)
                payload = filled(source, number, templates=templates)
                named = output.parse_headers(headers, number) if headers else None
                connection.publish(template.fill(subject, number), payload, reply=reply, headers=named)
                published += 1
                if sleep or (send_on == "newline" and bodies is None):
                    connection.flush()
                if not quiet and (count <= SHOWN_COUNT_MAX) and count:
                    output.remark(f'Published {len(payload)} bytes to "{subject}"')
        connection.flush()
    if not quiet and count > SHOWN_COUNT_MAX:
        output.remark(f'Published {published:,} messages to "{subject}"')
