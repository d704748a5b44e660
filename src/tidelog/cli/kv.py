"""`tidelog kv`: key-value buckets, with the nouns, verbs and flags of the `nats` command."""

import base64
import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from tidelog.cli import output
from tidelog.cli.field import Field, given, merged, options
from tidelog.cli.jetstream import (
    DURATION_NS,
    PAIR,
    SIZE,
    age_text,
    confirm,
    console,
    delete_from,
    force_option,
    json_option,
    opened,
    sections,
    size_text,
    span_text,
    table,
)
from tidelog.cli.stream_config import STORAGES, SYNCS
from tidelog.cli.target import connection_options
from tidelog.cli.tree import Nouns
from tidelog.client.jetstream import StreamInfo
from tidelog.client.jetstream.bucket import PUT, Bucket, Entry, bucket_config, buckets

FIELDS = (
    Field("--description", "description", "What it is for."),
    Field("--history", "max_msgs_per_subject", "Values kept of each key.", click.IntRange(1, 64)),
    Field("--storage", "storage", "Where values are.", names=STORAGES, when="add"),
    Field("--ttl", "max_age", "How long values are kept.", DURATION_NS),
    Field(
        "--marker-ttl",
        "subject_delete_marker_ttl",
        "Keys with a time to live, and their markers.",
        DURATION_NS,
    ),
    Field("--replicas", "num_replicas", "Copies, in a cluster.", int),
    Field("--max-value-size", "max_msg_size", "Size of a value at most.", SIZE),
    Field("--max-bucket-size", "max_bytes", "Size of the bucket at most.", SIZE),
    Field("--republish-source", "republish.src", "Subjects that are published again."),
    Field("--republish-destination", "republish.dest", "Where they are."),
    Field("--republish-headers", "republish.headers_only", "Without values.", bool),
    Field("--metadata", "metadata", "Anything; may be repeated.", PAIR, several=True),
)


@click.group(cls=Nouns, aliases={"new": "add", "rm": "del", "view": "info", "status": "info", "list": "ls"})
def kv() -> None:
    """Manage key-value buckets, and what is in them."""


bucket_argument = click.argument("bucket", metavar="BUCKET")
key_argument = click.argument("key", metavar="KEY")


@kv.command()
@bucket_argument
@options(FIELDS, "add")
@click.option("--compress/--no-compress", default=False, help="Compress files.")
@click.option("--mirror", metavar="BUCKET", help="Be a copy of that bucket.")
@click.option("--source", "sources", metavar="BUCKET", multiple=True, help="Take what is put there, too.")
@click.option(
    "--sync", type=click.Choice(SYNCS), help="Tidelog: when files are synced, and what an ack means."
)
@json_option
@connection_options
def add(
    bucket: str,
    compress: bool,
    mirror: str | None,
    sources: tuple[str, ...],
    sync: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Make a bucket."""
    config = bucket_config(bucket, **changed(flags, compress or None, sync))
    if mirror:
        config |= {"mirror": {"name": f"KV_{mirror}"}, "mirror_direct": True}
        del config["subjects"]
    if sources:
        config["sources"] = [
            {
                "name": f"KV_{name}",
                "subject_transforms": [{"src": f"$KV.{name}.>", "dest": f"$KV.{bucket}.>"}],
            }
            for name in sources
        ]
    with opened() as js:
        show_status(js.create_stream(config), as_json=as_json)


def changed(flags: dict[str, Any], compress: bool | None, sync: str | None) -> dict[str, Any]:
    config = given(FIELDS, flags)
    if compress is not None:
        config["compression"] = "s2" if compress else "none"
    if sync:
        config.setdefault("metadata", {})["tidelog.sync"] = sync
    if "subject_delete_marker_ttl" in config:
        config["allow_msg_ttl"] = True
    return config


@kv.command()
@bucket_argument
@options(FIELDS, "edit")
@click.option("--compress/--no-compress", default=None, help="Compress files.")
@json_option
@connection_options
def edit(bucket: str, compress: bool | None, as_json: bool, **flags: Any) -> None:
    """Change a bucket."""
    with opened() as js:
        before = Bucket(js, bucket).info.config
        show_status(js.update_stream(merged(before, changed(flags, compress, None))), as_json=as_json)


def body_of(value: str | None) -> bytes:
    return sys.stdin.buffer.read() if value is None else value.encode("utf-8", "surrogateescape")


@kv.command()
@bucket_argument
@key_argument
@click.argument("value", required=False)
@connection_options
def put(bucket: str, key: str, value: str | None) -> None:
    """Put VALUE (or standard input) into a key. Shows the revision."""
    with opened() as js:
        click.echo(Bucket(js, bucket).put(key, body_of(value)))


@kv.command()
@bucket_argument
@key_argument
@click.argument("value", required=False)
@click.option("--ttl", default="", metavar="DURATION", help="How long it is kept.")
@connection_options
def create(bucket: str, key: str, value: str | None, ttl: str) -> None:
    """Put VALUE (or standard input) into a key that is not there. Shows the revision."""
    with opened() as js:
        click.echo(Bucket(js, bucket).create(key, body_of(value), ttl=ttl))


@kv.command()
@bucket_argument
@key_argument
@click.argument("value")
@click.argument("revision", type=click.IntRange(min=1))
@connection_options
def update(bucket: str, key: str, value: str, revision: int) -> None:
    """Put VALUE into a key that is still at a revision. Shows the new one."""
    with opened() as js:
        click.echo(Bucket(js, bucket).update(key, body_of(value), revision))


@kv.command()
@bucket_argument
@key_argument
@click.option("--revision", default=0, type=click.IntRange(min=0), help="What it was then.")
@click.option("--raw", is_flag=True, help="The value only.")
@json_option
@connection_options
def get(bucket: str, key: str, revision: int, raw: bool, as_json: bool) -> None:
    """Show the value of a key."""
    with opened() as js:
        entry = Bucket(js, bucket).get(key, revision)
    if as_json:
        output.write_json(document_of(entry))
    elif raw:
        output.write(entry.value)
        output.flush()
    else:
        output.write(f"{bucket} > {key} revision {entry.revision}, {entry.created}\n\n".encode())
        output.write(entry.value + b"\n")
        output.flush()


@kv.command(name="del")
@bucket_argument
@click.argument("key", metavar="KEY", required=False)
@force_option
@connection_options
def delete(bucket: str, key: str | None, force: bool) -> None:
    """Delete a key, whose history stays, or a whole bucket."""
    confirm(f"Delete key {key} of bucket {bucket}" if key else f"Delete bucket {bucket}", force=force)
    delete_from(Bucket, bucket, key)


@kv.command()
@bucket_argument
@key_argument
@click.option("--ttl", default="", metavar="DURATION", help="How long the marker is kept.")
@force_option
@connection_options
def purge(bucket: str, key: str, ttl: str, force: bool) -> None:
    """Delete a key with its history."""
    confirm(f"Purge key {key} of bucket {bucket}", force=force)
    with opened() as js:
        Bucket(js, bucket).purge(key, ttl=ttl)


@kv.command()
@bucket_argument
@key_argument
@click.argument("revision", type=click.IntRange(min=1))
@force_option
@connection_options
def revert(bucket: str, key: str, revision: int, force: bool) -> None:
    """Put what a key was at a revision into it once more. Shows the new one."""
    confirm(f"Set key {key} of bucket {bucket} back to revision {revision}", force=force)
    with opened() as js:
        found = Bucket(js, bucket)
        click.echo(found.put(key, found.get(key, revision).value))


@kv.command()
@bucket_argument
@force_option
@connection_options
def compact(bucket: str, force: bool) -> None:
    """Take away what is left of deleted keys."""
    confirm(f"Compact bucket {bucket}", force=force)
    with opened() as js:
        click.echo(f"{Bucket(js, bucket).compact():,} deleted keys are gone")


@kv.command()
@bucket_argument
@key_argument
@json_option
@connection_options
def history(bucket: str, key: str, as_json: bool) -> None:
    """Show all values of a key that are kept, oldest first."""
    with opened() as js:
        found = Bucket(js, bucket).history(key)
    if as_json:
        output.write_json([document_of(entry) for entry in found])
    else:
        show_entries(f"{bucket} > {key}", found, values=True)


@kv.command()
@bucket_argument
@click.argument("key", default=">")
@click.option("--history", "with_history", is_flag=True, help="With the values before.")
@click.option("--deletes/--no-deletes", default=True, help="With deletions.")
@click.option("--updates", is_flag=True, help="Only what comes from now on.")
@click.option("--revision", default=0, type=click.IntRange(min=0), help="From there on.")
@click.option("--count", default=0, type=click.IntRange(min=0), help="End after so many.")
@json_option
@connection_options
def watch(
    bucket: str,
    key: str,
    with_history: bool,
    deletes: bool,
    updates: bool,
    revision: int,
    count: int,
    as_json: bool,
) -> None:
    """Show what is in a bucket and what is put into it, until interrupted. In JSON, a line each."""
    policy = "new" if updates else "all" if with_history else "last_per_subject"
    shown = 0
    with opened() as js:
        for entry in Bucket(js, bucket).watch(key, policy=policy, revision=revision):
            if entry is None or (entry.operation != PUT and not deletes):
                continue
            if as_json:
                output.write(json.dumps(document_of(entry)).encode() + b"\n")
            else:
                head = f"[{entry.created[:19].replace('T', ' ')}] {entry.operation} {bucket} > {entry.key}"
                output.write(head.encode() + (b": " + entry.value if entry.value else b"") + b"\n")
            output.flush()
            shown += 1
            if shown == count:
                return


@kv.command(name="ls")
@click.argument("bucket", required=False)
@click.argument("key", default=">")
@click.option("--names", "-n", is_flag=True, help="Names only.")
@click.option("--verbose", "-v", is_flag=True, help="With revision, time and size.")
@click.option("--display-value", is_flag=True, help="With the values (and --verbose).")
@json_option
@connection_options
def list_(
    bucket: str | None, key: str, names: bool, verbose: bool, display_value: bool, as_json: bool
) -> None:
    """List the buckets, or the keys of a bucket."""
    with opened() as js:
        if bucket is None:
            list_buckets(sorted(buckets(js), key=lambda info: info.name), names=names, as_json=as_json)
            return
        detailed = verbose or as_json
        entries = Bucket(js, bucket).entries(key, headers_only=not detailed)
        found = sorted((entry for entry in entries if entry.operation == PUT), key=lambda entry: entry.key)
    if as_json:
        output.write_json([entry.key if names else document_of(entry) for entry in found])
    elif verbose:
        show_entries(bucket, found, values=display_value)
    else:
        for entry in found:
            click.echo(entry.key)


def list_buckets(found: list[StreamInfo], *, names: bool, as_json: bool) -> None:
    if as_json:
        output.write_json([name_of(info) if names else info.document for info in found])
    elif names:
        for info in found:
            click.echo(name_of(info))
    elif not found:
        click.echo("No buckets. `tidelog kv add` makes one.")
    else:
        made = table("", ["Bucket", "Description", "Created"], ["Values", "Size"])
        for info in found:
            created = info.created[:19].replace("T", " ")
            cells = (name_of(info), info.config.get("description", ""), created)
            made.add_row(*cells, f"{info.state.messages:,}", size_text(info.state.bytes))
        console().print(made)


@kv.command()
@click.argument("bucket", required=False)
@json_option
@connection_options
def info(bucket: str | None, as_json: bool) -> None:
    """Show what a bucket is, and how full."""
    with opened() as js:
        if bucket is None:
            list_buckets(sorted(buckets(js), key=lambda info: info.name), names=False, as_json=as_json)
            return
        found = Bucket(js, bucket).info
    show_status(found, as_json=as_json)


def show_status(info: StreamInfo, *, as_json: bool) -> None:
    if as_json:
        output.write_json(info.document)
        return
    config, state = info.config, info.state
    parts = {
        "Configuration": {
            "Description": config.get("description"),
            "Storage": config["storage"],
            "History": config["max_msgs_per_subject"],
            "Values are kept": span_text(config.get("max_age", 0)) or "for ever",
            "Markers": span_text(config.get("subject_delete_marker_ttl", 0)),
            "Size at most": size_text(config["max_bytes"]),
            "Value at most": size_text(config["max_msg_size"]),
            "Compressed": config.get("compression") == "s2" or None,
            "Mirror of": ((config.get("mirror") or {}).get("name") or "").removeprefix("KV_"),
            "Sources": [source["name"].removeprefix("KV_") for source in config.get("sources") or []],
            "Republish": config.get("republish"),
        },
        "State": {
            "Values": state.messages,
            "Size": size_text(state.bytes),
            "Last revision": state.last_seq,
            "Last change": age_text(state.last_ts),
        },
    }
    console().print(sections(f"Bucket {name_of(info)}, made {info.created[:19].replace('T', ' ')}", parts))


def name_of(info: StreamInfo) -> str:
    return info.name.removeprefix("KV_")


def show_entries(title: str, entries: Iterable[Entry], *, values: bool) -> None:
    made = table(title, ["Key", "Operation", "Created", *(["Value"] if values else [])], ["Revision", "Size"])
    for entry in entries:
        cells = [entry.key, entry.operation, entry.created[:19].replace("T", " ")]
        if values:
            cells.append(entry.value.decode("utf-8", "backslashreplace"))
        made.add_row(*cells, f"{entry.revision:,}", size_text(len(entry.value)))
    console().print(made)


def document_of(entry: Entry) -> dict[str, Any]:
    """`bucket`, `key`, `revision`, `created`, `operation`, and `value`, or `value_base64` when it is no text."""
    found: dict[str, Any] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "created": entry.created,
        "operation": entry.operation,
    }
    try:
        found["value"] = entry.value.decode()
    except UnicodeDecodeError:
        found["value_base64"] = base64.b64encode(entry.value).decode()
    return found
