"""`tidelog stream`: streams, with the nouns, verbs and flags of the `nats` command."""

from collections.abc import Callable
from typing import Any

import click

from tidelog.base.errors import ClientError
from tidelog.cli import output
from tidelog.cli.jetstream import (
    age_text,
    confirm,
    console,
    force_option,
    json_option,
    limit_text,
    opened,
    sections,
    size_text,
    span_text,
    table,
)
from tidelog.cli.stream_backup import backup, restore
from tidelog.cli.stream_config import add, copy, edit
from tidelog.cli.stream_view import get, view
from tidelog.cli.target import connection_options
from tidelog.cli.tree import Nouns
from tidelog.client.jetstream import JetStream, StreamInfo
from tidelog.client.jetstream.own import ColdSource, log_info

SYSTEM_PREFIXES = ("KV_", "OBJ_", "MQTT_", "$")
SORTS: dict[str, Callable[[StreamInfo], Any]] = {
    "name": lambda info: info.name,
    "messages": lambda info: info.state.messages,
    "consumers": lambda info: info.state.consumer_count,
    "storage": lambda info: (info.config["storage"], info.name),
    "bytes": lambda info: info.state.bytes,
}


@click.group(
    cls=Nouns,
    aliases={
        "create": "add", "new": "add", "list": "ls", "l": "ls", "nfo": "info", "i": "info", "update": "edit",
        "delete": "rm", "del": "rm", "snapshot": "backup", "cp": "copy", "subj": "subjects",
    },
)  # fmt: skip
def stream() -> None:
    """Manage streams, and see what is in them."""


for command in (add, edit, copy, view, get, backup, restore):
    stream.add_command(command)


@stream.command(name="ls")
@click.option("--subject", default="", help="Those that store this subject (wildcards may be in it).")
@click.option("--names", "-n", is_flag=True, help="Names only.")
@click.option("--all", "-a", "everything", is_flag=True, help="Those of buckets and object stores, too.")
@json_option
@connection_options
def list_streams(subject: str, names: bool, everything: bool, as_json: bool) -> None:
    """List the streams."""
    with opened() as js:
        found = sorted(js.streams(subject), key=SORTS["name"])
    shown = [info for info in found if everything or not info.name.startswith(SYSTEM_PREFIXES)]
    if as_json:
        output.write_json([info.name if names else info.document for info in shown])
        return
    if names:
        for info in shown:
            click.echo(info.name)
        return
    if not shown:
        left_out = f"; {len(found)} of buckets: --all shows them" if found else ""
        click.echo(f"No streams{left_out}. `tidelog stream add` makes one.")
        return
    made = table("", ["Name", "Description", "Created"], ["Messages", "Size", "Last message"])
    for info in shown:
        state = info.state
        cells = (info.name, info.config.get("description", ""), info.created[:19].replace("T", " "))
        last = age_text(state.last_ts).partition(" (")[0] or "never"
        made.add_row(*cells, f"{state.messages:,}", size_text(state.bytes), last)
    console().print(made)


@stream.command()
@click.argument("name", metavar="STREAM")
@click.option("--state", "state_only", is_flag=True, help="The state only.")
@json_option
@connection_options
def info(name: str, state_only: bool, as_json: bool) -> None:
    """Show configuration and state of a stream."""
    with opened() as js:
        found = js.stream_info(name)
        cold = None if as_json else _cold(js, name)
    show_info(found, as_json=as_json, state_only=state_only, cold=cold)


@stream.command()
@click.argument("name", metavar="STREAM")
@json_option
@connection_options
def state(name: str, as_json: bool) -> None:
    """Show the state of a stream."""
    with opened() as js:
        found = js.stream_info(name)
    show_info(found, as_json=as_json, state_only=True)


def _cold(js: JetStream, name: str) -> ColdSource | None:
    """What of it is in the cold tier; None: the server has none, or is another."""
    try:
        return log_info(js, name).cold
    except ClientError:
        return None


def show_info(
    info: StreamInfo, *, as_json: bool, state_only: bool = False, cold: ColdSource | None = None
) -> None:
    if as_json:
        output.write_json(info.document["state"] if state_only else info.document)
        return
    parts = {"State": _state(info)}
    if cold is not None:
        parts["Cold tier"] = {
            "There only": f"{cold.messages:,} messages, {size_text(cold.bytes)}",
            "Not there yet": size_text(cold.lag_bytes),
            "Place": cold.url,
            "Failing": cold.failing or None,
        }
    if not state_only:
        parts = {"Configuration": _configuration(info), "Limits": _limits(info.config), **parts}
    console().print(sections(f"Stream {info.name}, made {info.created[:19].replace('T', ' ')}", parts))


def _configuration(info: StreamInfo) -> dict[str, Any]:
    config = info.config
    metadata = config.get("metadata") or {}
    return {
        "Description": config.get("description"),
        "Subjects": config.get("subjects"),
        "Storage": config["storage"],
        "Sync": metadata.get("tidelog.sync"),
        "Retention": config["retention"],
        "Acknowledgements": not config.get("no_ack", False),
        "Discard policy": config["discard"],
        "Duplicate window": span_text(config.get("duplicate_window", 0)),
        "Direct get": config.get("allow_direct"),
        "Deletes": not config.get("deny_delete"),
        "Purges": not config.get("deny_purge"),
        "Roll-ups": config.get("allow_rollup_hdrs"),
        "Message TTL": config.get("allow_msg_ttl") or None,
        "Delete markers": span_text(config.get("subject_delete_marker_ttl", 0)),
        "Batches": config.get("allow_atomic") or None,
        "Counters": config.get("allow_msg_counter") or None,
        "Schedules": config.get("allow_msg_schedules") or None,
        "Compression": config.get("compression") if config.get("compression") != "none" else None,
        "First sequence": config.get("first_seq"),
        "Sealed": config.get("sealed") or None,
        "Mirror of": (config.get("mirror") or {}).get("name"),
        "Sources": [source["name"] for source in config.get("sources") or []],
        "Transform": config.get("subject_transform"),
        "Republish": config.get("republish"),
        "Metadata": {key: value for key, value in metadata.items() if not key.startswith("_nats.")},
    }


def _limits(config: dict[str, Any]) -> dict[str, str]:
    return {
        "Messages": limit_text(config.get("max_msgs", -1)),
        "Per subject": limit_text(config.get("max_msgs_per_subject", -1)),
        "Bytes": size_text(config.get("max_bytes", -1)),
        "Age": span_text(config.get("max_age", 0)) or "unlimited",
        "Message size": size_text(config.get("max_msg_size", -1)),
        "Consumers": limit_text(config.get("max_consumers", -1)),
    }


def _state(info: StreamInfo) -> dict[str, Any]:
    state = info.state
    lost = state.lost
    return {
        "Messages": state.messages,
        "Bytes": size_text(state.bytes),
        "First sequence": f"{state.first_seq:,}  {age_text(state.first_ts)}".rstrip(),
        "Last sequence": f"{state.last_seq:,}  {age_text(state.last_ts)}".rstrip(),
        "Deleted": state.num_deleted or None,
        "Lost": f"{len(lost.msgs or []):,} messages, {size_text(lost.bytes)}" if lost else None,
        "Subjects": state.num_subjects,
        "Consumers": state.consumer_count,
        "Behind its origin": info.mirror.lag if info.mirror else None,
    }


@stream.command()
@click.argument("name", metavar="STREAM")
@click.argument("filter", default=">")
@click.option("--names", is_flag=True, help="Subjects only.")
@click.option("--sort", default="messages", type=click.Choice(["name", "messages"]), show_default=True)
@click.option("--reverse", "-R", is_flag=True, help="The other way round.")
@json_option
@connection_options
def subjects(name: str, filter: str, names: bool, sort: str, reverse: bool, as_json: bool) -> None:
    """List the subjects in a stream, with how many messages each has."""
    with opened() as js:
        found = js.stream_info(name, subjects_filter=filter).state.subjects or {}
    rows = sorted(found.items(), key=lambda row: row[0] if sort == "name" else (-row[1], row[0]))
    rows = rows[::-1] if reverse else rows
    if as_json:
        output.write_json([subject for subject, _ in rows] if names else dict(rows))
        return
    if names:
        for subject, _ in rows:
            click.echo(subject)
        return
    made = table(f"{len(rows):,} subjects in {name}", ["Subject"], ["Messages"])
    for subject, count in rows:
        made.add_row(subject, f"{count:,}")
    console().print(made)


@stream.command()
@click.option("--subject", default="", help="Those that store this subject.")
@click.option("--name", "-n", "order", flag_value="name", help="Sort by name.")
@click.option("--messages", "-m", "order", flag_value="messages", help="Sort by messages.")
@click.option("--consumers", "-o", "order", flag_value="consumers", help="Sort by consumers.")
@click.option("--storage", "-t", "order", flag_value="storage", help="Sort by storage.")
@click.option("--raw", "-r", is_flag=True, help="Plain numbers.")
@json_option
@connection_options
def report(subject: str, order: str | None, raw: bool, as_json: bool) -> None:
    """Show figures of all streams, those of buckets among them; sorted by size unless told otherwise."""
    with opened() as js:
        found = sorted(js.streams(subject), key=SORTS[order or "bytes"])
    if as_json:
        output.write_json([info.document for info in found])
        return
    numbers = ["Consumers", "Messages", "Bytes", "Lost", "Deleted", "Subjects"]
    made = table(f"{len(found)} streams", ["Stream", "Storage"], numbers)
    for info in found:
        state = info.state
        lost = len(state.lost.msgs or []) if state.lost else 0
        counts = (
            state.consumer_count,
            state.messages,
            state.bytes,
            lost,
            state.num_deleted,
            state.num_subjects,
        )
        cells = [str(count) if raw else f"{count:,}" for count in counts]
        cells[2] = cells[2] if raw else size_text(state.bytes)
        made.add_row(info.name, info.config["storage"], *cells)
    console().print(made)


@stream.command()
@click.argument("name", metavar="STREAM")
@force_option
@connection_options
def rm(name: str, force: bool) -> None:
    """Remove a stream and all that is in it."""
    confirm(f"Remove stream {name} with its messages and consumers", force=force)
    with opened() as js:
        js.delete_stream(name)


@stream.command()
@click.argument("name", metavar="STREAM")
@click.option("--subject", default="", help="Messages of this subject only (wildcards may be in it).")
@click.option("--seq", default=0, type=click.IntRange(min=0), help="Those before this sequence.")
@click.option("--keep", default=0, type=click.IntRange(min=0), help="All but the last so many.")
@force_option
@json_option
@connection_options
def purge(name: str, subject: str, seq: int, keep: int, force: bool, as_json: bool) -> None:
    """Remove messages from a stream."""
    if seq and keep:
        raise click.UsageError("--seq and --keep exclude each other.")
    what = f"messages of {subject}" if subject else "messages"
    confirm(f"Remove {what} from stream {name}", force=force)
    with opened() as js:
        purged = js.purge_stream(name, subject=subject, seq=seq, keep=keep)
        found = js.stream_info(name)
    if as_json:
        output.write_json({"purged": purged, "state": found.document["state"]})
    else:
        click.echo(f"{purged:,} messages removed from {name}, {found.state.messages:,} are left")


@stream.command()
@click.argument("name", metavar="STREAM")
@click.argument("seq", type=click.IntRange(min=1))
@force_option
@connection_options
def rmm(name: str, seq: int, force: bool) -> None:
    """Remove one message by its sequence, and erase what it said."""
    confirm(f"Remove message {seq} of stream {name}", force=force)
    with opened() as js:
        js.delete_message(name, seq)


@stream.command()
@click.argument("name", metavar="STREAM")
@force_option
@connection_options
def seal(name: str, force: bool) -> None:
    """Let nothing be stored in a stream, or removed from it, ever again."""
    confirm(f"Seal stream {name}, which cannot be undone", force=force)
    with opened() as js:
        found = js.update_stream({**js.stream_info(name).config, "sealed": True})
    show_info(found, as_json=False)
