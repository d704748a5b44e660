"""`tidelog pipeline run compact`: no server and no Spark."""

import json
from pathlib import Path

import pytest

from tidelog.cli import command
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import open_bucket
from unit.cold.test_archive import PLACE, add, columns, payloads

OTHER = Place("$G", "OTHER", bytes(16))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bucket = open_bucket(tmp_path.as_uri())
    archive = Archive(bucket, PLACE)
    for number in range(6):
        add(archive, number)
    Archive(bucket, OTHER).add(1, 11, columns(1, 11))
    return tmp_path


def test_files_are_merged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket = open_bucket(folder.as_uri())
    before = payloads(Archive(bucket, PLACE))
    assert command.run(["pipeline", "run", "compact", "--cold", str(folder), "--grace", "0"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{PLACE.folder}: 6 files merged into 1, ")
    assert first.endswith("; 6 removed")
    assert second == f"{OTHER.folder}: 0 files merged into 0, 0 B; 0 removed"
    assert payloads(Archive(bucket, PLACE)) == before
    assert len(bucket.names(f"{PLACE.folder}/data")) == 1


def test_of_one_stream_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pipeline", "run", "compact", "--cold", folder.as_uri(), "--stream", PLACE.stream, "--json"]
    assert command.run(words) == 0
    (done,) = json.loads(capsys.readouterr().out)
    size = Archive(open_bucket(folder.as_uri()), PLACE).manifest.entries[0].size
    assert done == {"folder": PLACE.folder, "merged": 6, "written": 1, "size": size, "removed": 0}
    assert command.run([*words, "--file-size", "1"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["merged"] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cold", "{0}/none"], "is no folder here"),
        (["--cold", "{0}", "--stream", "X"], "has no history of 'X'"),
    ],
)
def test_where_there_is_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert command.run(["pipeline", "run", "compact", *(word.format(folder) for word in words)]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--from", "a", "--cold", "b"],
        ["--cold", "a"],
        ["--from", "a", "--stream", "b"],
        ["--from", "a", "--end-seq", "4"],
    ],
)
def test_replays_of_two_things_or_none_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(["pipeline", "run", "replay", *words]) == 2
    assert "--cold" in capsys.readouterr().err
