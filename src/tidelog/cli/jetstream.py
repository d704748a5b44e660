"""What the commands for streams, consumers, buckets and objects share: connecting, kinds of values, tables."""

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from tidelog.base.errors import ApiError, ClientError
from tidelog.base.instant import instant_ns, read_instant, timestamp
from tidelog.cli import duration
from tidelog.cli.target import current_target
from tidelog.client.jetstream import JetStream

SECOND_NS = 1_000_000_000
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
# Columns where nobody says how many there are: none of ours is cut.
PIPED_WIDTH = 160

_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

json_option = click.option("--json", "-j", "as_json", is_flag=True, help="A JSON document.")
force_option = click.option("--force", "-f", is_flag=True, help="Do not ask.")


@contextlib.contextmanager
def opened() -> Iterator[JetStream]:
    """JetStream of the running command's server. Refusals are told with what can be done about them."""
    target = current_target()
    with target.connect() as connection:
        try:
            yield JetStream(connection, timeout_s=target.timeout_s)
        except ApiError as error:
            advice = {
                STREAM_NOT_FOUND: "`tidelog stream ls` lists those that there are",
                CONSUMER_NOT_FOUND: "`tidelog consumer ls STREAM` lists those that there are",
            }.get(error.err_code)
            raise ClientError(f"{error}: {advice}" if advice else str(error)) from error


class Size(click.ParamType[int]):
    """Bytes: `100`, `10K`, `1.5MB`, `2GiB`; all of them powers of 1024, as in the `nats` command."""

    name = "bytes"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is not a size such as 100, 10K or 1.5GiB", param, ctx)
        return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


class DurationNs(click.ParamType[int]):
    """Nanoseconds, as the API has them."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return round(duration.parse(value) * SECOND_NS)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Pairs(click.ParamType[tuple[str, str]]):
    name = "key=value"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, text


class Moment(click.ParamType[str]):
    """RFC 3339, a date with or without a time, or how long from (or before) now; as RFC 3339."""

    name = "time"

    def __init__(self, sign: int) -> None:
        # 1: a duration is from now on; -1: before now.
        self.sign = sign

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        with contextlib.suppress(ValueError):
            return timestamp(time.time_ns() + self.sign * round(duration.parse(value) * SECOND_NS))
        text = value.strip().replace(" ", "T")
        if len(text) == len("2006-01-02"):
            text += "T00:00:00"
        for zone in ("", "Z"):
            with contextlib.suppress(ValueError):
                return timestamp(instant_ns(read_instant(text + zone)))
        return self.fail(f"{value!r} is not a time such as 2026-11-19T12:00:00Z, nor a duration", param, ctx)


SIZE, DURATION_NS, PAIR = Size(), DurationNs(), Pairs()
AFTER, BEFORE = Moment(1), Moment(-1)


def confirm(text: str, *, force: bool) -> None:
    """Ask, unless it was forced. Where nobody can answer, say so."""
    if force:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{text}? Nobody is here to answer: use --force.")
    click.confirm(text, abort=True)


class Holder(Protocol):
    """A bucket, or an object store."""

    stream: str

    def delete(self, name: str, /) -> object: ...


def delete_from(make: Callable[[JetStream, str], Holder], name: str, held: str | None) -> None:
    """Delete what is held under a name; without one, the holder `name` itself."""
    with opened() as js:
        holder = make(js, name)
        if held:
            holder.delete(held)
        else:
            js.delete_stream(holder.stream)


def read_config(path: str) -> dict[str, Any]:
    """A configuration, or an answer of the server that holds one."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--config") from error
    if not isinstance(document, dict):
        raise click.BadParameter(f"{path} holds no JSON object", param_hint="--config")
    config: dict[str, Any] = document.get("config", document)
    return config


# -- for people ---


def console() -> Console:
    found = Console()
    return found if found.is_terminal else Console(width=PIPED_WIDTH)


def table(title: str, words: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """Columns of words, then of numbers."""
    made = Table(title=title, title_justify="left")
    for heading in words:
        made.add_column(heading, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def sections(title: str, parts: Mapping[str, Mapping[str, Any]]) -> Table:
    """Names and values below headings; what is empty is left out."""
    made = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    made.add_column(justify="right", style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for heading, values in parts.items():
        shown = {name: value for name, value in values.items() if value not in (None, "", [], {})}
        if not shown:
            continue
        made.add_row("", "")
        made.add_row(f"{heading}:", "")
        for name, value in shown.items():
            made.add_row(name, plain(value))
    return made


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain(each)}" for key, each in value.items())
    return str(value)


def size_text(size: int) -> str:
    if size < 0:
        return "unlimited"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:,.1f} {unit}" if unit != "B" else f"{size} B"
        size /= 1024  # type: ignore[assignment]
    return f"{size:,.1f} TiB"


def limit_text(value: int) -> str:
    return "unlimited" if value <= 0 else f"{value:,}"


def span_text(ns: int) -> str:
    """Of a duration; 0 is none."""
    return duration.show_long(ns / SECOND_NS) if ns > 0 else ""


def age_text(moment: str) -> str:
    """How long ago, in front of the time itself. Empty for no time."""
    if not moment or moment.startswith("0001"):
        return ""
    ns = time.time_ns() - instant_ns(read_instant(moment))
    return f"{duration.show_long(max(0, ns) / SECOND_NS)} ago ({moment})"


@contextlib.contextmanager
def progress_bar(
    words: str, total: int | None, *, shown: bool, counts: bool = False
) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, told how many bytes (or `counts`) have gone; nothing where it is not seen."""
    err = Console(stderr=True)
    if not shown or not err.is_terminal:
        yield lambda _: None
        return
    columns: tuple[ProgressColumn, ...] = (DownloadColumn(), TransferSpeedColumn())
    if counts:
        columns = (MofNCompleteColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *columns)
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(words, total=total)
        yield lambda size: progress.update(task, completed=size)
