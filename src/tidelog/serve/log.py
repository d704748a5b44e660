"""The log: one line per event, in the form that operators and harnesses of nats-server parse.

    [pid] 2026/11/18 12:00:00.000000 [INF] text

Promises: a line is one `os.write`; logging never raises, whatever the disk or the receiver does (lines that
could not be written are counted, and the first that can be written again is preceded by one that tells the
number); control characters in a text are escaped, so nobody outside can forge a line. `debug_on` and
`trace_on` are plain attributes: the caller tests them before it builds a text.

How it works: a `Logger` passes level and text to its sink. Sinks write to a descriptor, to a file that
rotates by size, or to syslog. `apply` exchanges the sink in place (reload), so everybody may keep the one
`Logger`.

It does not end the process on `fatal`, knows no logger names and no filters, and serves the loop's thread
only.
"""

import os
import time
from dataclasses import dataclass
from typing import Protocol

from tidelog.base.clock import Clock, SystemClock
from tidelog.base.errors import ConfigError

INF, DBG, WRN, ERR, FTL, TRC = "INF", "DBG", "WRN", "ERR", "FTL", "TRC"

COLOURS = {INF: "32", DBG: "36", WRN: "0;93", ERR: "31", FTL: "31", TRC: "33"}
FILE_MODE = 0o640
STDERR = 2

# C0, DEL and C1: what could end a line or steer a terminal. Tabs are harmless and stay.
ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 9} | {
    10: "\\n",
    13: "\\r",
}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Where lines go (the first that is set: `file`, `remote_syslog`, `syslog`, else stderr) and which."""

    file: str = ""
    size_limit: int = 0  # bytes after which the file is rotated; 0: never
    max_num: int = 0  # log files kept, the current one included; 0: all
    syslog: bool = False
    remote_syslog: str = ""  # udp://host:port, tcp://host:port or unix:///path
    time: bool = True
    utc: bool = False
    debug: bool = False
    trace: bool = False


class Sink(Protocol):
    """Where lines go. `write` and `reopen` never raise."""

    def write(self, level: str, text: str) -> None: ...

    def reopen(self) -> bool:
        """Open the file anew (it was moved away). False: there is no file, or it could not be opened."""

    def close(self) -> None: ...


class NullSink:
    """Drops every line."""

    def write(self, level: str, text: str) -> None:
        pass

    def reopen(self) -> bool:
        return False

    def close(self) -> None:
        pass


class LineFormat:
    """Level and text to the bytes of one line."""

    def __init__(
        self, clock: Clock, settings: LogSettings, *, colour: bool = False, pid: int | None = None
    ) -> None:
        self.clock = clock
        self.prefix = f"[{os.getpid() if pid is None else pid}] "
        self.labels = {
            level: f"[\x1b[{code}m{level}\x1b[0m] " if colour else f"[{level}] "
            for level, code in COLOURS.items()
        }
        self.time = settings.time
        self.utc = settings.utc
        # strftime costs more than all the rest; lines of one second share it.
        self.second = -1
        self.stamp = ""

    def line(self, level: str, text: str) -> bytes:
        if not text.isprintable():
            text = text.translate(ESCAPES)
        stamp = self.timestamp() if self.time else ""
        return f"{self.prefix}{stamp}{self.labels[level]}{text}\n".encode("utf-8", "backslashreplace")

    def timestamp(self) -> str:
        second, rest_ns = divmod(self.clock.now_ns(), 1_000_000_000)
        if second != self.second:
            parts = time.gmtime(second) if self.utc else time.localtime(second)
            self.stamp = time.strftime("%Y/%m/%d %H:%M:%S", parts)
            self.second = second
        return f"{self.stamp}.{rest_ns // 1000:06d} "


class StreamSink:
    """Lines to an open descriptor, usually stderr, which is not closed."""

    def __init__(self, form: LineFormat, fd: int = STDERR) -> None:
        self.form = form
        self.fd = fd
        self.lost = 0

    def write(self, level: str, text: str) -> None:
        if self.lost:
            notice = f"{self.lost} log lines could not be written and are lost"
            if not self.put(self.form.line(WRN, notice)):
                self.lost += 1
                return
            self.lost = 0
        if not self.put(self.form.line(level, text)):
            self.lost += 1

    def put(self, data: bytes) -> bool:
        try:
            os.write(self.fd, data)
        except OSError:
            return False
        return True

    def reopen(self) -> bool:
        return False

    def close(self) -> None:
        pass


class FileSink(StreamSink):
    """Lines to a file; beyond `size_limit` bytes it is renamed to `<file>.YYYY.MM.DD.hh.mm.ss.nnnnnnnnn`."""

    def __init__(self, form: LineFormat, path: str, size_limit: int = 0, max_num: int = 0) -> None:
        try:
            fd = open_append(path)
        except OSError as error:
            raise ConfigError(f"error opening file: open {path}: {str(error.strerror).lower()}") from error
        super().__init__(form, fd)
        self.path = path
        self.size = os.fstat(fd).st_size
        self.size_limit = size_limit
        self.next_limit = size_limit
        self.max_num = max_num

    def put(self, data: bytes) -> bool:
        written = super().put(data)
        if written:
            self.size += len(data)
            if 0 < self.next_limit < self.size:
                self.rotate()
        return written

    def rotate(self) -> None:
        second, rest_ns = divmod(self.form.clock.now_ns(), 1_000_000_000)
        kept = f"{self.path}.{time.strftime('%Y.%m.%d.%H.%M.%S', time.localtime(second))}.{rest_ns:09d}"
        try:
            os.rename(self.path, kept)
            self.exchange(open_append(self.path))
        except OSError as error:
            # Say so once per doubling and go on in the file that is open.
            self.next_limit *= 2
            then = f"will attempt next rotation at size {self.next_limit}"
            self.put_size(self.form.line(ERR, f"Unable to rotate logfile ({error.strerror}), {then}"))
            return
        self.next_limit = self.size_limit
        self.put_size(self.form.line(INF, f'Rotated log, backup saved as "{kept}"'))
        if self.max_num > 0:
            self.purge()

    def purge(self) -> None:
        folder, name = os.path.split(self.path)
        try:
            backups = sorted(entry for entry in os.listdir(folder or ".") if is_backup(entry, name))
            for entry in backups[: max(0, len(backups) - (self.max_num - 1))]:
                os.remove(os.path.join(folder, entry))
                self.put_size(self.form.line(INF, f'Purged log file "{entry}"'))
        except OSError as error:
            text = f"Unable to purge log files ({error.strerror}), will attempt next rotation"
            self.put_size(self.form.line(ERR, text))

    def put_size(self, data: bytes) -> None:
        """Write without looking at the limit: one below the length of a notice must not rotate for ever."""
        if super().put(data):
            self.size += len(data)

    def exchange(self, fd: int) -> None:
        old, self.fd = self.fd, fd
        self.size = os.fstat(fd).st_size
        os.close(old)

    def reopen(self) -> bool:
        try:
            self.exchange(open_append(self.path))
        except OSError as error:
            self.write(ERR, f"Unable to re-open the logfile ({error.strerror}), going on in the old one")
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)
        # Late lines go to the last resort instead of into whatever file gets this number next.
        self.fd = STDERR
        self.next_limit = 0


class Logger:
    """What everybody logs to."""

    def __init__(self, sink: Sink, *, debug: bool = False, trace: bool = False) -> None:
        self.sink = sink
        self.debug_on = debug
        self.trace_on = trace

    def info(self, text: str) -> None:
        self.sink.write(INF, text)

    def warn(self, text: str) -> None:
        self.sink.write(WRN, text)

    def error(self, text: str) -> None:
        self.sink.write(ERR, text)

    def fatal(self, text: str) -> None:
        """The last words; the caller ends the process."""
        self.sink.write(FTL, text)

    def debug(self, text: str) -> None:
        if self.debug_on:
            self.sink.write(DBG, text)

    def trace(self, text: str) -> None:
        if self.trace_on:
            self.sink.write(TRC, text)

    def apply(self, settings: LogSettings, clock: Clock | None = None) -> None:
        """Log as `settings` say from now on. ConfigError: the sink cannot be opened; nothing has changed."""
        sink = open_sink(settings, clock or SystemClock())
        self.sink.close()
        self.sink = sink
        self.debug_on = settings.debug
        self.trace_on = settings.trace

    def reopen(self) -> None:
        """After an outside tool has moved the file (SIGUSR1)."""
        if self.sink.reopen():
            self.info("File log re-opened")
        elif not isinstance(self.sink, FileSink):
            self.info("File log re-open ignored, not a file logger")

    def close(self) -> None:
        self.sink.close()


def open_log(settings: LogSettings, clock: Clock | None = None) -> Logger:
    """ConfigError: the file or the syslog cannot be opened."""
    sink = open_sink(settings, clock or SystemClock())
    return Logger(sink, debug=settings.debug, trace=settings.trace)


def open_sink(settings: LogSettings, clock: Clock) -> Sink:
    if settings.file:
        return FileSink(LineFormat(clock, settings), settings.file, settings.size_limit, settings.max_num)
    if settings.remote_syslog or settings.syslog:
        from tidelog.serve import syslog  # rarely wanted; the listener should not wait for it

        return (
            syslog.RemoteSyslog(settings.remote_syslog, clock)
            if settings.remote_syslog
            else syslog.LocalSyslog()
        )
    return StreamSink(LineFormat(clock, settings, colour=os.isatty(STDERR)))


def open_append(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)


def is_backup(entry: str, name: str) -> bool:
    """Did `rotate` make this name: `<name>.` and seven groups of digits?"""
    if not entry.startswith(name + "."):
        return False
    groups = entry[len(name) + 1 :].split(".")
    return len(groups) == 7 and all(group.isdigit() for group in groups)
