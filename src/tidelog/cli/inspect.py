"""`tidelog inspect`: what is in one file of a log, for people or as JSON lines.

The first line of `--json` is the header, with `kind`, `path` and `problems`; each further one is an entry with its
`type`. Bytes are text where they are UTF-8, and base64 in a field with `_base64` behind its name where they are not.
"""

import base64
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from tidelog.base.errors import StorageError
from tidelog.cli import output
from tidelog.cli.fsck import keys_option, read_keys
from tidelog.disk.real import RealDisk
from tidelog.log.fsck import Severity
from tidelog.log.inspection import Document, inspect_file

BODY = ("header", "payload")


@click.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option(
    "--from", "from_seq", type=click.IntRange(min=0), default=0, help="Records from this sequence on."
)
@click.option("--to", "to_seq", type=click.IntRange(min=0), help="Records up to this sequence.")
@click.option("--limit", "-n", type=click.IntRange(min=0), help="So many entries; 0: the header only.")
@click.option("--payload", "-p", "bodies", is_flag=True, help="Headers and payloads, too.")
@click.option("--json", "-j", "as_json", is_flag=True, help="JSON lines.")
@keys_option
def inspect(
    path: str,
    from_seq: int,
    to_seq: int | None,
    limit: int | None,
    bodies: bool,
    as_json: bool,
    keys_path: str | None,
) -> int:
    """Show what is in FILE: a segment, an index, a snapshot, cursors, or a ceiling.

    Exit codes: 0 clean, 2 something in it is damaged, 3 cannot be read or is no file of a log.
    """
    keys = read_keys(keys_path)
    root, name = os.path.split(os.path.abspath(path))
    try:
        found = inspect_file(RealDisk(root, read_only=True), name, keys)
    except StorageError as error:
        click.echo(f"tidelog: {error}", err=True)
        return Severity.UNREADABLE
    head = {"kind": found.kind, "path": path, **found.header, "problems": found.problems}
    damaged = bool(found.problems)
    output.write(json_line(head) if as_json else head_lines(head))
    for number, entry in enumerate(chosen(found.entries, from_seq, to_seq)):
        damaged = damaged or entry["type"] == "damage"
        if limit is not None and number >= limit:
            break
        for key in BODY:
            if not bodies and key in entry:
                entry[f"{key}_size"] = len(entry.pop(key))
        output.write(json_line(entry) if as_json else entry_line(entry))
    output.flush()
    return Severity.LOSS if damaged else Severity.NOTE


def chosen(entries: Iterator[Document], from_seq: int, to_seq: int | None) -> Iterator[Document]:
    """Those with a sequence in the range, and those without one."""
    for entry in entries:
        first_seq, last_seq = entry.get("first_seq", 0), entry.get("last_seq", 0)
        if "seq" in entry and entry["type"] != "cursor":
            first_seq = last_seq = entry["seq"]
        if last_seq and (last_seq < from_seq or (to_seq is not None and first_seq > to_seq)):
            continue
        yield entry


def json_line(document: Document) -> bytes:
    shown: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, bytes):
            try:
                shown[key] = value.decode()
            except UnicodeDecodeError:
                shown[f"{key}_base64"] = base64.b64encode(value).decode()
        else:
            shown[key] = value
    return json.dumps(shown).encode() + b"\n"


def head_lines(head: Document) -> bytes:
    lines = [f"{head['kind']} {head['path']}"]
    lines += [f"  {key}: {shown(key, value)}" for key, value in list(head.items())[2:-1]]
    lines += [f"  problem: {problem}" for problem in head["problems"]]
    return "\n".join(lines).encode("utf-8", "surrogateescape") + b"\n"


def entry_line(entry: Document) -> bytes:
    place = f"{entry['pos']:>10}  " if "pos" in entry else "  "
    fields = [f"{key}={shown(key, value)}" for key, value in entry.items() if key not in ("type", "pos")]
    return f"{place}{entry['type']}  {'  '.join(fields)}".encode("utf-8", "surrogateescape") + b"\n"


def shown(key: str, value: Any) -> str:
    if key.endswith("ts_ns") or key in ("created_ns", "expiry_ns"):
        return time_of(value) if value else "0"
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        # One line is one entry, and a stranger's bytes do not move the cursor of a terminal.
        return text if text.isprintable() else repr(text)[1:-1]
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return str(value)


def time_of(ts_ns: int) -> str:
    try:
        moment = datetime.fromtimestamp(ts_ns // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ts_ns} ns"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ts_ns % 10**9:09d}Z"
