"""Opening a log: what is in the directory becomes a log again, whatever happened to it.

1. Every segment gets its sidecar: from its index file, or by a survey of its bytes, and then it is synced: what the
   process before has only written is seen by everybody from now on, and may not go with the power. The last one is
   surveyed unless the log was closed cleanly; a torn tail is cut off.
2. If there is a snapshot of exactly this, it is the index. Otherwise the delete, trim and skip records of all segments
   say what is not there, and then the rows of all sidecars are taken in, without that.
3. Sequences that are neither in a segment nor explained are lost.
4. After a power loss, a log whose acknowledgements did not wait for a sync goes on above its ceiling.

Nothing on the disk makes this fail but what cannot be decided without a person: segments of another log, a version that
is not known, a disk that does not answer. What was found is told in `Findings`.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from tidelog.base.clock import Clock
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.base.seqset import SequenceSet
from tidelog.base.work import Worker
from tidelog.disk.disk import Disk, File
from tidelog.log import snapshot
from tidelog.log.ceiling import Ceiling
from tidelog.log.expiry import Expiries
from tidelog.log.header import (
    HEADER_SIZE,
    NEW,
    WARM,
    NotASegment,
    SegmentHeader,
    index_path,
    mended_header,
    read_header,
    segment_header,
    segment_path,
    write_index,
)
from tidelog.log.keeper import Keeper
from tidelog.log.log import Log
from tidelog.log.packed import PackedFile, describe
from tidelog.log.packed_block import MAGIC as PACKED_MAGIC
from tidelog.log.packed_block import with_flag
from tidelog.log.plain import open_plain, read_plain, read_range
from tidelog.log.record import RECORD_HEADER_SIZE, decode, find_salt, is_valid
from tidelog.log.segment import Segment
from tidelog.log.settings import LogSettings
from tidelog.log.sidecar import Sidecar, decode_ranges
from tidelog.log.store import Store
from tidelog.log.survey import survey
from tidelog.log.walk import ERASED

DELETE, TRIM, SKIP = 2, 3, 4


@dataclass
class Findings:
    """What opening a log has met, for people."""

    notes: list[str] = field(default_factory=list)
    surveyed: int = 0  # segments that were read as a whole
    cut_size: int = 0  # bytes of a torn tail
    lost: list[tuple[int, int]] = field(default_factory=list)
    clean: bool = False  # a snapshot was used


def open_log(
    disk: Disk,
    directory: str,
    settings: LogSettings,
    clock: Clock,
    worker: Worker,
    *,
    sync_names: bool = True,
) -> tuple[Log, Findings]:
    """The log in `directory`, which is made if it is missing. From now on this process has the disk alone.

    Not `sync_names`: the caller sees to it that the name of a new directory is safe before anything in it counts.
    """
    disk.lock()
    log, findings = found_log(disk, directory, settings, clock, worker, sync_names=sync_names)
    say_skipped(log)
    return log, findings


def found_log(
    disk: Disk,
    directory: str,
    settings: LogSettings,
    clock: Clock,
    worker: Worker,
    *,
    sync_names: bool = True,
) -> tuple[Log, Findings]:
    """What is in the directory as a log; nothing is given to the worker yet."""
    findings = Findings()
    settings.check()
    disk.make_directory(directory)
    names = disk.list(directory)
    for name in names:
        if name.endswith((NEW, WARM)):
            disk.remove(f"{directory}/{name}")
    bases = sorted(int(name[:-4]) for name in names if name.endswith(".seg"))
    if not bases and sync_names:
        sync_above(disk, directory)
    closed = snapshot.FILE_NAME in names and was_closed(disk, directory, bases)
    drop_unused(disk, directory, bases, closed)
    log_id = identity(disk, directory, bases, findings)
    store = Store(
        disk, directory, log_id or os.urandom(16), settings.segment_size, settings.window_size, settings.keys
    )
    if not closed:
        drop_torn(store, bases, findings)
    ceiling = Ceiling(disk, directory)
    try:
        for base_seq in bases:
            take_segment(store, base_seq, base_seq == bases[-1], findings)
        if bases and not closed:
            # Also names that the process before has given and not synced.
            disk.sync_directory(directory)
    except DiskFailed:
        with suppress(DiskFailed):
            ceiling.distrust()
        raise
    expiries = Expiries()
    unerased: list[int] = []
    if not store.segments:
        store.begin(1, clock.now_ns())
    else:
        if not use_snapshot(store, expiries, findings):
            unerased = rebuild(store, expiries, findings)
        if store.segments[-1].sealed:
            # The one behind it was begun, and its name is lost or was of no use.
            store.begin(store.last_seq + 1, clock.now_ns())
    store.count_cold()
    if store.husk_end and settings.tiering is None:
        raise StorageError(
            f"{directory} has messages in the cold tier, and the server's configuration has none"
        )
    store.look_ahead()
    keeper = Keeper(disk, directory, worker, clock, ceiling)
    log = Log(store, settings, clock, worker, expiries, ceiling, keeper)
    keeper.eraser.found(unerased)
    keeper.opened(log)
    log.committer.renamed(log.keeper.sync_names)
    next_seq = ceiling.floor(store.last_seq)
    if next_seq > store.last_seq + 1:
        findings.notes.append(
            f"the power was lost: sequences {store.last_seq + 1} to {next_seq - 1} are not used again"
        )
        log.skip_to(next_seq)
    return log, findings


def open_logs(
    disk: Disk,
    directories: Sequence[str],
    settings: LogSettings,
    clock: Clock,
    worker: Worker,
    threads: int = 2,
) -> list[tuple[Log, Findings]]:
    """Several at once. Most of the work is done without the GIL."""
    disk.lock()
    with ThreadPoolExecutor(threads, "tidelog-open") as pool:
        opened = list(
            pool.map(lambda directory: found_log(disk, directory, settings, clock, worker), directories)
        )
    for log, _ in opened:
        say_skipped(log)
    return opened


def say_skipped(log: Log) -> None:
    """Say in the log what a ceiling made it leave out, before there is one of this boot, which does not say it.

    For certain: when that is lost, and not what follows it, a million sequences that never were would be missed.
    """
    if log.store.last_seq == log.committer.written_seq:
        return
    log.commit()
    try:
        for file in log.store.files_written():
            file.sync()
        log.disk.sync_directory(log.store.path)
    except DiskFailed as error:
        log.committer.fail(StorageError(f"what the power took could not be left out for certain: {error}"))


def make_directory(disk: Disk, directory: str) -> None:
    """With all above it, for certain."""
    disk.make_directory(directory)
    sync_above(disk, directory)


def sync_above(disk: Disk, directory: str) -> None:
    """What is in a directory is no better off than its name. Whoever made it may have ended before this was done."""
    while directory:
        directory = directory.rpartition("/")[0]
        disk.sync_directory(directory)


def was_closed(disk: Disk, directory: str, bases: list[int]) -> bool:
    """Whether the snapshot is of these segments: one that was removed may come back with the power."""
    file = disk.open(f"{directory}/{snapshot.FILE_NAME}")
    try:
        return snapshot.segment_bases(file) == bases
    finally:
        file.close()


def drop_unused(disk: Disk, directory: str, bases: list[int], closed: bool) -> None:
    """Remove segments that were begun and never written to.

    What should stand before them was perhaps not written either: a segment gets its name with the first message for it,
    and its records, behind those of the one before, when they are committed. One amid others was removed once, and its
    name has come back with the power. The last one of a log that was `closed` may be empty for good reason.
    """
    for base_seq in reversed(bases[: -1 if closed else None]):
        path = segment_path(directory, base_seq)
        file = disk.open(path)
        size = file.size
        file.close()
        if size <= HEADER_SIZE and len(bases) > 1:
            disk.remove(path)
            bases.remove(base_seq)


def drop_torn(store: Store, bases: list[int], findings: Findings) -> None:
    """The same with what the power has left nothing of: it would say that sequences were given out, and then not."""
    while len(bases) > 1:
        path = segment_path(store.path, bases[-1])
        if store.disk.exists(index_path(store.path, bases[-1])):
            return
        file = open_plain(store.disk, path, store.keys)
        try:
            size = file.size
            if isinstance(file, PackedFile) or begins_with_a_record(file, store.log_salt):
                return
            found = survey(file.read(0, size), bases[-1], store.log_salt)
        finally:
            file.close()
        if found.end > HEADER_SIZE:
            return
        findings.cut_size += found.torn_size
        findings.notes.append(f"{path}: nothing that was written is left in it; it was removed")
        store.disk.remove(path)
        bases.pop()


def begins_with_a_record(file: File, salt: int) -> bool:
    size = int.from_bytes(file.read(HEADER_SIZE + 4, 4), "little")
    return is_valid(file.read(HEADER_SIZE, min(size, file.size)), 0, salt)


def identity(disk: Disk, directory: str, bases: list[int], findings: Findings) -> bytes | None:
    """The id that the segments share. A damaged header is written again, as the others and the file's name say."""
    found: dict[int, SegmentHeader] = {}
    damaged: list[int] = []
    for base_seq in bases:
        path = segment_path(directory, base_seq)
        file = disk.open(path)
        try:
            found[base_seq] = read_header(file.read(0, HEADER_SIZE), path)
        except NotASegment:
            damaged.append(base_seq)
        finally:
            file.close()
    ids = {header.log_id for header in found.values()}
    if len(ids) > 1:
        raise StorageError(
            f"{directory} holds segments of {len(ids)} logs; move those that do not belong there away"
        )
    log_id = next(iter(ids), None)
    for base_seq in damaged:
        log_id = mend(disk, segment_path(directory, base_seq), base_seq, log_id, findings)
    return log_id


def mend(disk: Disk, path: str, base_seq: int, log_id: bytes | None, findings: Findings) -> bytes:
    """Give a segment whose header is damaged a good one."""
    file = disk.open(path)
    try:
        data = file.read(0, file.size)
        described = described_header(file)
        if described is not None:
            file.write(0, with_flag(described, True))
            file.sync()
            findings.notes.append(f"{path}: the header was damaged and has been written again")
            return read_header(described, path).log_id
        header = mended_header(data, base_seq)
        if header is not None:
            log_id = log_id or read_header(header, path).log_id
        elif log_id is None:
            salt = find_salt(data, HEADER_SIZE)
            log_id = os.urandom(16) if salt is None else salt.to_bytes(4, "little") + os.urandom(12)
        if header is None or read_header(header, path).log_id != log_id:
            header = segment_header(log_id, base_seq, 0)
        if len(data) < HEADER_SIZE:
            file.truncate(0)
            file.append([header])
        else:
            file.write(0, header)
        file.sync()
    finally:
        file.close()
    findings.notes.append(f"{path}: the header was damaged and has been written again")
    return log_id


def described_header(file: File) -> bytes | None:
    """That of the plain segment, as a packed one says it; None: it is not packed."""
    if file.read(HEADER_SIZE, len(PACKED_MAGIC)) != PACKED_MAGIC:
        return None
    try:
        return describe(file).header
    except StorageError:
        return None


def take_segment(store: Store, base_seq: int, last: bool, findings: Findings) -> None:
    disk, path = store.disk, segment_path(store.path, base_seq)
    file = open_plain(disk, path, store.keys)
    size = file.size
    # A packed segment is complete: nothing is torn in it, and nothing is put behind it.
    open_end = last and not isinstance(file, PackedFile)
    side = read_sidecar(disk, index_path(store.path, base_seq), base_seq, size)
    if side is None:
        data = read_plain(file)
        found = survey(data, base_seq, store.log_salt, expected_end=0 if open_end else size)
        findings.surveyed += 1
        for pos, damaged in found.damages:
            findings.notes.append(f"{path}: {damaged} bytes at {pos} are damaged")
        if found.torn_size and open_end:
            file.truncate(found.end)
            findings.cut_size += found.torn_size
            findings.notes.append(
                f"{path}: a torn tail of {found.torn_size} bytes at {found.end} was cut off"
            )
        side = Sidecar.of(found)
        if not isinstance(file, PackedFile):
            # It may be in the system's memory only. Once the system has failed to write something, it believes to have
            # written it; so it is written again, and synced. From here on everybody sees it.
            file.write(0, data[: file.size])
            file.sync()
        if not open_end:
            write_index(disk, index_path(store.path, base_seq), found.index_bytes())
    repairs = list(file.repairs) if isinstance(file, PackedFile) else []
    findings.notes += [
        f"{path}: a bit had turned at {pos}, and was read as it was written" for pos in repairs
    ]
    segment = Segment(disk, path, base_seq, side, file, store.keys, not open_end)
    segment.husk = isinstance(file, PackedFile) and read_header(file.read(0, HEADER_SIZE), path).husk
    if open_end:
        store.adopt(segment)
    else:
        store.take(segment)
    for pos in repairs:
        segment.note_repair(pos)


def read_sidecar(disk: Disk, path: str, base_seq: int, size: int) -> Sidecar | None:
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return Sidecar.parse(file.read(0, file.size), base_seq, size)
    finally:
        file.close()


def use_snapshot(store: Store, expiries: Expiries, findings: Findings) -> bool:
    path = f"{store.path}/{snapshot.FILE_NAME}"
    if not store.disk.exists(path):
        return False
    file = store.disk.open(path)
    try:
        data = file.read(0, file.size)
    finally:
        file.close()
    # What is changed from now on is not in it.
    store.disk.remove(path)
    if findings.surveyed:
        return False
    findings.clean = snapshot.load_snapshot(data, store, expiries)
    if findings.clean:
        for segment in store.segments:
            # All of them are in the index now, and the most of the files that they came in.
            segment.side.take_rows()
    return findings.clean


@dataclass
class Facts:
    """What the records of a log that are no messages say."""

    first_seq: int = 1
    next_seq: int = 1
    last_ts_ns: int = 0
    deleted: list[tuple[int, int, int]] = field(default_factory=list)  # first, count, size
    erased: list[tuple[int, int]] = field(default_factory=list)  # start, end; or still to be
    skipped: list[tuple[int, int]] = field(default_factory=list)  # start, end


def rebuild(store: Store, expiries: Expiries, findings: Findings) -> list[int]:
    """The index from the segments alone. Returns messages that are to be erased, some of which may be."""
    store.forget_index()
    facts = read_facts(store)
    segments = store.segments
    last_seq = max(segments[-1].side.last_seq, facts.next_seq - 1)
    first_seq = max(facts.first_seq, segments[0].base_seq)
    store.set_figures(
        first_seq, last_seq, 0, 0, max(facts.last_ts_ns, *(one.side.last_ts_ns for one in segments))
    )
    holes = missing([(one.base_seq, one.side.last_seq, one.side.holes) for one in segments], last_seq)
    size = sum(segment.side.message_bytes for segment in segments)
    for start_seq, end_seq in facts.skipped:
        store.deleted.add_range(start_seq, end_seq)
    for start_seq, count, record_sizes in facts.deleted:
        end_seq = start_seq + count
        missed = holes.count_range(start_seq, end_seq)
        if missed < count and end_seq > segments[0].base_seq:
            if missed:
                # Some were damaged or lost as well.
                record_sizes = store.size_between(start_seq, end_seq, holes)
            segment = store.segment_at(start_seq)
            segment.dead_count += count - missed
            segment.dead_size += record_sizes
            size -= record_sizes
        store.deleted.add_range(start_seq, start_seq + count)
    size -= store.size_below(first_seq)
    for start_seq, end_seq in unexplained(holes, store.deleted, first_seq):
        store.lost.add_range(start_seq, end_seq)
    for segment in segments:
        rows = segment.side.take_rows()
        if rows is not None and not snapshot.load_rows(store, rows):
            raise StorageError(
                f"{segment.path}: the rows of its index are wrong though its checksum is right"
            )
        for seq, expiry_ns in segment.side.expiries:
            if seq >= first_seq and not store.deleted.contains(seq):
                expiries.add(expiry_ns, seq)
    store.set_figures(first_seq, last_seq, store.index.count, size, store.last_ts_ns)
    # Also those in front of the oldest message that is left: the log begins behind them, and they were not trimmed.
    findings.lost = store.lost.ranges()
    store.settle()
    for start_seq, end_seq in findings.lost:
        findings.notes.append(f"{store.path}: messages {start_seq} to {end_seq - 1} are lost")
    asked = (seq for start_seq, end_seq in facts.erased for seq in range(start_seq, end_seq))
    # A hole in a plain segment may be a message whose erasing was cut short; in a packed one it has been taken out.
    return [
        seq
        for seq in asked
        if seq >= segments[0].base_seq and not (store.segment_at(seq).packed and holes.contains(seq))
    ]


def read_facts(store: Store) -> Facts:
    facts = Facts()
    for segment in store.segments:
        file = segment.file_now()
        for pos in segment.side.controls:
            size = int.from_bytes(read_range(file, pos + 4, 4), "little")
            try:
                record = decode(read_range(file, pos, max(size, RECORD_HEADER_SIZE)), 0, store.log_salt)
            except ValueError:
                continue  # damaged since its index was made; what it explained is told as lost
            take_fact(facts, record["kind"], record["seq"], record["payload"], record["flags"])
            facts.last_ts_ns = max(facts.last_ts_ns, record["ts_ns"])
        segment.close_if_sealed()
    return facts


def take_fact(facts: Facts, kind: int, seq: int, payload: bytes, flags: int = 0) -> None:
    # A sequence that any record names was given out, though its message may be compacted away or damaged.
    next_seq = seq + 1
    if kind == DELETE:
        ranges = decode_ranges(payload) or []
        facts.deleted += ranges
        if flags & ERASED:
            facts.erased += [(first, first + count) for first, count, _ in ranges]
        next_seq = max([next_seq, *(first + count for first, count, _ in ranges[-1:])])
    elif kind == TRIM:
        next_seq = max(next_seq, int.from_bytes(payload, "little"))
        facts.first_seq = max(facts.first_seq, int.from_bytes(payload, "little"))
    elif kind == SKIP:
        next_seq = int.from_bytes(payload, "little")
        facts.skipped.append((seq + 1, next_seq))
    facts.next_seq = max(facts.next_seq, next_seq)


def missing(segments: list[tuple[int, int, list[tuple[int, int]]]], last_seq: int) -> SequenceSet:
    """Sequences that none of the segments, each with its base, last sequence and holes, has."""
    holes = SequenceSet()
    end_seq = segments[0][0]
    for base_seq, segment_last_seq, segment_holes in segments:
        if base_seq > end_seq:
            holes.add_range(end_seq, base_seq)
        for start_seq, count in segment_holes:
            holes.add_range(start_seq, start_seq + count)
        end_seq = max(end_seq, segment_last_seq + 1)
    if last_seq >= end_seq:
        holes.add_range(end_seq, last_seq + 1)
    return holes


def unexplained(holes: SequenceSet, deleted: SequenceSet, first_seq: int) -> list[tuple[int, int]]:
    """Ranges of `holes` from `first_seq` on that nobody deleted or skipped. What is skipped may be a long way."""
    found = []
    for start_seq, end_seq in holes.ranges():
        seq = deleted.next_absent(max(start_seq, first_seq))
        while seq < end_seq:
            past_seq = min(deleted.next_present(seq) or end_seq, end_seq)
            found.append((seq, past_seq))
            seq = deleted.next_absent(past_seq)
    return found
