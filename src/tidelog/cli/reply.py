"""`tidelog reply`: a service from the command line, answering with a body, an echo, or what a command prints.

The command is run without a shell: its words are cut as a shell would, and what a request says (its subject's
tokens as {{0}}, {{1}}, its body as {{Request}}) is put into single words afterwards, so that no request can
add a word or a command.
"""

import os
import random
import shlex
import subprocess
import time

import click

from tidelog.cli import output, template
from tidelog.cli.duration import DURATION
from tidelog.cli.target import connection_options, current_target
from tidelog.client.message import Message

DEFAULT_QUEUE = "NATS-RPLY-22"


@click.command()
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", is_flag=True, help="Answer with what was asked; the default without BODY.")
@click.option("--command", help="Run this and answer with its output.")
@click.option("--queue", "-q", default=DEFAULT_QUEUE, show_default=True, help="Queue group to join.")
@click.option("--sleep", default=0.0, type=DURATION, metavar="MAX", help="Wait a random time up to this.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME:VALUE", help="A header; repeatable.")
@click.option("--count", default=0, type=click.IntRange(min=0), help="End after so many requests.")
@connection_options
def reply(
    subject: str,
    body: str | None,
    echo: bool,
    command: str | None,
    queue: str,
    sleep: float,
    headers: tuple[str, ...],
    count: int,
) -> None:
    """Answer requests on SUBJECT, until interrupted.

    BODY and headers may hold what `pub` knows, and {{Request}}. A command may, too, with {{0}}, {{1}} ... for
    the tokens of the subject; NATS_REQUEST_SUBJECT and NATS_REQUEST_BODY are in its environment.
    """
    words = shlex.split(command) if command else []
    echo = echo or (body is None and not words)
    with current_target().connect() as connection:
        subscription = connection.subscribe(subject, queue)
        if count:
            subscription.unsubscribe(count)
        connection.flush()
        output.remark(f'Listening on "{subject}" in group "{queue}"')
        for number, message in enumerate(subscription, 1):
            output.remark(f'[#{number}] Received on subject "{message.subject}":')
            output.write(output.body_lines(message))
            output.flush()
            if sleep:
                time.sleep(random.uniform(0, sleep))
            named = output.parse_headers(headers, number)
            if echo:
                named = {**message.headers, **named}
            if message.reply:
                message.respond(_answer(message, number, body, words, echo=echo), headers=named or None)
        connection.flush()


def _answer(message: Message, number: int, body: str | None, words: list[str], *, echo: bool) -> bytes:
    if echo:
        return message.payload
    request = message.payload.decode("utf-8", "surrogateescape")
    if words:
        return _run([_fill(word, message.subject, number, request) for word in words], message)
    return template.fill(body or "", number, request).encode("utf-8", "surrogateescape")


def _fill(word: str, subject: str, number: int, request: str) -> str:
    for index, token in enumerate(subject.split(".")):
        word = word.replace(f"{{{{{index}}}}}", token)
    return template.fill(word, number, request)


def _run(words: list[str], message: Message) -> bytes:
    """What the command prints; what is wrong with it goes to standard error, and its output to the asker."""
    environment = {
        **os.environ,
        "NATS_REQUEST_SUBJECT": message.subject,
        "NATS_REQUEST_BODY": message.payload.replace(b"\0", b"").decode("utf-8", "surrogateescape"),
    }
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except (OSError, ValueError) as error:
        output.remark(f"Command {words[0]!r} cannot run: {error}")
        return b""
    if done.returncode:
        output.remark(f"Command {words[0]!r} ended with code {done.returncode}")
    return done.stdout
