"""Two processes and one store: the second is refused, and learns by whom, until the first has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.base.clock import SystemClock
from tidelog.base.errors import DiskLocked
from tidelog.base.work import Inline
from tidelog.disk.real import RealDisk
from tidelog.log.recover import open_log, open_logs
from tidelog.log.settings import LogSettings

OWNER = """
import sys
from tidelog.base.clock import SystemClock
from tidelog.base.work import Inline
from tidelog.disk.real import RealDisk
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings

log, _ = open_log(RealDisk(sys.argv[1]), "log", LogSettings(), SystemClock(), Inline())
log.append(b"s", b"mine")
log.commit()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_store_is_opened_by_one_process_at_a_time(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        before = {path: path.read_bytes() for path in (tmp_path / "log").iterdir()}
        refusal = f"{tmp_path} is in use by process {owner.pid}: one process at a time opens a store"
        for directory in ("log", "another"):
            with pytest.raises(DiskLocked) as caught:
                open_log(RealDisk(str(tmp_path)), directory, LogSettings(), SystemClock(), Inline())
            assert str(caught.value) == refusal
        with pytest.raises(DiskLocked, match="is in use by process"):
            open_logs(RealDisk(str(tmp_path)), ["log"], LogSettings(), SystemClock(), Inline())
        assert {path: path.read_bytes() for path in (tmp_path / "log").iterdir()} == before
        assert not (tmp_path / "another").exists()
        owner.kill()
    log, _ = open_log(RealDisk(str(tmp_path)), "log", LogSettings(), SystemClock(), Inline())
    assert [message.payload for message in log.reader().read()] == [b"mine"]
