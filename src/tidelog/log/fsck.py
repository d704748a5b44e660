"""Checks what is in the directory of a log, byte by byte, and mends what opening it would mend.

Promises
  * Nothing is changed unless repair is asked for. Then it is what opening does, and no more: a torn tail is cut off, a
    damaged header is written again, index files are made anew, what is of no use is removed. Damage stays where it is.
  * Every record of every segment is read, also where an index is there and right; so a flipped bit anywhere is found.
  * What a key is missing for is said, and is no damage.
  * Somebody may write to the log meanwhile: if its files change while they are read, it is read again, and what is
    only unfinished is not called damage. Repair is for a log that nobody uses.

How: the same survey, facts and rules as in `recover`, segment by segment, so that memory is needed for one segment at a
time. A finding has a severity, and the worst one is the exit code of the command.

It prints nothing.
"""

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from tidelog.base.clock import Clock
from tidelog.base.errors import DiskFailed, KeyUnavailable, StorageError
from tidelog.base.seqset import SequenceSet
from tidelog.disk.disk import Disk, File
from tidelog.log import ceiling, cursor, snapshot
from tidelog.log.cursor_file import read_cursors
from tidelog.log.header import (
    HEADER_SIZE,
    NotASegment,
    SegmentHeader,
    index_path,
    mended_header,
    read_header,
    segment_path,
    write_index,
)
from tidelog.log.index_check import judge_index
from tidelog.log.key_ring import KeyRing
from tidelog.log.packed import PackedFile
from tidelog.log.plain import open_plain, read_plain
from tidelog.log.record import checksum, decode, find_salt
from tidelog.log.recover import Facts, Findings, mend, missing, take_fact, unexplained
from tidelog.log.sidecar import refusal
from tidelog.log.survey import Survey, survey
from tidelog.log.walk import reason

_SEGMENT = re.compile(r"\d{20}\.seg")
_INDEX = re.compile(r"\d{20}\.idx")
_WARM = re.compile(r"\d{20}-\d+\.warm")  # a copy, which opening removes
_NEW = ".new"
_KNOWN = {snapshot.FILE_NAME, ceiling.FILE_NAME, ceiling.DOUBT_NAME, cursor.FILE_NAME}
# A store has levels of directories; one that leads back into itself does not end.
_DEPTH_MOST = 16
_SEQ_MOST = 2**64 - 2


class Severity(IntEnum):
    """How bad it is; also the exit code."""

    NOTE = 0
    REPAIRABLE = 1
    LOSS = 2
    UNREADABLE = 3


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    name: str  # of the file; empty: the log as a whole
    text: str
    repaired: bool = False


@dataclass(slots=True)
class SegmentReport:
    name: str
    base_seq: int
    last_seq: int = 0
    messages: int = 0
    size: int = 0  # of the file
    torn_size: int = 0
    damaged: list[tuple[int, int, str]] = field(default_factory=list)  # position, size, reason
    index: str = ""  # right, missing, none (the open segment needs none), or what is wrong with it
    packed: str = ""  # how; empty: it is not
    checked: bool = True


@dataclass(slots=True)
class LogReport:
    directory: str
    log_id: str = ""
    in_use: bool = False
    segments: list[SegmentReport] = field(default_factory=list)
    # None: not known, as not everything could be read.
    messages: int | None = None
    first_seq: int = 0
    last_seq: int = 0
    deleted: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    snapshot: str = "none"  # none, usable, or why not
    ceiling: int | None = None
    cursors: int | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def severity(self) -> Severity:
        return max((finding.severity for finding in self.findings), default=Severity.NOTE)


def find_logs(disk: Disk, directory: str) -> list[str]:
    """The directories that hold a log: this one, and those below it. Raises DiskFailed if it is none."""
    return list(_logs_below(disk, directory, _DEPTH_MOST))


def _logs_below(disk: Disk, directory: str, depth: int) -> Iterator[str]:
    names = disk.list(directory)
    if any(_SEGMENT.fullmatch(name) for name in names):
        yield directory
    for name in names if depth else ():
        if _SEGMENT.fullmatch(name) or _INDEX.fullmatch(name):
            continue
        try:
            yield from _logs_below(disk, f"{directory}/{name}", depth - 1)
        except DiskFailed as error:
            if error.errno not in (errno.ENOTDIR, errno.ENOENT):
                raise


def check_log(disk: Disk, directory: str, keys: KeyRing | None = None) -> LogReport:
    """What is in the directory. Raises DiskFailed if it cannot even be listed."""
    before = _sizes(disk, directory)
    report = _Check(disk, directory, keys).run()
    if _sizes(disk, directory) != before:
        report = _Check(disk, directory, keys, in_use=True).run()
    return report


def repair_log(disk: Disk, directory: str, clock: Clock, keys: KeyRing | None = None) -> LogReport:
    """The same, and what opening would mend is mended. Nobody else may use the log."""
    check = _Check(disk, directory, keys, clock)
    report = check.run()
    disk.sync_directory(directory)
    return report


def _sizes(disk: Disk, directory: str) -> dict[str, int]:
    sizes = {}
    for name in disk.list(directory):
        try:
            file = disk.open(f"{directory}/{name}")
        except DiskFailed:
            continue
        sizes[name] = file.size
        file.close()
    return sizes


class _Check:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        keys: KeyRing | None,
        clock: Clock | None = None,
        in_use: bool = False,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.keys = keys
        # With a clock, repair.
        self.clock = clock
        self.report = LogReport(directory, in_use=in_use)
        self.facts = Facts()
        self.parts: list[tuple[int, int, list[tuple[int, int]]]] = []
        self.sizes: list[tuple[int, int]] = []
        self.complete = True
        self.log_id: bytes | None = None
        self.salt = 0
        self.end_checksum = 0

    def run(self) -> LogReport:
        names = self.disk.list(self.directory)
        self.leftovers(names)
        bases = self.begun([int(name[:-4]) for name in names if _SEGMENT.fullmatch(name)], names)
        headers = self.identity(bases)
        if headers is None:
            return self.report
        for base_seq, next_seq in zip(bases, [*bases[1:], None], strict=False):
            self.segment(base_seq, next_seq)
        if self.parts and self.complete:
            self.figures()
        self.check_snapshot()
        self.check_ceiling()
        self.check_cursors()
        return self.report

    # ---- telling ----

    def say(self, severity: Severity, name: str, text: str, repaired: bool = False) -> None:
        self.report.findings.append(Finding(severity, name, text, repaired))

    def repairable(self, name: str, text: str, job: Callable[[], object]) -> None:
        """Something that opening mends, by `job`."""
        if self.report.in_use:
            self.say(Severity.NOTE, name, f"{text}; the log is in use, so this may be unfinished only")
        elif self.clock is None:
            self.say(Severity.REPAIRABLE, name, text)
        else:
            job()
            self.say(Severity.REPAIRABLE, name, text, repaired=True)

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def read(self, name: str) -> bytes | None:
        """None: there is no such file."""
        try:
            file = self.disk.open(self.path(name))
        except DiskFailed as error:
            if error.errno != errno.ENOENT:
                raise
            return None
        try:
            return file.read(0, file.size)
        finally:
            file.close()

    def remove(self, name: str) -> Callable[[], None]:
        return lambda: self.disk.remove(self.path(name))

    # ---- the parts of a log ----

    def leftovers(self, names: list[str]) -> None:
        segments = {name[:-4] for name in names if _SEGMENT.fullmatch(name)}
        for name in names:
            if name.endswith(_NEW):
                self.repairable(name, "was being written when the process ended", self.remove(name))
            elif _INDEX.fullmatch(name) and name[:-4] not in segments:
                self.say(Severity.NOTE, name, "an index without its segment")
            elif name not in _KNOWN and not any(kind.fullmatch(name) for kind in (_SEGMENT, _INDEX, _WARM)):
                self.stray(name)

    def begun(self, bases: list[int], names: list[str]) -> list[int]:
        """Without the segments that were begun and never written to, as opening does (`recover.drop_unused`)."""
        kept = list(bases)
        for base_seq in reversed(bases[: -1 if snapshot.FILE_NAME in names else None]):
            path = segment_path(self.directory, base_seq)
            file = self.disk.open(path)
            size = file.size
            file.close()
            if size <= HEADER_SIZE and len(kept) > 1:
                self.say(Severity.NOTE, path.rpartition("/")[2], "was begun, and nothing was written to it")
                kept.remove(base_seq)
        return kept

    def stray(self, name: str) -> None:
        """Something else, unless it is a directory."""
        try:
            self.disk.list(self.path(name))
        except DiskFailed:
            self.say(Severity.NOTE, name, "no file of a log")

    def identity(self, bases: list[int]) -> dict[int, SegmentHeader] | None:
        """The headers. None: they are of several logs, or of another version."""
        found: dict[int, SegmentHeader] = {}
        damaged: list[tuple[int, str]] = []
        for base_seq in bases:
            path = segment_path(self.directory, base_seq)
            name = path.rpartition("/")[2]
            try:
                file = self.disk.open(path)
                data = file.read(0, HEADER_SIZE)
                file.close()
                found[base_seq] = read_header(data, path)
            except NotASegment:
                damaged.append((base_seq, name))
                continue
            except StorageError as error:
                if self.disk.exists(path):
                    self.say(Severity.UNREADABLE, name, str(error))
                    return None
                continue
            if found[base_seq].base_seq != base_seq:
                self.say(
                    Severity.LOSS, name, f"is another segment by its header: {found[base_seq].base_seq:020d}"
                )
        ids = {header.log_id for header in found.values()}
        if len(ids) > 1:
            self.say(Severity.UNREADABLE, "", f"holds segments of {len(ids)} logs")
            return None
        self.log_id = next(iter(ids), None)
        for base_seq, name in damaged:
            self.damaged_header(base_seq, name)
        if self.log_id is not None:
            self.salt = int.from_bytes(self.log_id[:4], "little")
            self.report.log_id = self.log_id.hex()
        return found

    def damaged_header(self, base_seq: int, name: str) -> None:
        path = segment_path(self.directory, base_seq)
        try:
            file = open_plain(self.disk, path, self.keys)
        except KeyUnavailable:
            self.say(Severity.NOTE, name, "the header is damaged; the copy of it in the file is good")
            return
        packed = isinstance(file, PackedFile)
        data = read_plain(file)
        file.close()
        if packed:
            self.say(Severity.NOTE, name, "the header is damaged; the copy of it in the file is good")
            self.log_id = self.log_id or read_header(data[:HEADER_SIZE], path).log_id
            return
        if self.log_id is None:
            mended = mended_header(data, base_seq)
            if mended is not None:
                self.log_id = read_header(mended, path).log_id
            else:
                self.salt = find_salt(data, HEADER_SIZE) or 0

        def job() -> None:
            self.log_id = mend(self.disk, path, base_seq, self.log_id, Findings())

        self.repairable(name, "the header is damaged", job)

    # ---- segments ----

    def segment(self, base_seq: int, next_seq: int | None) -> None:
        path = segment_path(self.directory, base_seq)
        one = SegmentReport(path.rpartition("/")[2], base_seq, last_seq=base_seq - 1)
        index_name = index_path(self.directory, base_seq).rpartition("/")[2]
        index = self.read(index_name)
        try:
            file, data, one.size = self.contents(path)
        except KeyUnavailable as error:
            self.sealed_segment(one, index, error)
            return
        except StorageError as error:
            self.unreadable(one, path, error)
            return
        if isinstance(file, PackedFile):
            described = file.description
            words = [word.name.lower() for word in (described.compression, described.cipher) if word]
            one.packed = "+".join(words) or "plain"
            for text in file.damage:
                self.say(
                    Severity.NOTE, one.name, f"{text} is damaged; the file says it twice, nothing is lost"
                )
            for pos, right in file.repairs.items():
                self.turned_bit(one.name, pos, right)
        self.report.segments.append(one)
        self.plain_segment(one, data, index_name, index, next_seq)

    def turned_bit(self, name: str, pos: int, right: bytes) -> None:
        def job() -> None:
            file = self.disk.open(self.path(name))
            try:
                file.write(pos, right)
                file.sync()
            finally:
                file.close()

        self.repairable(
            name, f"a bit had turned at {pos} of the file; its checksum says which, nothing is lost", job
        )

    def contents(self, path: str) -> tuple[File, bytes, int]:
        """The file, closed, the plain bytes, and the size of the file."""
        file = open_plain(self.disk, path, self.keys)
        try:
            return file, read_plain(file), file.file.size if isinstance(file, PackedFile) else file.size
        finally:
            file.close()

    def unreadable(self, one: SegmentReport, path: str, error: StorageError) -> None:
        self.complete = False
        if not self.disk.exists(path):
            return  # retention was faster
        one.checked, one.index = False, "not checked"
        self.report.segments.append(one)
        self.say(Severity.UNREADABLE, one.name, str(error))

    def sealed_segment(self, one: SegmentReport, index: bytes | None, error: KeyUnavailable) -> None:
        """One whose key is not here. Its index may tell something."""
        one.checked, one.packed, one.index = False, "sealed", "missing" if index is None else "not checked"
        file = self.disk.open(segment_path(self.directory, one.base_seq))
        one.size = file.size
        file.close()
        self.report.segments.append(one)
        self.say(Severity.NOTE, one.name, f"not checked: {error}")
        self.complete = False

    def plain_segment(
        self, one: SegmentReport, data: bytes, index_name: str, index: bytes | None, next_seq: int | None
    ) -> None:
        last = next_seq is None
        seq_most = _SEQ_MOST if next_seq is None else next_seq - 1
        expected_end = 0 if last and (index is None or refusal(index, one.base_seq, len(data))) else len(data)
        found = survey(data, one.base_seq, self.salt, seq_most, expected_end)
        if found.damages and not last:
            # A message that is being erased is neither what it was nor what it will be.
            _, again, _ = self.contents(self.path(one.name))
            if again != data:
                self.report.in_use = True
                data, found = again, survey(again, one.base_seq, self.salt, seq_most, len(again))
        one.messages, one.last_seq = found.messages, found.last_seq
        for pos, size in found.damages:
            why = reason(data, pos, self.salt)
            one.damaged.append((pos, size, why))
            self.say(Severity.LOSS, one.name, f"{size} bytes at {pos} are damaged: {why}")
        if found.torn_size:
            self.torn(one, found, reason(data, found.end, self.salt))
        verdict = judge_index(index, found, data, self.salt, last)
        one.index = verdict.text
        if verdict.cut_from:
            lacking = verdict.cut_from - len(data)
            self.say(
                Severity.LOSS, one.name, f"cut short: its index was made when it had {lacking} bytes more"
            )
        if verdict.wrong:
            new = found.index_bytes()
            path = self.path(index_name)
            self.repairable(index_name, verdict.text, lambda: write_index(self.disk, path, new))
        for pos in found.controls:
            record = decode(data, pos, self.salt)
            take_fact(self.facts, record["kind"], record["seq"], record["payload"])
        self.parts.append((one.base_seq, found.last_seq, found.holes))
        self.sizes.append((one.base_seq, found.end))
        self.end_checksum = checksum(data[max(0, found.end - snapshot.TAIL_SIZE) : found.end])

    def torn(self, one: SegmentReport, found: Survey, why: str) -> None:
        one.torn_size = found.torn_size
        path = segment_path(self.directory, one.base_seq)

        def cut() -> None:
            file = self.disk.open(path)
            try:
                file.truncate(found.end)
                file.sync()
            finally:
                file.close()

        self.repairable(one.name, f"a torn tail of {found.torn_size} bytes at {found.end}: {why}", cut)

    # ---- the log as a whole ----

    def figures(self) -> None:
        report, facts = self.report, self.facts
        last_seq = max(self.parts[-1][1], facts.next_seq - 1)
        first_seq = max(facts.first_seq, self.parts[0][0])
        holes, deleted = missing(self.parts, last_seq), SequenceSet()
        for start_seq, end_seq in facts.skipped:
            deleted.add_range(start_seq, end_seq)
        for start_seq, count, _ in facts.deleted:
            deleted.add_range(start_seq, start_seq + count)
        absent = SequenceSet()
        for start_seq, end_seq in (*holes.ranges(), *deleted.ranges()):
            absent.add_range(start_seq, end_seq)
        report.last_seq = last_seq
        report.first_seq = first_seq = min(absent.next_absent(first_seq), last_seq + 1)
        report.messages = last_seq + 1 - first_seq - absent.count_range(first_seq, last_seq + 1)
        report.deleted = deleted.count_range(first_seq, last_seq + 1)
        report.lost = unexplained(holes, deleted, max(facts.first_seq, self.parts[0][0]))
        for start_seq, end_seq in report.lost:
            alone = end_seq == start_seq + 1
            which = f"message {start_seq} is" if alone else f"messages {start_seq} to {end_seq - 1} are"
            self.say(Severity.LOSS, "", f"{which} lost")

    def check_snapshot(self) -> None:
        name = snapshot.FILE_NAME
        data = self.read(name)
        if data is None:
            return
        why = snapshot.damage(data)
        if not why:
            why = self.compare(snapshot.Contents(data))
        self.report.snapshot = why or "usable"
        if why and why != "not checked":
            self.repairable(name, f"cannot be used: {why}", self.remove(name))

    def compare(self, contents: snapshot.Contents) -> str:
        report = self.report
        if report.messages is None or self.log_id is None:
            return "not checked"
        why = contents.mismatch(self.log_id, self.sizes, self.end_checksum)
        if why:
            return why
        told = (contents.first_seq, contents.last_seq, contents.messages, contents.lost)
        if told == (report.first_seq, report.last_seq, report.messages, report.lost):
            return ""
        return (
            f"it has {contents.messages} messages from {contents.first_seq} to {contents.last_seq}, "
            f"the segments {report.messages} from {report.first_seq} to {report.last_seq}"
        )

    def check_ceiling(self) -> None:
        data = self.read(ceiling.FILE_NAME)
        if data is None:
            return
        found = ceiling.read_ceiling(data)
        if found is None:
            text = "damaged: the log goes on above what it may have given out"
            if self.report.snapshot == "usable":
                # All was synced then, and nothing was lost.
                self.repairable(ceiling.FILE_NAME, text, self.remove(ceiling.FILE_NAME))
            elif self.report.messages is None:
                self.say(Severity.NOTE, ceiling.FILE_NAME, text)
            else:
                new = ceiling.Ceiling(self.disk, self.directory)
                self.repairable(ceiling.FILE_NAME, text, lambda: new.floor(self.report.last_seq))
            return
        self.report.ceiling, boot_id = found
        doubted = self.read(ceiling.DOUBT_NAME) is not None
        if (doubted or boot_id != self.disk.boot_id()) and self.report.ceiling > self.report.last_seq:
            self.say(
                Severity.NOTE,
                ceiling.FILE_NAME,
                f"the power was lost or a sync failed while the log was open; it goes on above {self.report.ceiling}",
            )

    def check_cursors(self) -> None:
        name = cursor.FILE_NAME
        data = self.read(name)
        if data is None:
            return
        try:
            contents = read_cursors(data)
        except StorageError as error:
            self.say(Severity.UNREADABLE, name, str(error))
            return
        self.report.cursors = len(contents.cursors)
        if contents.damaged:
            self.say(Severity.LOSS, name, f"{contents.damaged} records are lost")
        doubtful = sorted(one.name for one in contents.cursors.values() if one.doubtful)
        if doubtful:
            self.say(Severity.NOTE, name, f"newer values may be lost of {', '.join(doubtful)}")
        if contents.cut_size or contents.damaged:
            self.repairable(name, f"{contents.cut_size} bytes of unfinished writes", self.secure_cursors)

    def secure_cursors(self) -> None:
        assert self.clock is not None
        store = cursor.CursorStore.open(self.disk, self.directory, self.clock)
        failure = store.failure
        store.close()
        if failure is not None:
            raise failure
