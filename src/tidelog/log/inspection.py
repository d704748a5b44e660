"""What is in one file of a log, as plain documents: the header first, then entry by entry.

Promises
  * The file alone is looked at, and only read. What it is, is told by its first bytes, or else by its name.
  * What is damaged is an entry with its position and the reason, and what is behind it follows.
  * Bytes stay bytes and times stay nanoseconds: who shows them decides how.

It does not know what other files say: whether a message was deleted later, or is missing, is a question to `fsck`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tidelog.base.errors import StorageError
from tidelog.disk.disk import Disk
from tidelog.log import ceiling, cursor, cursor_file, snapshot
from tidelog.log.header import HEADER_SIZE, MAGIC, NotASegment, read_header
from tidelog.log.key_ring import KeyRing
from tidelog.log.packed import PackedFile
from tidelog.log.plain import open_plain, read_plain
from tidelog.log.record import find_salt
from tidelog.log.sidecar import RowCursor, Sidecar, decode_ranges, refusal
from tidelog.log.survey import survey
from tidelog.log.walk import ERASED, KINDS, SHELL, walk

INDEX_MAGIC = b"TIDEIDX1"
_INDEX = struct.Struct("<8sIIQQQQQqqIIIIII")
_INDEX_FIELDS = (
    "version", "base_seq", "last_seq", "segment_size", "messages", "message_bytes", "first_ts_ns", "last_ts_ns",
    "samples", "subjects", "controls", "expiries", "holes",
)  # fmt: skip
_BY_MAGIC = {
    MAGIC: "segment",
    INDEX_MAGIC: "index",
    snapshot.MAGIC: "snapshot",
    cursor_file.MAGIC: "cursors",
    ceiling.MAGIC: "ceiling",
}
_BY_NAME = {snapshot.FILE_NAME: "snapshot", cursor.FILE_NAME: "cursors", ceiling.FILE_NAME: "ceiling"}

Document = dict[str, Any]


@dataclass
class Inspection:
    """`kind` of file, its `header`, and what of it is damaged; `entries` can be taken once."""

    kind: str
    header: Document
    problems: list[str] = field(default_factory=list)
    entries: Iterator[Document] = field(default_factory=lambda: iter(()))


def inspect_file(disk: Disk, path: str, keys: KeyRing | None = None) -> Inspection:
    """Raises StorageError if it cannot be read, or is no file of a log."""
    file = disk.open(path)
    try:
        magic = file.read(0, len(MAGIC))
        kind = _BY_MAGIC.get(magic) or _kind_of(path.rpartition("/")[2])
        data = b"" if kind == "segment" else file.read(0, file.size)
    finally:
        file.close()
    if kind == "segment":
        return inspect_segment(disk, path, keys)
    readers = {
        "index": inspect_index,
        "snapshot": inspect_snapshot,
        "cursors": inspect_cursors,
        "ceiling": inspect_ceiling,
    }
    if kind not in readers:
        raise StorageError(f"{path} is no file of a log")
    return readers[kind](data)


def _kind_of(name: str) -> str:
    ends = {".seg": "segment", ".idx": "index"}
    return ends.get(name[-4:]) or _BY_NAME.get(name, "")


def inspect_segment(disk: Disk, path: str, keys: KeyRing | None) -> Inspection:
    file = open_plain(disk, path, keys)
    try:
        data = read_plain(file)
        problems = []
        if isinstance(file, PackedFile):
            problems += file.damage
            problems += [f"a bit had turned at {pos} of the file; it was read right" for pos in file.repairs]
    finally:
        file.close()
    header: Document = {}
    base_seq, salt = 1, find_salt(data, HEADER_SIZE) or 0
    try:
        found = read_header(data[:HEADER_SIZE], path)
        base_seq, salt = found.base_seq, int.from_bytes(found.log_id[:4], "little")
        header = {
            "version": 1,
            "log_id": found.log_id.hex(),
            "base_seq": base_seq,
            "created_ns": found.created_ns,
        }
    except NotASegment as error:
        problems.append(f"{error}; the base is taken from the name, and all else from the first record")
        name = path.rpartition("/")[2]
        base_seq = int(name[:-4]) if name[:-4].isdigit() and int(name[:-4]) else 1
        header = {"base_seq": base_seq}
    if isinstance(file, PackedFile):
        described = file.description
        header["compression"] = described.compression.name.lower()
        header["cipher"] = described.cipher.name.lower()
        header["key_id"] = described.key_id
        header["blocks"] = described.blocks
    outline = survey(data, base_seq, salt)
    header |= {
        "size": len(data),
        "messages": outline.messages,
        "last_seq": outline.last_seq,
        "message_bytes": outline.message_bytes,
        "first_ts_ns": outline.first_ts_ns,
        "last_ts_ns": outline.last_ts_ns,
        "subjects": outline.subject_count,
        "controls": len(outline.controls),
        "expiries": len(outline.expiries),
        "holes": outline.holes,
        "torn_size": outline.torn_size,
    }
    entries = (
        damaged_entry(place.pos, place.size, place.reason)
        if place.record is None
        else {"type": KINDS[place.record["kind"]], "pos": place.pos, **_record(place.record)}
        for place in walk(data, outline, salt)
    )
    problems += [f"{size} bytes at {pos} are damaged" for pos, size in outline.damages]
    if outline.torn_size:
        problems.append(f"{outline.torn_size} bytes at {outline.end} are a torn tail, or damaged")
    return Inspection("segment", header, problems, entries)


def damaged_entry(pos: int, size: int, reason: str) -> Document:
    return {"type": "damage", "pos": pos, "size": size, "reason": reason}


def _record(record: dict[str, Any]) -> Document:
    kind, payload = KINDS[record["kind"]], record["payload"]
    entry = {name: record[name] for name in ("size", "seq", "ts_ns")}
    if kind == "message":
        entry |= {name: record[name] for name in ("subject", "header", "payload")}
        if record["expiry_ns"]:
            entry["expiry_ns"] = record["expiry_ns"]
        if record["flags"] & ERASED:
            entry["erased"] = True
        if record["flags"] & SHELL:
            # Headers and payload are in the cold tier.
            entry["shell_of"] = int.from_bytes(entry.pop("payload"), "little")
            del entry["header"]
    elif kind == "delete":
        entry["ranges"] = decode_ranges(payload)
        if record["flags"] & ERASED:
            entry["erase"] = True
    else:
        entry["first_seq" if kind == "trim" else "next_seq"] = int.from_bytes(payload, "little")
    return entry


def inspect_index(data: bytes) -> Inspection:
    if len(data) < _INDEX.size:
        return Inspection("index", {}, [f"cut short: {len(data)} bytes"])
    header = dict(zip(_INDEX_FIELDS, _INDEX.unpack_from(data)[2:15], strict=True))
    why = refusal(data, header["base_seq"], header["segment_size"])
    if why:
        return Inspection("index", header, [why], iter([damaged_entry(0, len(data), why)]))
    side = Sidecar.parse(data, header["base_seq"], header["segment_size"])
    assert side is not None
    header |= {"holes": side.holes}
    rows = side.take_rows()
    assert rows is not None
    return Inspection("index", header, [], _rows(rows))


def _rows(rows: RowCursor) -> Iterator[Document]:
    for subject, seqs in rows:
        yield {
            "type": "subject",
            "subject": subject,
            "messages": len(seqs),
            "first_seq": seqs[0],
            "last_seq": seqs[-1],
        }
    if rows.broken:
        yield {"type": "damage", "reason": "what follows is no row of subjects"}


def inspect_snapshot(data: bytes) -> Inspection:
    why = snapshot.damage(data)
    if why:
        return Inspection("snapshot", {}, [why], iter([damaged_entry(0, len(data), why)]))
    contents = snapshot.Contents(data)
    header = {
        name: getattr(contents, name)
        for name in (
            "version", "first_seq", "last_seq", "messages", "size", "last_ts_ns", "subjects", "deleted", "lost",
        )
    }  # fmt: skip
    header |= {"log_id": contents.log_id.hex(), "expiries": len(contents.expiries)}

    def entries() -> Iterator[Document]:
        for base_seq, size, dead_count, dead_size in contents.segments:
            yield {
                "type": "segment",
                "base_seq": base_seq,
                "size": size,
                "deleted": dead_count,
                "deleted_size": dead_size,
            }
        yield from _rows(contents.take_rows())

    return Inspection("snapshot", header, [], entries())


def inspect_cursors(data: bytes) -> Inspection:
    contents = cursor_file.read_cursors(data)
    header = {
        "revision": contents.revision,
        "records": contents.number,
        "synced": contents.synced,
        "closed": contents.closed,
        "cursors": len(contents.cursors),
    }
    problems = [] if contents.header_valid else ["the header is damaged"]
    if contents.damaged:
        problems.append(f"{contents.damaged} records are lost")
    if contents.cut_size:
        problems.append(f"{contents.cut_size} bytes of unfinished writes")
    strange = [*contents.strange]
    if contents.end_pos < len(data):
        strange.append((contents.end_pos, len(data) - contents.end_pos))
    entries = [damaged_entry(pos, size, "records are missing here, or are none") for pos, size in strange]
    entries += [{"type": "cursor", **one._asdict()} for one in sorted(contents.cursors.values())]
    return Inspection("cursors", header, problems, iter(entries))


def inspect_ceiling(data: bytes) -> Inspection:
    found = ceiling.read_ceiling(data)
    if found is None:
        why = "the checksum does not match"
        return Inspection("ceiling", {}, [why], iter([damaged_entry(0, len(data), why)]))
    return Inspection("ceiling", {"seq": found[0], "boot_id": found[1]})
