"""`tidelog stream add`, `edit` and `copy`: what a stream is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tidelog.cli import output
from tidelog.cli.field import Field, Function, differences, given, merged, options
from tidelog.cli.jetstream import (
    DURATION_NS,
    PAIR,
    SIZE,
    confirm,
    console,
    json_option,
    opened,
    plain,
    read_config,
    table,
)
from tidelog.cli.target import connection_options
from tidelog.client.jetstream import StreamInfo

STORAGES = {"file": "file", "f": "file", "memory": "memory", "m": "memory"}
RETENTIONS = {"limits": "limits", "interest": "interest", "work": "workqueue", "workq": "workqueue"}
PERSIST_MODES = {"default": "default", "async": "async"}
SYNCS = ("strict", "durable", "balanced", "throughput")

FIELDS = (
    Field("--subjects", "subjects", "Subjects that are stored; may be repeated, or have commas.", several=True),
    Field("--description", "description", "What it is for."),
    Field("--storage", "storage", "Where messages are.", names=STORAGES, when="add"),
    Field("--retention", "retention", "What keeps messages.", names=RETENTIONS, when="add"),
    Field("--discard", "discard", "What goes when it is full.", click.Choice(["old", "new"])),
    Field("--discard-per-subject", "discard_new_per_subject", "Discard `new` for each subject.", bool),
    Field("--max-msgs", "max_msgs", "Messages at most.", int),
    Field("--max-msgs-per-subject", "max_msgs_per_subject", "Messages of a subject at most.", int),
    Field("--max-bytes", "max_bytes", "Bytes at most.", SIZE),
    Field("--max-age", "max_age", "Age of messages at most.", DURATION_NS),
    Field("--max-msg-size", "max_msg_size", "Size of a message at most.", SIZE),
    Field("--max-consumers", "max_consumers", "Consumers at most.", int),
    Field("--dupe-window", "duplicate_window", "How long message ids are known.", DURATION_NS),
    Field("--replicas", "num_replicas", "Copies, in a cluster.", int),
    Field("--compression", "compression", "Of files.", click.Choice(["none", "s2"])),
    Field("--first-sequence", "first_seq", "Sequence of the first message.", int, when="add"),
    Field("--allow-direct", "allow_direct", "Direct gets.", bool),
    Field("--allow-mirror-direct", "mirror_direct", "Direct gets from mirrors.", bool),
    Field("--allow-rollup", "allow_rollup_hdrs", "Messages that replace all before them.", bool),
    Field("--deny-delete", "deny_delete", "No deleting of messages.", bool),
    Field("--deny-purge", "deny_purge", "No purging.", bool),
    Field("--allow-msg-ttl", "allow_msg_ttl", "Messages with a time to live.", bool),
    Field("--subject-del-markers-ttl", "subject_delete_marker_ttl", "Markers where values end.", DURATION_NS),
    Field("--allow-batch", "allow_atomic", "Atomic batches.", bool),
    Field("--allow-fast", "allow_batched", "Fast batches.", bool),
    Field("--allow-counter", "allow_msg_counter", "Messages that count.", bool),
    Field("--allow-schedules", "allow_msg_schedules", "Messages that are stored later.", bool),
    Field("--persist-mode", "persist_mode", "`async` acknowledges first.", names=PERSIST_MODES, when="add"),
    Field("--limit-consumer-inactive", "consumer_limits.inactive_threshold", "Of consumers, at most.", DURATION_NS),
    Field("--limit-consumer-max-pending", "consumer_limits.max_ack_pending", "Of consumers, at most.", int),
    Field("--transform-source", "subject_transform.src", "Subjects that are changed."),
    Field("--transform-destination", "subject_transform.dest", "What they become."),
    Field("--republish-source", "republish.src", "Subjects that are published again."),
    Field("--republish-destination", "republish.dest", "Where they are."),
    Field("--republish-headers", "republish.headers_only", "Without payloads.", bool),
    Field("--metadata", "metadata", "Anything; may be repeated.", PAIR, several=True),
)  # fmt: skip

more_options = (
    click.option("--ack/--no-ack", "ack", default=None, help="Acknowledge what is published."),
    click.option(
        "--sync", type=click.Choice(SYNCS), help="Tidelog: when files are synced, and what an ack means."
    ),
    click.option("--mirror", metavar="STREAM", help="Be a copy of that stream."),
    click.option(
        "--source", "sources", metavar="STREAM", multiple=True, help="Take messages from there, too."
    ),
    click.option(
        "--config", "config_path", type=click.Path(dir_okay=False), help="JSON file with the configuration."
    ),
)


def config_flags(when: str) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed(more_options):
            function = option(function)
        return options(FIELDS, when)(function)

    return decorate


def flagged(flags: dict[str, Any]) -> dict[str, Any]:
    """What the flags say, over the file's."""
    changes = given(FIELDS, flags)
    if flags["ack"] is not None:
        changes["no_ack"] = not flags["ack"]
    if flags["sync"]:
        changes.setdefault("metadata", {})["tidelog.sync"] = flags["sync"]
    if flags["mirror"]:
        changes["mirror"] = {"name": flags["mirror"]}
    if flags["sources"]:
        changes["sources"] = [{"name": name} for name in flags["sources"]]
    return merged(read_config(flags["config_path"]), changes) if flags["config_path"] else changes


@click.command()
@click.argument("name", metavar="STREAM", required=False)
@config_flags("add")
@click.option(
    "--output", "output_path", type=click.Path(dir_okay=False), help="Write the configuration there instead."
)
@click.option("--defaults", is_flag=True, help="Nothing is asked in any case; known to the `nats` command.")
@json_option
@connection_options
def add(name: str | None, output_path: str | None, defaults: bool, as_json: bool, **flags: Any) -> None:  # noqa: ARG001
    """Make a stream."""
    config = flagged(flags)
    config["name"] = name or config.get("name")
    if not config["name"]:
        raise click.UsageError("STREAM is missing.")
    if not (config.get("subjects") or config.get("mirror") or config.get("sources")):
        raise click.UsageError("What does it store? Give --subjects, --mirror, --source or --config.")
    if "mirror" not in config:
        config.setdefault("allow_direct", True)
    if output_path:
        Path(output_path).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        return
    with opened() as js:
        made = js.create_stream(config)
    show(made, as_json=as_json)


@click.command()
@click.argument("name", metavar="STREAM")
@config_flags("edit")
@click.option("--no-mirror", is_flag=True, help="Be a stream of its own.")
@click.option("--no-republish", is_flag=True, help="Publish nothing again.")
@click.option("--no-transform", is_flag=True, help="Change no subjects.")
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@click.option("--force", "-f", is_flag=True, help="Do not ask.")
@json_option
@connection_options
def edit(
    name: str,
    no_mirror: bool,
    no_republish: bool,
    no_transform: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Change the configuration of a stream."""
    with opened() as js:
        before = js.stream_info(name).config
        after = merged(before, flagged(flags))
        for unwanted, key in (
            (no_mirror, "mirror"),
            (no_republish, "republish"),
            (no_transform, "subject_transform"),
        ):
            if unwanted:
                after.pop(key, None)
        if not tell_differences(before, after, as_json=as_json) or dry_run:
            return
        confirm(f"Change stream {name}", force=force)
        show(js.update_stream(after), as_json=as_json)


def tell_differences(before: dict[str, Any], after: dict[str, Any], *, as_json: bool) -> bool:
    """Whether there are any."""
    found = differences(before, after)
    if as_json:
        return bool(found)
    if not found:
        click.echo("Nothing changes: give flags for what should.")
        return False
    made = table("Changes", ["Field", "Before", "After"])
    for key, old, new in found:
        made.add_row(key, "" if old is None else plain(old), "" if new is None else plain(new))
    console().print(made)
    return True


@click.command()
@click.argument("source", metavar="SOURCE")
@click.argument("name", metavar="STREAM")
@config_flags("add")
@json_option
@connection_options
def copy(source: str, name: str, as_json: bool, **flags: Any) -> None:
    """Make a stream with the configuration of another, and without its messages."""
    with opened() as js:
        config = merged(js.stream_info(source).config, {**flagged(flags), "name": name})
        show(js.create_stream(config), as_json=as_json)


def show(info: StreamInfo, *, as_json: bool) -> None:
    if as_json:
        output.write_json(info.document)
        return
    from tidelog.cli.stream import show_info

    show_info(info, as_json=False)
