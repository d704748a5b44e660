"""History from files beside a server in this process: the rows are the same, whichever way they come."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidelog.base.errors import ApiError, ColdError, ColdMissing, NoResponders
from tidelog.client.jetstream import JetStream, Publisher, StreamReader
from tidelog.client.jetstream.block import BlockReader
from tidelog.client.jetstream.own import log_info
from tidelog.cold import table
from tidelog.cold.archive import Archive, Place, entry_of
from tidelog.cold.bucket import StoreBucket, open_bucket
from tidelog.cold.export import ColdTarget, Export
from tidelog.cold.history import find_history
from tidelog.spark.batch import BatchReader
from tidelog.spark.cold_door import SubjectMatcher
from tidelog.spark.micro_batch import MicroBatchReader
from tidelog.spark.option import OptionError, read_options
from tidelog.spark.survey import DataLoss
from tidelog.subject.pattern import matches
from tidelog.testing import Server

COUNT = 700
FILTERS = ("", "{0}.a", "{0}.b.*", "{0}.a,{0}.b.>", "{0}.*.c,{0}.b.*", "{0}.none", ">")


class Stage:
    def __init__(self, server: Server, folder: Path) -> None:
        self.js = JetStream(server.connect())
        self.url = server.url
        self.folder = folder
        self._made = 0

    def stream(self, count: int, *, chance: random.Random | None = None, deleted: int = 0) -> str:
        self._made += 1
        name = f"S{self._made}"
        self.js.create_stream(
            {"name": name, "subjects": [f"{name}.>"], "storage": "file", "allow_direct": True}
        )
        self.fill(name, count)
        if chance is not None:
            self.delete(name, chance.sample(range(1, count + 1), deleted))
        return name

    def fill(self, name: str, count: int, start: int = 0) -> None:
        publisher = Publisher(self.js.connection)
        for number in range(start, start + count):
            subject = f"{name}.{('a', 'b.c', 'b.d', 'e.f.g')[number % 4]}"
            headers = {"N": [str(number), "two"]} if number % 3 else None
            publisher.publish(subject, b"\xff%d" % number, headers=headers)
        publisher.flush()
        publisher.close()

    def delete(self, name: str, seqs: Sequence[int]) -> None:
        for seq in seqs:
            try:
                self.js.delete_message(name, seq)
            except ApiError:
                continue

    def archive(self, name: str, start_seq: int, ends: Sequence[int]) -> str:
        """The URL of a history of the stream in several files."""
        url = f"file://{self.folder}/cold"
        info = log_info(self.js, name)
        archive = Archive(open_bucket(url), Place(info.account, name, bytes.fromhex(info.log_id)))
        for end_seq in ends:
            reader, export = BlockReader(self.js, name), Export(ColdTarget(archive), start_seq)
            for block in reader.blocks(start_seq, end_seq):
                export.take(block.data, block.last_seq)
            export.finish(end_seq)
            start_seq = end_seq
        return url

    def rows(self, name: str, **options: object) -> list[dict[str, Any]]:
        reader = BatchReader(read_options(self.given(name, options), streaming=False))
        return [
            row
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]

    def given(self, name: str, options: dict[str, object]) -> dict[str, str]:
        return {"servers": self.url, "stream": name} | {key: str(value) for key, value in options.items()}

    def held(self, name: str) -> list[tuple[int, str, bytes]]:
        """As `tidelog stream view` shows it."""
        return [
            (message.seq, message.subject, message.payload)
            for message in StreamReader(self.js, name).forward()
        ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Server(flags=["-js", "-sd", str(tmp_path_factory.mktemp("store"))]) as server:
        yield Stage(server, tmp_path_factory.mktemp("cold"))


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "COLD_ROW_GROUP_MESSAGES", 32)


def brief(rows: list[dict[str, Any]]) -> list[tuple[int, str, bytes]]:
    return [(row["seq"], row["subject"], row["value"]) for row in rows]


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_the_other_doors(stage: Stage, seed: int) -> None:
    """SPARK-1: hot, cold and mixed, over ranges, filters, and deletes before and after archiving."""
    chance = random.Random(seed)
    name = stage.stream(COUNT, chance=chance, deleted=80)
    url = stage.archive(name, 1, sorted({*chance.sample(range(2, 500), 4), 310}))
    archived = {message[0]: message for message in stage.held(name)}
    stage.delete(name, [*chance.sample(range(1, COUNT), 15), *range(333, 360)])
    let_go = (0, 100, 300)[seed % 3]
    if let_go:
        stage.js.purge_stream(name, seq=let_go)
    held = stage.held(name)
    # What the server has let go of is there as it was archived, all in front of its first message.
    let_go = let_go and held[0][0]
    truth = [archived[seq] for seq in sorted(archived) if seq < let_go] + held
    reach = find_history(open_bucket(url), name).end_seq
    for case in range(24):
        start, end = sorted(chance.sample(range(truth[0][0], COUNT + 2), 2))
        subjects = FILTERS[case % len(FILTERS)].format(name)
        patterns = [each.encode() for each in subjects.split(",") if each] or [b">"]
        options: dict[str, object] = {
            "startingOffsets": start,
            "endingOffsets": end,
            "includeHeaders": case % 2 == 0,
        }
        options |= {"minPartitions": chance.randrange(1, 5), "subjects": subjects}
        found = stage.rows(name, coldUrl=url, **options)
        assert brief(found) == [
            message
            for message in truth
            if start <= message[0] < end and any(matches(each, message[1].encode()) for each in patterns)
        ], (case, options)
        if start >= let_go:
            assert found == stage.rows(name, readFrom="server", **options)
            assert found == stage.rows(name, readFrom="direct", **options)
        if start < reach:
            alone = stage.rows(
                name, readFrom="cold", coldUrl=url, **options | {"endingOffsets": min(end, reach)}
            )
            there = {row["seq"]: row for row in alone}
            assert [row for row in found if row["seq"] < reach] == [
                there[row["seq"]] for row in found if row["seq"] < reach
            ]
            assert all(row["seq"] in archived for row in alone)


def test_rows_of_history_ask_the_server_for_no_message(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    name = stage.stream(200)
    url = stage.archive(name, 1, [150])
    monkeypatch.setattr("tidelog.spark.task.ServerDoor.read", None)
    assert brief(stage.rows(name, coldUrl=url, endingOffsets=150)) == stage.held(name)[:149]
    with pytest.raises(TypeError):
        stage.rows(name, coldUrl=url, endingOffsets=151)


def test_another_server_has_no_history(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not say which log a stream has."""

    def nobody(*_: object) -> None:
        raise NoResponders("nobody listens")

    name = stage.stream(10)
    url = stage.archive(name, 1, [5])
    monkeypatch.setattr("tidelog.spark.shelf.log_info", nobody)
    assert len(stage.rows(name)) == 10
    with pytest.raises(OptionError, match=r"option 'coldUrl': .* with option 'readFrom' at cold"):
        stage.rows(name, coldUrl=url)


def test_times_are_found_in_history(stage: Stage) -> None:
    name = stage.stream(100)
    url = stage.archive(name, 1, [80])
    times = {row["seq"]: row["timestamp"] for row in stage.rows(name, readFrom="server")}
    stage.js.purge_stream(name, seq=61)
    for seq in (5, 60, 61, 79, 80, 95):
        expected = [each for each in sorted(times) if times[each] >= times[seq]]
        found = stage.rows(name, coldUrl=url, startingTimestamp=times[seq].isoformat())
        assert [row["seq"] for row in found] == expected
        before = stage.rows(name, coldUrl=url, endingTimestamp=times[seq].isoformat())
        assert [row["seq"] for row in before] == [each for each in sorted(times) if each < expected[0]]


def test_a_hole_between_history_and_stream_is_told(stage: Stage) -> None:
    """SPARK-3."""
    name = stage.stream(100)
    url = stage.archive(name, 1, [40])
    stage.js.purge_stream(name, seq=61)
    assert len(stage.rows(name, coldUrl=url, endingOffsets=40)) == 39
    assert len(stage.rows(name, coldUrl=url, startingOffsets=61)) == 40
    with pytest.raises(DataLoss, match="begins at 61, and 40 was still to be read"):
        stage.rows(name, coldUrl=url)
    assert len(stage.rows(name, coldUrl=url, failOnDataLoss=False)) == 79


def test_retention_that_passes_while_a_task_reads_costs_nothing(stage: Stage) -> None:
    """SPARK-1: the archive has what the server lets go of."""
    name = stage.stream(300)
    url = stage.archive(name, 1, [120, 250])
    reader = BatchReader(
        read_options(stage.given(name, {"coldUrl": url, "minPartitions": 1}), streaming=False)
    )
    (partition,) = reader.partitions()
    rows: list[int] = []
    for batch in reader.read(partition):
        if not rows:
            stage.js.purge_stream(name, seq=200)
        rows += batch.column("seq").to_pylist()
    assert rows == list(range(1, 301))


def test_files_that_compaction_has_replaced_are_looked_for(stage: Stage) -> None:
    name = stage.stream(200)
    url = stage.archive(name, 1, [50, 100, 150, 201])
    reader = BatchReader(
        read_options(stage.given(name, {"coldUrl": url, "minPartitions": 1}), streaming=False)
    )
    (partition,) = reader.partitions()
    bucket = open_bucket(url)
    history = find_history(bucket, name)
    archive = Archive(bucket, history.place)
    merged = archive.place.data_name(50, 150)
    rows: list[int] = []
    for batch in reader.read(partition):
        rows += batch.column("seq").to_pylist()
        if len(rows) == 32:
            tables = [archive.read(entry) for entry in history.manifest.entries]
            data = table.write_table(pa.concat_tables(tables[1:3]), archive.place.about(50, 150))
            assert bucket.put_new(merged, data)
            entry = entry_of(merged, archive.place.about(50, 150), data)
            entries = history.manifest.entries
            archive.book.commit(history.manifest, (entries[0], entry, entries[3]))
            for old in entries[1:3]:
                bucket.remove(old.name)
    assert rows == list(range(1, 201))
    # One that is in the newest manifest, and not in the store, is no hole that anybody passes over.
    bucket.remove(merged)
    assert brief(stage.rows(name, coldUrl=url)) == stage.held(name)
    with pytest.raises(ColdMissing):
        stage.rows(name, coldUrl=url, readFrom="cold")


class Unwell(StoreBucket):
    """A store that fails some of what is asked of it."""

    chance = random.Random(3)
    share = 0.5

    def __init__(self, url: str, *, make: bool) -> None:
        assert not make
        self.__dict__ |= open_bucket(url).__dict__

    def source(self, name: str) -> Any:
        if self.chance.random() < self.share:
            raise ColdError(f"cannot read {name}: the store is away")
        return super().source(name)


def test_a_folder_that_a_task_does_not_have_costs_no_rows(stage: Stage) -> None:
    """SPARK-1: the driver saw it, and tasks are elsewhere."""
    name = stage.stream(100)
    url = stage.archive(name, 1, [80])
    reader = BatchReader(read_options(stage.given(name, {"coldUrl": url}), streaming=False))
    parts = reader.partitions()
    (stage.folder / "cold").rename(stage.folder / "away")
    try:
        found = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    finally:
        (stage.folder / "away").rename(stage.folder / "cold")
    assert brief(found) == stage.held(name)


def test_a_store_that_is_unwell_costs_no_rows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK-1: what the server has, it gives."""
    name = stage.stream(300)
    url = stage.archive(name, 1, list(range(20, 300, 20)))
    monkeypatch.setattr("tidelog.spark.cold_door.open_bucket", Unwell)
    for _ in range(5):
        assert brief(stage.rows(name, coldUrl=url, minPartitions=3)) == stage.held(name)
    stage.js.purge_stream(name, seq=100)
    monkeypatch.setattr(Unwell, "share", 1)
    assert brief(stage.rows(name, coldUrl=url, startingOffsets=100)) == stage.held(name)
    with pytest.raises(ColdError, match="the store is away"):
        stage.rows(name, coldUrl=url)


def test_batches_of_a_stream_go_through_history(stage: Stage) -> None:
    """SPARK-2"""
    name = stage.stream(200)
    url = stage.archive(name, 1, [120])
    stage.js.purge_stream(name, seq=100)
    options = {
        "coldUrl": url,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 70,
        "subjects": f"{name}.>",
    }
    reader = MicroBatchReader(read_options(stage.given(name, options), streaming=True))
    at, rows = reader.initialOffset(), []
    assert at["streams"][name]["seq"] == 1
    limit = reader.getDefaultReadLimit()
    steps = []
    while (end := reader.latestOffset(at, limit)) != at:
        pieces = reader.partitions(at, end)
        rows += [row for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]
        at = end
        steps.append(at["streams"][name]["seq"])
    assert steps == [71, 141, 201]
    assert [row["seq"] for row in rows] == list(range(1, 201))
    # As after a restart, where the batch is planned by somebody who has seen nothing.
    again = MicroBatchReader(read_options(stage.given(name, options), streaming=True))
    start = {**at, "streams": {name: {**at["streams"][name], "seq": 1}}}
    pieces = again.partitions(start, at)
    assert [
        row["seq"] for piece in pieces for batch in again.read(piece) for row in batch.to_pylist()
    ] == list(range(1, 201))
    reader.stop()
    again.stop()


def test_history_alone(stage: Stage) -> None:
    """No server is asked: there is none at that address."""
    name = stage.stream(100)
    url = stage.archive(name, 11, [80])
    away = {"servers": "nats://127.0.0.1:1", "readFrom": "cold", "coldUrl": url}
    expected = [row for row in stage.rows(name, readFrom="server") if 11 <= row["seq"] < 80]
    assert stage.rows(name, **away) == expected
    time = expected[30]["timestamp"]
    found = stage.rows(name, **away, startingTimestamp=time.isoformat())
    assert found == [row for row in expected if row["timestamp"] >= time]
    assert len(stage.rows(name, **away, subscribePattern=f"{name}", stream="")) == 69
    with pytest.raises(DataLoss, match="begins at 11, not at 5"):
        stage.rows(name, **away, startingOffsets=5)
    with pytest.raises(OptionError, match=r"option 'coldLog': .* has no history of 'NONE'"):
        stage.rows("NONE", **away)
    options = {**away, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 50, "subjects": f"{name}.a"}
    reader = MicroBatchReader(read_options(stage.given(name, options), streaming=True))
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert first["streams"][name]["seq"] == 61
    assert first["streams"][name]["created"] == f"log {log_info(stage.js, name).log_id}"


def test_bytes_of_a_batch_are_bounded_where_the_server_has_nothing(stage: Stage) -> None:
    name = stage.stream(200)
    url = stage.archive(name, 1, [50, 100, 150, 201])
    entries = find_history(open_bucket(url), name).manifest.entries
    stage.js.purge_stream(name)
    quarter = sum(entry.size for entry in entries) // 4
    options = {"coldUrl": url, "startingOffsets": "earliest", "maxBytesPerTrigger": quarter}
    reader = MicroBatchReader(read_options(stage.given(name, options), streaming=True))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert 45 <= end["streams"][name]["seq"] <= 55
    reader.stop()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"readFrom": "cold"}, "option 'coldUrl': must say where"),
        ({"readFrom": "direct", "coldUrl": "file:///x"}, "option 'coldUrl': has no meaning"),
        ({"coldUrl": "file:///x", "coldLog": "a/b/c"}, "option 'coldLog': is for 'readFrom' at cold"),
        ({"coldUrl": "ftp://x"}, "option 'coldUrl': 'ftp://x' is no object store"),
        ({"coldUrl": "/not/there"}, "option 'coldUrl': 'file:///not/there' is no folder here"),
        ({"readFrom": "elsewhere"}, "option 'readFrom': must be one of auto, server, direct, cold"),
    ],
)
def test_options_that_do_not_fit_are_told(stage: Stage, options: dict[str, object], told: str) -> None:
    name = stage.stream(1)
    with pytest.raises(OptionError, match=told):
        stage.rows(name, **options)


def test_subjects_match_as_everywhere() -> None:
    subjects = ["a", "a.b", "a.b.c", "ab", "a.b-c", "$x.(y)|z", "é.ü", "a.\ufffd"]
    for pattern in (
        "a",
        "*",
        "a.*",
        "a.>",
        ">",
        "*.b",
        "*.*",
        "$x.*",
        "$x.(y)|z",
        "a.b-c",
        "é.*",
        "a.b.>",
        "*.>",
    ):
        found = SubjectMatcher((pattern,)).wanted(pa.array(subjects)).to_pylist()
        assert found == [matches(pattern.encode(), subject.encode()) for subject in subjects], pattern
