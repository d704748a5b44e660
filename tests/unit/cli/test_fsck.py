import json
import os
from pathlib import Path

import pytest

from tidelog.cli import command
from tidelog.disk.real import RealDisk
from unit.log.log_files import FIRST, LAST, fill


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """With a log in `log`."""
    disk = RealDisk(str(tmp_path / "store"))
    fill(disk)
    disk.unlock()
    return tmp_path / "store"


def flip(path: Path, pos: int) -> None:
    data = bytearray(path.read_bytes())
    data[pos] ^= 1
    path.write_bytes(data)


def test_a_clean_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["fsck", str(store)]) == 0
    shown = capsys.readouterr().out
    assert f"{FIRST.removeprefix('log/')}.seg" in shown
    assert shown.splitlines()[-1] == "clean: 1 log, 4 segments, 114 messages"
    assert command.run(["fsck", "-q", str(store / "log")]) == 0
    assert capsys.readouterr().out == "clean: 1 log, 4 segments, 114 messages\n"


def test_what_can_be_repaired_is_repaired_when_asked(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / f"{FIRST}.idx").unlink()
    with (store / f"{LAST}.seg").open("ab") as file:
        file.write(b"torn")
    assert command.run(["fsck", str(store)]) == 1
    # The tail and the two indexes: that of the last segment was made when it was shorter.
    assert "repairable: 1 log, 4 segments, 114 messages, " in capsys.readouterr().out
    assert command.run(["fsck", "--repair", str(store)]) == 1
    shown = capsys.readouterr().out
    assert "repaired: " in shown.splitlines()[-1]
    assert "a torn tail of 4 bytes" in shown
    assert command.run(["fsck", "-q", str(store)]) == 0


def test_what_somebody_has_open_is_not_repaired(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = RealDisk(str(store))
    disk.lock()
    for place in (store.parent, store, store / "log"):
        assert command.run(["fsck", "--repair", str(place)]) == 3
        told = capsys.readouterr().err
        assert (
            told
            == f"tidelog: {store} is in use by process {os.getpid()}: one process at a time opens a store\n"
        )
        assert command.run(["fsck", "-q", str(place)]) == 0
    capsys.readouterr()
    disk.unlock()
    assert command.run(["fsck", "--repair", "-q", str(store)]) == 0
    # And it is free again.
    disk.lock()


def test_damage_with_loss(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(store / f"{FIRST}.seg", 500)
    assert command.run(["fsck", "--json", str(store)]) == 2
    found = json.loads(capsys.readouterr().out)
    [log] = found["logs"]
    assert (found["severity"], log["severity"], log["directory"]) == ("loss", "loss", str(store / "log"))
    assert log["lost"] == [[9, 10]]
    assert log["segments"][0]["damaged"][0][:2] == [472, 51]
    assert {finding["severity"] for finding in log["findings"]} == {"loss", "repairable"}
    assert command.run(["fsck", str(store)]) == 2
    shown = capsys.readouterr().out
    assert "damaged: message 9 is lost" in shown
    assert "1 lost" in shown.splitlines()[-1]


def test_what_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["fsck", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"tidelog: {tmp_path} holds no log\n"
    missing = tmp_path / "a" / "b"
    assert command.run(["fsck", "--repair", str(missing)]) == 3
    assert capsys.readouterr().err == f"tidelog: {missing} is no directory\n"
    assert not missing.parent.exists()


def test_a_check_needs_no_right_to_write(store: Path) -> None:
    names = [*store.glob("log/*"), store / "log"]
    for path in names:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in names}
    try:
        assert command.run(["fsck", "-q", str(store)]) == 0
    finally:
        for path in names:
            path.chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in names} == before


def test_keys_are_read_from_a_file(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys").write_text("nonsense\n")
    assert command.run(["fsck", "--keys", str(tmp_path / "keys"), str(store)]) == 1
    assert "a key is id:base64" in capsys.readouterr().err
    (tmp_path / "keys").write_text("k1:" + "A" * 43 + "=\n")
    assert command.run(["fsck", "-q", "--keys", str(tmp_path / "keys"), str(store)]) == 0
