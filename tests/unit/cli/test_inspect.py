import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli import command
from tidelog.cli.inspect import shown
from tidelog.disk.real import RealDisk
from unit.log.log_files import LAST, fill


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    fill(RealDisk(str(tmp_path)))
    return tmp_path / f"{LAST}.seg"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_records_as_json_lines(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["inspect", "--json", "--from", "116", "--to", "117", "-p", str(segment)]) == 0
    head, *records = lines(capsys.readouterr().out)
    assert (head["kind"], head["messages"], head["problems"]) == ("segment", 7, [])
    assert [(one["seq"], one["subject"], one["payload"]) for one in records] == [
        (116, "orders.3", "payload 115"),
        (117, "orders.4", "payload 116"),
    ]
    assert command.run(["inspect", "--json", "--limit", "1", str(segment)]) == 0
    head, record = lines(capsys.readouterr().out)
    assert (record["seq"], record["payload_size"]) == (114, 11)
    assert "payload" not in record


def test_records_for_people(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["inspect", "-n", "1", str(segment)]) == 0
    head, *_, line = capsys.readouterr().out.splitlines()
    assert head == f"segment {segment}"
    assert line.startswith(
        "        64  message  size=51  seq=114  ts_ns=2023-11-14T22:15:14.000000000Z  subject=orders.1"
    )


def test_damage_is_shown_and_ends_with_2(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(segment.read_bytes())
    data[130] ^= 1
    segment.write_bytes(data)
    assert command.run(["inspect", "--json", str(segment)]) == 2
    _, first, damage, *rest = lines(capsys.readouterr().out)
    assert (first["type"], damage["type"], damage["pos"], rest[0]["seq"]) == ("message", "damage", 115, 116)


def test_subjects_of_an_index_and_a_snapshot(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["inspect", "--json", str(segment.with_suffix(".idx"))]) == 0
    head, *rows = lines(capsys.readouterr().out)
    assert (head["kind"], len(rows), rows[0]["subject"]) == ("index", 7, "orders.0")
    assert command.run(["inspect", str(segment.parent / "snapshot")]) == 0
    assert "subject  subject=orders.6  messages=" in capsys.readouterr().out


def test_what_is_no_file_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("hello")
    assert command.run(["inspect", str(tmp_path / "notes")]) == 3
    assert capsys.readouterr().err == "tidelog: notes is no file of a log\n"
    assert command.run(["inspect", str(tmp_path / "nothing")]) == 3
    assert "No such file" in capsys.readouterr().err


def test_strange_bytes_stay_on_their_line() -> None:
    assert shown("subject", b"a\n\x1b[31mb") == "a\\n\\x1b[31mb"
    assert shown("subject", b"\xff") == "\\xff"
    assert shown("ts_ns", 2**63 - 1) == "2262-04-11T23:47:16.854775807Z"
    assert shown("ts_ns", 0) == "0"
