"""`tidelog object`: object stores, with the nouns, verbs and flags of the `nats` command."""

import json
from pathlib import Path
from typing import Any

import click

from tidelog.base.errors import ClientError
from tidelog.cli import output
from tidelog.cli.field import Field, given, merged, options
from tidelog.cli.jetstream import (
    DURATION_NS,
    PAIR,
    SIZE,
    confirm,
    console,
    delete_from,
    force_option,
    json_option,
    opened,
    progress_bar,
    sections,
    size_text,
    span_text,
    table,
)
from tidelog.cli.stream_backup import progress_option
from tidelog.cli.stream_config import STORAGES
from tidelog.cli.target import connection_options
from tidelog.cli.tree import Nouns
from tidelog.client.jetstream import StreamInfo
from tidelog.client.jetstream.store import (
    CHUNK_SIZE,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    store_config,
    stores,
)

FIELDS = (
    Field("--description", "description", "What it is for."),
    Field("--storage", "storage", "Where objects are.", names=STORAGES, when="add"),
    Field("--ttl", "max_age", "How long objects are kept.", DURATION_NS),
    Field("--replicas", "num_replicas", "Copies, in a cluster.", int),
    Field("--max-bucket-size", "max_bytes", "Size of the store at most.", SIZE),
    Field("--metadata", "metadata", "Anything; may be repeated.", PAIR, several=True),
)


@click.group(cls=Nouns, aliases={"del": "rm", "delete": "rm", "show": "info", "i": "info", "list": "ls"})
def object_store() -> None:
    """Manage object stores, and what is in them."""


bucket_argument = click.argument("bucket", metavar="BUCKET")


@object_store.command()
@bucket_argument
@options(FIELDS, "add")
@click.option("--compress/--no-compress", default=False, help="Compress files.")
@json_option
@connection_options
def add(bucket: str, compress: bool, as_json: bool, **flags: Any) -> None:
    """Make an object store."""
    config = store_config(bucket, **given(FIELDS, flags), **({"compression": "s2"} if compress else {}))
    with opened() as js:
        show_status(js.create_stream(config), as_json=as_json)


@object_store.command()
@bucket_argument
@options(FIELDS, "edit")
@json_option
@connection_options
def edit(bucket: str, as_json: bool, **flags: Any) -> None:
    """Change an object store."""
    with opened() as js:
        before = ObjectStore(js, bucket).status.config
        show_status(js.update_stream(merged(before, given(FIELDS, flags))), as_json=as_json)


@object_store.command()
@bucket_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default="", help="What to call it; else as the file.")
@click.option("--description", default="", help="What it is.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME:VALUE", help="A header; repeatable.")
@click.option("--chunk-size", default=CHUNK_SIZE, type=SIZE, help="Bytes of a message.")
@progress_option
@force_option
@json_option
@connection_options
def put(
    bucket: str,
    file: Path,
    name: str,
    description: str,
    headers: tuple[str, ...],
    chunk_size: int,
    progress: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Put a file into a store."""
    name = name or str(file)
    size = file.stat().st_size
    with opened() as js:
        store = ObjectStore(js, bucket)
        if not force and exists(store, name):
            confirm(f"Replace object {name} in {bucket}", force=False)
        with file.open("rb") as source, progress_bar(name, size, shown=progress) as told:
            put_info = store.put(
                name,
                source,
                description=description,
                headers=output.parse_headers(headers) or None,
                chunk_size=chunk_size,
                progress=told,
            )
    show_object(put_info, as_json=as_json)


def exists(store: ObjectStore, name: str) -> bool:
    try:
        store.info(name)
    except ObjectNotFound:
        return False
    return True


@object_store.command()
@bucket_argument
@click.argument("name", metavar="OBJECT")
@click.option(
    "--output", "-O", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write."
)
@progress_option
@force_option
@json_option
@connection_options
def get(bucket: str, name: str, target: Path | None, progress: bool, force: bool, as_json: bool) -> None:
    """Write an object to a file; when it is not whole, there is no file."""
    path = target or Path(name).resolve().relative_to(Path.cwd()) if target or inside(name) else None
    if path is None:
        raise click.UsageError(f"{name!r} leads out of this directory: say where with --output.")
    if path.exists():
        confirm(f"Replace {path}", force=force)
    fresh = path.with_name(f"{path.name}.new")
    with opened() as js:
        store = ObjectStore(js, bucket)
        size = store.info(name).size
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with fresh.open("wb") as file, progress_bar(name, size, shown=progress) as told:
                got = store.get(name, file, progress=told)
        except (ClientError, OSError):
            fresh.unlink(missing_ok=True)
            raise
    fresh.replace(path)
    if as_json:
        output.write_json({**got.as_document(), "file": str(path)})
    else:
        click.echo(f"{path}: {size_text(got.size)}")


def inside(name: str) -> bool:
    """Whether a file of that name would be in this directory or below it."""
    return Path(name).resolve().is_relative_to(Path.cwd())


@object_store.command()
@bucket_argument
@click.argument("name", metavar="OBJECT", required=False)
@force_option
@connection_options
def rm(bucket: str, name: str | None, force: bool) -> None:
    """Remove an object, or a whole store."""
    confirm(f"Remove object {name} of {bucket}" if name else f"Remove object store {bucket}", force=force)
    delete_from(ObjectStore, bucket, name)


@object_store.command()
@click.argument("bucket", required=False)
@click.argument("name", metavar="OBJECT", required=False)
@json_option
@connection_options
def info(bucket: str | None, name: str | None, as_json: bool) -> None:
    """Show what an object is, or a store."""
    with opened() as js:
        if bucket is None:
            list_stores(sorted(stores(js), key=lambda info: info.name), names=False, as_json=as_json)
        elif name is None:
            show_status(ObjectStore(js, bucket).status, as_json=as_json)
        else:
            show_object(ObjectStore(js, bucket).info(name), as_json=as_json)


@object_store.command(name="ls")
@click.argument("bucket", required=False)
@click.option("--names", "-n", is_flag=True, help="Names only.")
@json_option
@connection_options
def list_(bucket: str | None, names: bool, as_json: bool) -> None:
    """List the stores, or the objects of a store."""
    with opened() as js:
        if bucket is None:
            list_stores(sorted(stores(js), key=lambda info: info.name), names=names, as_json=as_json)
            return
        found = sorted(ObjectStore(js, bucket).objects(), key=lambda info: info.name)
    if as_json:
        output.write_json([info.name if names else info.as_document() for info in found])
    elif names:
        for info in found:
            click.echo(info.name)
    else:
        made = table(f"{len(found)} objects in {bucket}", ["Name", "Time", "Description"], ["Size"])
        for info in found:
            made.add_row(info.name, info.mtime[:19].replace("T", " "), info.description, size_text(info.size))
        console().print(made)


def list_stores(found: list[StreamInfo], *, names: bool, as_json: bool) -> None:
    if as_json:
        output.write_json([name_of(info) if names else info.document for info in found])
    elif names:
        for info in found:
            click.echo(name_of(info))
    elif not found:
        click.echo("No object stores. `tidelog object add` makes one.")
    else:
        made = table("", ["Store", "Description", "Created"], ["Size"])
        for info in found:
            created = info.created[:19].replace("T", " ")
            description = info.config.get("description", "")
            made.add_row(name_of(info), description, created, size_text(info.state.bytes))
        console().print(made)


@object_store.command()
@bucket_argument
@force_option
@connection_options
def seal(bucket: str, force: bool) -> None:
    """Let nothing be put into a store, or removed from it, ever again."""
    confirm(f"Seal object store {bucket}, which cannot be undone", force=force)
    with opened() as js:
        show_status(ObjectStore(js, bucket).seal(), as_json=False)


@object_store.command()
@bucket_argument
@click.option("--count", default=0, type=click.IntRange(min=0), help="End after so many.")
@json_option
@connection_options
def watch(bucket: str, count: int, as_json: bool) -> None:
    """Show what is in a store and what is put into it, until interrupted. In JSON, a line each."""
    shown = 0
    with opened() as js:
        for info in ObjectStore(js, bucket).watch():
            if info is None:
                continue
            if as_json:
                output.write(json.dumps(info.as_document()).encode() + b"\n")
            else:
                what = "DEL" if info.deleted else "PUT"
                words = f"[{info.mtime[:19].replace('T', ' ')}] {what} {bucket} > {info.name}: {info.size:,} bytes"
                output.write(words.encode() + b"\n")
            output.flush()
            shown += 1
            if shown == count:
                return


def show_object(info: ObjectInfo, *, as_json: bool) -> None:
    if as_json:
        output.write_json(info.as_document())
        return
    values = {
        "Description": info.description,
        "Size": size_text(info.size),
        "Time": info.mtime,
        "Chunks": info.chunks,
        "Digest": info.digest,
        "Headers": {name: ", ".join(each) for name, each in (info.headers or {}).items()},
        "Metadata": info.metadata,
        "Link to": f"{info.options.link.bucket} > {info.options.link.name}"
        if info.options and info.options.link
        else None,
    }
    console().print(sections(f"{info.bucket} > {info.name}", {"Object": values}))


def show_status(info: StreamInfo, *, as_json: bool) -> None:
    if as_json:
        output.write_json(info.document)
        return
    config = info.config
    values = {
        "Description": config.get("description"),
        "Storage": config["storage"],
        "Objects are kept": span_text(config.get("max_age", 0)) or "for ever",
        "Size at most": size_text(config["max_bytes"]),
        "Size": size_text(info.state.bytes),
        "Sealed": config.get("sealed"),
        "Compressed": config.get("compression") == "s2" or None,
    }
    console().print(sections(f"Object store {name_of(info)}", {"Configuration and state": values}))


def name_of(info: StreamInfo) -> str:
    return info.name.removeprefix("OBJ_")
