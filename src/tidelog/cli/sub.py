"""`tidelog sub`: show messages as they come."""

import click

from tidelog.base.errors import Timeout
from tidelog.cli import output
from tidelog.cli.target import connection_options, current_target
from tidelog.client.message import Message
from tidelog.client.subscription import Subscription

# Messages taken at a time: output is flushed when no more are there.
BATCH_COUNT = 1024
# An interrupt that comes just before a wait begins is noticed only when the wait ends.
WAIT_S = 1.0


@click.command()
@click.argument("subject", required=False)
@click.option("--queue", default="", help="Join this queue group.")
@click.option("--count", default=0, type=click.IntRange(min=0), help="End after so many messages.")
@click.option("--raw", "-r", is_flag=True, help="Payloads only, one line end behind each.")
@click.option("--headers-only", is_flag=True, help="Headers without payloads.")
@click.option("--inbox", "-i", is_flag=True, help="Subscribe to a new inbox.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line.")
@connection_options
def sub(
    subject: str | None, queue: str, count: int, raw: bool, headers_only: bool, inbox: bool, as_json: bool
) -> None:
    """Subscribe to SUBJECT and show what comes, until interrupted."""
    if not subject and not inbox:
        raise click.UsageError("SUBJECT is missing (or --inbox).")
    with current_target().connect() as connection:
        subscription = connection.subscribe(subject or connection.new_inbox(), queue)
        if count:
            subscription.unsubscribe(count)
        connection.flush()
        if inbox or not (raw or as_json):
            output.remark(f"Subscribing on {subscription.subject}")
        seen = 0
        while not count or seen < count:
            for message in _batch(subscription):
                seen += 1
                output.write(_shown(message, seen, raw=raw, headers_only=headers_only, as_json=as_json))
            if not subscription.pending:
                output.flush()
                _tell_drops(subscription)
    output.flush()


def _batch(subscription: Subscription) -> list[Message]:
    """What has come; empty when nothing did for a while."""
    try:
        return subscription.next_batch(BATCH_COUNT, WAIT_S)
    except Timeout:
        return []


def _shown(message: Message, number: int, *, raw: bool, headers_only: bool, as_json: bool) -> bytes:
    if as_json:
        return output.json_line(message)
    if raw:
        return message.payload + b"\n"
    reply = f' with reply "{message.reply}"' if message.reply else ""
    first = f'[#{number}] Received on "{message.subject}"{reply}\n'.encode("utf-8", "surrogateescape")
    return first + output.body_lines(message, headers_only=headers_only)


def _tell_drops(subscription: Subscription) -> None:
    if subscription.dropped:
        output.remark(f"{subscription.dropped:,} messages dropped: output is too slow")
        subscription.dropped = 0
