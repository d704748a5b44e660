"""`tidelog req`: send requests and show the replies."""

import time

import click

from tidelog.base.errors import NoResponders, Timeout
from tidelog.cli import duration, output, template
from tidelog.cli.duration import DURATION
from tidelog.cli.pub import filled, numbers, stdin_bodies
from tidelog.cli.target import connection_options, current_target
from tidelog.client.connection import Connection
from tidelog.client.message import Message
from tidelog.wire.header import Headers


@click.command()
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--replies", default=1, show_default=True, type=click.IntRange(min=0), help="0: until timeout.")
@click.option("--reply-timeout", default="300ms", show_default=True, type=DURATION, help="Between replies.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME:VALUE", help="A header; repeatable.")
@click.option("--count", default=1, show_default=True, type=click.IntRange(min=1), help="How many requests.")
@click.option("--sleep", default=0.0, type=DURATION, help="Pause between requests.")
@click.option("--raw", "-r", is_flag=True, help="Payloads only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per reply and line.")
@click.option("--templates/--no-templates", default=True, help="Fill {{Count}} and its like in the body.")
@connection_options
def req(
    subject: str,
    body: str | None,
    replies: int,
    reply_timeout: float,
    headers: tuple[str, ...],
    count: int,
    sleep: float,
    raw: bool,
    as_json: bool,
    templates: bool,
) -> None:
    """Send BODY (or standard input) to SUBJECT and show what is answered.

    Fails when nobody listens or nobody answers in time.
    """
    quiet = raw or as_json
    target = current_target()
    source = body.encode("utf-8", "surrogateescape") if body is not None else next(stdin_bodies("eof"))
    with target.connect() as connection:
        for number in numbers(count):
            if number > 1 and sleep:
                time.sleep(sleep)
            named = output.parse_headers(headers, number)
            asked = template.fill(subject, number)
            if not quiet:
                output.remark(f'Sending request on "{asked}"')
            payload = filled(source, number, templates=templates)
            asking = Asking(connection, asked, payload, named, target.timeout_s, reply_timeout)
            for message, rtt_s in asking.replies(replies):
                output.write(_shown(message, rtt_s, raw=raw, as_json=as_json))
                output.flush()


class Asking:
    """One request and its replies."""

    def __init__(
        self,
        connection: Connection,
        subject: str,
        payload: bytes,
        headers: Headers,
        timeout_s: float,
        between_s: float,
    ) -> None:
        self.inbox = connection.subscribe(reply := connection.new_inbox())
        self.subject = subject
        self.timeout_s = timeout_s
        self.between_s = between_s
        connection.publish(subject, payload, reply=reply, headers=headers)
        self.start = time.perf_counter()

    def replies(self, wanted: int) -> list[tuple[Message, float]]:
        """Up to `wanted` replies with their time; 0: all that come in time. Raises when there is none."""
        found: list[tuple[Message, float]] = []
        while not wanted or len(found) < wanted:
            patience_s = self.timeout_s - self._elapsed_s()
            if found and wanted:
                patience_s = min(patience_s, self.between_s)
            try:
                message = self.inbox.next(patience_s)
            except Timeout:
                break
            if message.is_no_responders:
                raise NoResponders(f"nobody listens to {self.subject!r}")
            found.append((message, self._elapsed_s()))
        self.inbox.unsubscribe()
        if not found:
            raise Timeout(f"no reply from {self.subject!r} within {duration.show(self.timeout_s)}")
        return found

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self.start


def _shown(message: Message, rtt_s: float, *, raw: bool, as_json: bool) -> bytes:
    if as_json:
        return output.json_line(message, rtt_ns=int(rtt_s * 1e9))
    if raw:
        return message.payload + b"\n"
    output.remark(f"Received with rtt {duration.show(rtt_s)}")
    return output.body_lines(message)
