"""The tree of commands, and what happens to an error on its way to the user.

Each command lives in a module that is imported when it is used; the tree knows only its name and one line
about it. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 nobody reads our output.
"""

import importlib
import os
import sys
from collections.abc import Sequence

import click

import tidelog
from tidelog.base.errors import TidelogError
from tidelog.cli.target import connection_options

FAILED = 1
INTERRUPTED = 130
BROKEN_PIPE = 141
# Set by a shell that asks what a word could become: `eval "$(_TIDELOG_COMPLETE=bash_source tidelog)"`.
COMPLETION = "_TIDELOG_COMPLETE"

# Name: where it is, what it does.
COMMANDS = {
    "serve": ("", "Run the server; takes nats-server's flags."),
    "pub": ("tidelog.cli.pub:pub", "Publish messages."),
    "sub": ("tidelog.cli.sub:sub", "Subscribe and show messages."),
    "req": ("tidelog.cli.req:req", "Send requests and show the replies."),
    "reply": ("tidelog.cli.reply:reply", "Answer requests."),
    "stream": ("tidelog.cli.stream:stream", "Manage streams, and see what is in them."),
    "consumer": ("tidelog.cli.consumer:consumer", "Manage consumers, and take messages from them."),
    "kv": ("tidelog.cli.kv:kv", "Manage key-value buckets, and what is in them."),
    "object": ("tidelog.cli.object_store:object_store", "Manage object stores, and what is in them."),
    "rtt": ("tidelog.cli.rtt:rtt", "Measure round trips to servers."),
    "top": ("tidelog.cli.top:top", "Watch a server: rates and connections."),
    "context": ("tidelog.cli.context:context", "Manage named ways to reach servers."),
    "drop-in": ("tidelog.cli.dropin:drop_in", "Print a directory that holds us as `nats-server`."),
    "demo": ("tidelog.cli.demo:demo", "Show a server at work."),
    "export": ("tidelog.cli.export:export", "Write a stream, or a range of it, into Parquet files."),
    "fsck": ("tidelog.cli.fsck:fsck", "Check a log that is stored, and repair it."),
    "inspect": ("tidelog.cli.inspect:inspect", "Show what is in a file of a log."),
    "pipeline": ("tidelog.cli.pipeline:pipeline", "Run jobs: archive, replay, report, compact."),
    "bench": ("tidelog.cli.bench:bench", "Put load on servers, and compare them."),
}
ALIASES = {
    "publish": "pub",
    "subscribe": "sub",
    "request": "req",
    "ctx": "context",
    "str": "stream",
    "con": "consumer",
    "obj": "object",
}


class Tree(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        place, _ = COMMANDS.get(ALIASES.get(name, name), ("", ""))
        if not place:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.command(cls=Tree, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(tidelog.__version__, message="tidelog %(version)s")
@connection_options
def tree() -> None:
    """Tidelog: a message-streaming server that speaks NATS, and the commands to use it with."""


def run(arguments: Sequence[str]) -> int:
    """Run one command. The exit code."""
    if COMPLETION in os.environ:
        tree.main(list(arguments), prog_name="tidelog")
    try:
        # `Command.main` would turn a broken pipe into exit code 1.
        with tree.make_context("tidelog", list(arguments)) as context:
            code = tree.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as exit:
        return exit.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more at its end; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (TidelogError, OSError, ValueError) as error:
        click.echo(f"tidelog: {error}", err=True)
        return FAILED
    return code if isinstance(code, int) else 0
