"""Bytes of a line, rotation, reopening, syslog; and that nothing of it ever raises."""

import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.base.clock import ManualClock
from tidelog.base.errors import ConfigError
from tidelog.serve.log import (
    DBG,
    INF,
    FileSink,
    LineFormat,
    Logger,
    LogSettings,
    NullSink,
    StreamSink,
    open_log,
)

NOON_NS = 1_794_996_000_123_456_789  # 2026-11-18 10:00:00 UTC


class ListSink(NullSink):
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append((level, text))


def form(time: bool = True) -> LineFormat:
    return LineFormat(ManualClock(NOON_NS), LogSettings(utc=True, time=time), pid=42)


def test_line_is_what_harnesses_parse() -> None:
    assert form().line(INF, "Server is ready") == b"[42] 2026/11/18 10:00:00.123456 [INF] Server is ready\n"


def test_line_without_time() -> None:
    assert form(time=False).line(DBG, "x") == b"[42] [DBG] x\n"


def test_colour_wraps_the_label_only() -> None:
    line = LineFormat(ManualClock(NOON_NS), LogSettings(time=False), colour=True, pid=42).line("WRN", "x")
    assert line == b"[42] [\x1b[0;93mWRN\x1b[0m] x\n"


def test_stamp_follows_the_second() -> None:
    clock = ManualClock(NOON_NS)
    lines = LineFormat(clock, LogSettings(utc=True), pid=1)
    lines.line(INF, "a")
    clock.advance(seconds=61)
    assert lines.line(INF, "b") == b"[1] 2026/11/18 10:01:01.123456 [INF] b\n"


def test_nobody_can_forge_a_line_or_steer_a_terminal() -> None:
    line = form(time=False).line(INF, "name\r\n[1] [FTL] forged\x1b[2J\tä\ud800\x9b")
    assert line == "[42] [INF] name\\r\\n[1] [FTL] forged\\x1b[2J\tä\\ud800\\x9b\n".encode()


def test_debug_and_trace_are_dropped_unless_switched_on() -> None:
    sink = ListSink()
    log = Logger(sink)
    log.debug("d")
    log.trace("t")
    assert sink.lines == []
    log.debug_on = log.trace_on = True
    log.debug("d")
    log.trace("t")
    log.warn("w")
    log.error("e")
    log.fatal("f")
    assert sink.lines == [("DBG", "d"), ("TRC", "t"), ("WRN", "w"), ("ERR", "e"), ("FTL", "f")]


def test_file_is_appended_to_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"before\n")
    log = open_log(LogSettings(file=str(path), time=False), ManualClock(NOON_NS))
    log.info("x")
    log.close()
    assert path.read_bytes() == b"before\n[%d] [INF] x\n" % os.getpid()
    new = tmp_path / "new.log"
    open_log(LogSettings(file=str(new)), ManualClock(NOON_NS)).close()
    assert new.stat().st_mode & 0o777 & ~0o640 == 0


def test_file_that_cannot_be_opened_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"error opening file: open .*/no/x.log: no such file or directory"):
        open_log(LogSettings(file=str(tmp_path / "no" / "x.log")))


def test_rotation_happens_beyond_the_limit_not_at_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = form(time=False)
    size = len(lines.line(INF, "x"))
    sink = FileSink(lines, str(path), size_limit=2 * size)
    sink.write(INF, "x")
    sink.write(INF, "x")
    assert os.listdir(tmp_path) == ["a.log"]
    sink.write(INF, "x")
    sink.close()
    kept = next(name for name in os.listdir(tmp_path) if name != "a.log")
    assert re.fullmatch(r"a\.log\.\d{4}\.\d\d\.\d\d\.\d\d\.\d\d\.\d\d\.123456789", kept)
    assert (tmp_path / kept).stat().st_size == 3 * size
    assert path.read_text() == f'[42] [INF] Rotated log, backup saved as "{path}.{kept[6:]}"\n'


def test_rotation_keeps_max_num_files_and_touches_no_others(tmp_path: Path) -> None:
    clock = ManualClock(NOON_NS)
    (tmp_path / "a.log.old").touch()
    (tmp_path / "a.log.2026.01.01.00.00.00.000000001").touch()
    sink = FileSink(LineFormat(clock, LogSettings(), pid=1), str(tmp_path / "a.log"), size_limit=1, max_num=3)
    for _ in range(4):
        sink.write(INF, "x")
        clock.advance(seconds=1)
    sink.close()
    names = sorted(os.listdir(tmp_path))
    assert names[0] == "a.log"
    assert names[-1] == "a.log.old"
    assert len(names) == 4
    assert "a.log.2026.01.01.00.00.00.000000001" not in names
    assert "Purged log file" in (tmp_path / "a.log").read_text()


def test_rotation_that_fails_goes_on_in_the_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "rename", refuse)
    sink = FileSink(form(time=False), str(tmp_path / "a.log"), size_limit=10)
    sink.write(INF, "first")
    sink.write(INF, "second")
    sink.close()
    text = (tmp_path / "a.log").read_text()
    assert "Unable to rotate logfile (Permission denied), will attempt next rotation at size 20" in text
    assert "first" in text
    assert "second" in text


def test_reopen_follows_a_moved_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = open_log(LogSettings(file=str(path), time=False))
    log.info("one")
    path.rename(tmp_path / "b.log")
    log.info("two")
    log.reopen()
    log.info("three")
    log.close()
    assert "two" in (tmp_path / "b.log").read_text()
    assert [line.split("] ")[-1] for line in path.read_text().splitlines()] == ["File log re-opened", "three"]


def test_reopen_without_a_file_says_so() -> None:
    sink = ListSink()
    Logger(sink).reopen()
    assert sink.lines == [("INF", "File log re-open ignored, not a file logger")]


def test_reopen_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    log = open_log(LogSettings(file=str(folder / "a.log"), time=False))
    folder.rename(tmp_path / "e")
    log.reopen()
    log.info("still here")
    log.close()
    text = (tmp_path / "e" / "a.log").read_text()
    assert "Unable to re-open the logfile (No such file or directory)" in text
    assert "still here" in text


def test_full_disk_never_raises_and_is_told_afterwards(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    sink = StreamSink(form(time=False), full)
    for _ in range(3):
        sink.write(INF, "lost")
    os.close(full)
    path = tmp_path / "a"
    sink.fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    sink.write(INF, "found")
    os.close(sink.fd)
    assert path.read_text() == "[42] [WRN] 3 log lines could not be written and are lost\n[42] [INF] found\n"


def test_apply_changes_switches_and_file_or_nothing(tmp_path: Path) -> None:
    log = open_log(LogSettings(file=str(tmp_path / "a.log")))
    with pytest.raises(ConfigError):
        log.apply(LogSettings(file=str(tmp_path / "no" / "b.log"), debug=True))
    assert not log.debug_on
    log.info("old file")
    log.apply(LogSettings(file=str(tmp_path / "b.log"), debug=True))
    log.debug("new file")
    log.close()
    assert "old file" in (tmp_path / "a.log").read_text()
    assert "new file" in (tmp_path / "b.log").read_text()


def test_remote_syslog_sends_severity_host_tag_and_text() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        url = f"udp://127.0.0.1:{receiver.getsockname()[1]}"
        log = open_log(LogSettings(remote_syslog=url, debug=True), ManualClock(NOON_NS))
        log.error("disk\nfull")
        log.debug("x")
        first, second = receiver.recv(4096), receiver.recv(4096)
        log.close()
    pattern = rb"<3>2026-11-18T\d\d:00:00(Z|[+-]\d\d:\d\d) \S+ \S+\[%d\]: disk\\nfull\n" % os.getpid()
    assert re.fullmatch(pattern, first)
    assert second.startswith(b"<7>")


def test_remote_syslog_connects_anew_and_never_raises(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    clock = ManualClock(NOON_NS)
    first = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with first:
        first.bind(path)
        first.listen()
        log = open_log(LogSettings(remote_syslog=f"unix://{path}"), clock)
        peer, _ = first.accept()
        peer.close()
    os.unlink(path)
    for _ in range(4):
        clock.advance(seconds=2)
        log.info("nobody listens")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as second:
        second.bind(path)
        second.listen()
        second.settimeout(5)
        clock.advance(seconds=2)
        log.info("back again")
        peer, _ = second.accept()
        with peer:
            assert b"back again" in peer.recv(4096)
    log.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "tcp://127.0.0.1:99999", "unix:///nowhere/at/all"])
def test_remote_syslog_that_cannot_be_reached_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError, match="error "):
        open_log(LogSettings(remote_syslog=url))


def test_local_syslog_takes_any_text() -> None:
    log = open_log(LogSettings(syslog=True))
    log.info("a\0b\ud800")
    log.reopen()
    log.close()


def test_import_is_light() -> None:
    heavy = ("logging", "asyncio", "socket", "syslog")
    code = f"import sys, tidelog.serve.log; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
