"""`tidelog export`: a stream, or a range of it, into Parquet files in a folder or an object store.

The document of `--json` says what this run has written, and in `lost` and `trimmed` what was not there any more, as
first and last sequences; then the exit code is 1.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.base.errors import NoResponders, TidelogError
from tidelog.base.instant import instant_ns, read_instant, timestamp
from tidelog.base.limits import COLD_EXPORT_SIZE
from tidelog.cli import output
from tidelog.cli.command import FAILED
from tidelog.cli.jetstream import BEFORE, SIZE, json_option, opened, progress_bar, size_text
from tidelog.cli.target import connection_options
from tidelog.client.jetstream import BlockReader, JetStream, StreamReader
from tidelog.client.jetstream.own import log_info

if TYPE_CHECKING:
    from tidelog.cold.export import Target

COLD, PARQUET = "cold", "parquet"


@dataclass(frozen=True, slots=True)
class Span:
    """What was asked for; 0: from the beginning, to the end."""

    start_seq: int
    end_seq: int


@click.command()
@click.argument("name", metavar="STREAM")
@click.argument("place", metavar="URL")
@click.option("--format", "kind", default=PARQUET, show_default=True, type=click.Choice([PARQUET, COLD]))
@click.option("--start-seq", type=click.IntRange(min=1), help="From this sequence on.")
@click.option("--end-seq", type=click.IntRange(min=1), help="Up to this sequence, without it.")
@click.option("--since", type=BEFORE, help="From a time on, or from so long ago (1h30m, 2d).")
@click.option("--until", type=BEFORE, help="Up to a time, or so long ago.")
@click.option("--subject", "subjects", multiple=True, help="Messages of this subject only; may be repeated.")
@click.option("--file-size", type=SIZE, help="Bytes of messages in one file, unpacked.  [default: 128M]")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@json_option
@connection_options
def export(
    name: str,
    place: str,
    kind: str,
    start_seq: int | None,
    end_seq: int | None,
    since: str | None,
    until: str | None,
    subjects: tuple[str, ...],
    file_size: int | None,
    progress: bool,
    as_json: bool,
) -> int:
    """Write STREAM into Parquet files below URL: a folder, file://, s3://, gs:// or az://.

    With `--format cold` they are laid out as the cold tier has them, with a manifest. Run again, it goes on where it
    was interrupted, or adds what has come since.
    """
    if (start_seq and since) or (end_seq and until):
        raise click.UsageError("A sequence and a time exclude each other.")
    if kind == COLD and subjects:
        raise click.UsageError(
            "--format cold has every message of a range: use --format parquet with --subject."
        )
    with opened() as js:
        asked = span(js, name, start_seq or 0, end_seq or 0, since, until)
        target = open_target(js, name, url_of(place), kind, subjects)
        start = asked.start_seq or target.next_seq or js.stream_info(name).state.first_seq or 1
        if asked.start_seq and target.next_seq:
            start = resumed(place, asked.start_seq, target)
        exporter = Exporter(js, name, subjects, target, COLD_EXPORT_SIZE if file_size is None else file_size)
        done = exporter.run(Span(start, asked.end_seq), shown=progress)
    return tell(name, place, kind, done, as_json=as_json)


def url_of(place: str) -> str:
    return place if "://" in place else Path(place).resolve().as_uri()


def open_target(js: JetStream, name: str, url: str, kind: str, subjects: tuple[str, ...]) -> "Target":
    try:
        from tidelog.cold.archive import Archive, Place
        from tidelog.cold.bucket import open_bucket
        from tidelog.cold.export import ColdTarget, PlainTarget
    except ImportError as error:
        raise TidelogError(f"Parquet is not installed ({error}); pip install 'tidelog[cold]'") from error
    try:
        info = log_info(js, name)
    except NoResponders:
        raise TidelogError("only a Tidelog server is exported from, and this is another one") from None
    where, bucket = Place(info.account, name, bytes.fromhex(info.log_id)), open_bucket(url)
    return ColdTarget(Archive(bucket, where)) if kind == COLD else PlainTarget(bucket, where, subjects)


def span(
    js: JetStream, name: str, start_seq: int, end_seq: int, since: str | None, until: str | None
) -> Span:
    """Times become sequences here, once."""
    if since:
        start_seq = first_from(js, name, since)
    if until:
        end_seq = first_from(js, name, timestamp(instant_ns(read_instant(until)) + 1))
    return Span(start_seq, end_seq)


def first_from(js: JetStream, name: str, time: str) -> int:
    """The first message at or after a time; where there is none, what the next message will have."""
    found = StreamReader(js, name).page(start_time=time, count=1).messages
    return found[0].seq if found else js.stream_info(name).state.last_seq + 1


def resumed(place: str, start_seq: int, target: "Target") -> int:
    """Where to go on in a folder that has something already."""
    if not target.start_seq <= start_seq <= target.next_seq:
        raise TidelogError(
            f"{place} has [{target.start_seq}, {target.next_seq}) already, which {start_seq} is not in"
            " or right behind: name another folder"
        )
    return target.next_seq


@dataclass(frozen=True, slots=True)
class Done:
    span: Span
    messages: int
    files: int
    size: int
    lost: list[tuple[int, int]]
    trimmed: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Exporter:
    js: JetStream
    name: str
    subjects: tuple[str, ...]
    target: "Target"
    file_size: int = COLD_EXPORT_SIZE

    def run(self, asked: Span, *, shown: bool) -> Done:
        from tidelog.cold.export import Export

        start = asked.start_seq
        if asked.end_seq and asked.end_seq <= start:
            return Done(Span(start, start), 0, 0, 0, [], [])
        last = self.js.stream_info(self.name).state.last_seq
        total = (min(asked.end_seq - 1, last) if asked.end_seq else last) - start + 1
        export, reader = Export(self.target, start, self.file_size), BlockReader(self.js, self.name)
        with progress_bar(f"export of {self.name}", max(total, 0), shown=shown, counts=True) as told:
            for block in reader.blocks(start, asked.end_seq, filters=self.subjects):
                export.take(block.data, block.last_seq)
                told(block.last_seq - start + 1)
            export.finish(reader.end_seq)
        end = max(start, self.target.next_seq)
        return Done(Span(start, end), export.messages, export.files, export.size, reader.lost, reader.trimmed)


def export_all(js: JetStream, name: str, url: str) -> Done:
    """All of a stream, as the cold tier has it."""
    first_seq = js.stream_info(name).state.first_seq
    return Exporter(js, name, (), open_target(js, name, url, COLD, ())).run(Span(first_seq, 0), shown=False)


def tell(name: str, place: str, kind: str, done: Done, *, as_json: bool) -> int:
    if as_json:
        document: dict[str, Any] = {
            "stream": name,
            "url": url_of(place),
            "format": kind,
            "start_seq": done.span.start_seq,
            "end_seq": done.span.end_seq,
            "messages": done.messages,
            "files": done.files,
            "size": done.size,
            "lost": done.lost,
            "trimmed": done.trimmed,
        }
        output.write_json(document)
    else:
        what = f"{done.messages:,} messages, {done.files} files, {size_text(done.size)}"
        click.echo(f"{name}: [{done.span.start_seq}, {done.span.end_seq}) in {place}: {what}")
    for words, ranges in (("are lost to damage", done.lost), ("were removed before", done.trimmed)):
        if ranges:
            shown = ", ".join(f"{first} to {last}" for first, last in ranges)
            output.remark(f"Messages {words}: {shown}")
    return FAILED if done.lost or done.trimmed else 0
