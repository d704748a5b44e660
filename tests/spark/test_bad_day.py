"""Bad days: what is killed, lost or refused ends in the right rows, or in an error that says what to do."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from spark.stage import KINDS, Stage, argv_of
from tidelog.client.jetstream import Outgoing
from tidelog.spark import block_door
from tidelog.spark.door import DirectDoor
from tidelog.spark.link import Link
from tidelog.spark.option import read_options
from tidelog.spark.plan import Piece
from tidelog.spark.survey import DataLoss
from tidelog.spark.task import read_piece

# How often a server or a worker is killed, and a driver, which takes a whole Spark each time; more in a long run.
KILLS = int(os.environ.get("TIDELOG_SPARK_KILLS", "2"))
DRIVER_KILLS = int(os.environ.get("TIDELOG_SPARK_KILLS", "1"))


def load(spark: Any, stage: Stage, stream: str, **options: str) -> Any:
    return spark.read.format("tidelog").options(servers=stage.url, stream=stream, **options).load()


def in_background(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_batch_reads_all_although_the_server_is_killed(spark: Any, stage: Stage) -> None:
    """SPARK-1."""
    stream = stage.new_stream()
    stage.publish([Outgoing(f"{stream}.a", b"x" * 200) for _ in range(60_000)])

    def kill_and_start() -> None:
        for _ in range(KILLS):
            time.sleep(0.2)
            stage.kill()
            stage.start()

    killer = in_background(kill_and_start)
    sums = "count(*) AS n", "sum(seq) AS s", "max(seq) AS m"
    found = load(spark, stage, stream, minPartitions="6").selectExpr(*sums).first()
    killer.join()
    assert (found.n, found.s, found.m) == (60_000, 60_000 * 60_001 // 2, 60_000)


def test_a_query_from_stream_to_stream_loses_and_doubles_nothing_when_the_server_is_killed(
    spark: Any, stage: Stage, tmp_path: Path
) -> None:
    """SPARK-2 and SPARK-4."""
    source, target = stage.new_stream(), stage.new_stream()
    stage.fill(source, 4000)
    query = (
        spark.readStream.format("tidelog")
        .options(
            servers=stage.url,
            stream=source,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=500,
            minPartitions=2,
        )
        .load()
        .drop("subject")
        .writeStream.format("tidelog")
        .options(servers=stage.url, subject=f"{target}.x", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    for _ in range(KILLS):
        query.awaitTermination(1)
        stage.kill()
        stage.start()
    assert query.awaitTermination(200)
    assert sorted(int(held.value) for held in stage.held(target)) == list(range(4000))


DRIVER = """
import sys
import tidelog.spark
from tidelog.spark.job.archive import Archive
url, source, target, directory = sys.argv[1:]
spark = tidelog.spark.session("driver", master="local[2]")
options = {"servers": url, "stream": source, "maxOffsetsPerTrigger": "150", "minPartitions": "2"}
if target:
    frame = spark.readStream.format("tidelog").options(startingOffsets="earliest", **options).load().drop("subject")
    writer = frame.writeStream.format("tidelog").options(servers=url, subject=f"{target}.x", stream=target)
    query = writer.option("checkpointLocation", directory + "/checkpoint").trigger(availableNow=True).start()
else:
    query = Archive(directory + "/table", options).start(spark)
print("running", flush=True)
query.awaitTermination()
print("done", flush=True)
"""


def run_and_kill(url: str, source: str, target: str, directory: Path) -> None:
    """The whole of Spark goes DRIVER_KILLS times, at random moments, and then runs to its end."""
    chance = random.Random()
    command = [sys.executable, "-c", DRIVER, url, source, target, str(directory)]
    for patience_s in [*(chance.uniform(0.2, 5) for _ in range(DRIVER_KILLS)), None]:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "running\n"
            if patience_s is None:
                assert driver.stdout.readline() == "done\n"
            else:
                time.sleep(patience_s)
                os.killpg(driver.pid, signal.SIGKILL)


@pytest.mark.timeout(300 + 90 * DRIVER_KILLS)
def test_a_driver_that_is_killed_again_and_again_writes_every_row_once(stage: Stage, tmp_path: Path) -> None:
    """SPARK-2 and SPARK-4: mid-batch, past the stream's duplicate window."""
    source, target = stage.new_stream(), stage.new_stream(duplicate_window=200_000_000)
    stage.fill(source, 3000)
    run_and_kill(stage.url, source, target, tmp_path)
    assert sorted(int(held.value) for held in stage.held(target)) == list(range(3000))


@pytest.mark.skipif("TIDELOG_SPARK_KILLS" not in os.environ, reason="for long runs: TIDELOG_SPARK_KILLS=20")
@pytest.mark.timeout(300 + 90 * DRIVER_KILLS)
def test_an_archive_whose_driver_is_killed_again_and_again_has_every_row_once(
    stage: Stage, tmp_path: Path
) -> None:
    """SPARK-2, for whoever opens the table."""
    source = stage.new_stream()
    stage.fill(source, 3000)
    run_and_kill(stage.url, source, "", tmp_path)
    found = pq.read_table(tmp_path / "table", columns=["seq", "value"]).to_pylist()
    assert sorted((row["seq"], int(row["value"])) for row in found) == [
        (seq, seq - 1) for seq in range(1, 3001)
    ]


def test_workers_that_are_killed_fail_the_job_and_not_the_rows(
    spark: Any, stage: Stage, tmp_path: Path
) -> None:
    """A task is a process: without it the batch fails, and the next start repeats it."""
    source, target = stage.new_stream(), stage.new_stream()
    stage.fill(source, 2000)

    def start() -> Any:
        return (
            spark.readStream.format("tidelog")
            .options(
                servers=stage.url,
                stream=source,
                startingOffsets="earliest",
                maxOffsetsPerTrigger=250,
                minPartitions=2,
            )
            .load()
            .drop("subject")
            .writeStream.format("tidelog")
            .options(servers=stage.url, subject=f"{target}.x", checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )

    for _ in range(KILLS):
        query = start()
        query.awaitTermination(1.5)
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
        try:
            query.awaitTermination(100)
        except PySparkException:
            continue
    assert start().awaitTermination(100)
    assert sorted(int(held.value) for held in stage.held(target)) == list(range(2000))


def workers() -> list[int]:
    """The Python workers below this process."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                names[int(path.name)] = (path / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            if (
                "pyspark" in names[child]
                and "java" not in names[child].partition("\0")[0]
                and child not in children
            ):
                found.append(child)
    return found


class Overtaken(DirectDoor):
    """A door behind which the stream loses its beginning, or is made anew, when the first rows have come."""

    act: Callable[[], None]

    def read(self, piece: Piece, watch: Any) -> Iterator[Any]:
        self.act()
        yield from super().read(piece, watch)


@pytest.mark.parametrize("filtered", [False, True])
def test_retention_that_overtakes_a_task_fails_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, filtered: bool
) -> None:
    """SPARK-3: between the look at the stream and its messages."""
    stream = stage.new_stream()
    stage.fill(stream, 100)
    created = stage.js.stream_info(stream).created
    more = {"subjects": f"{stream}.a"} if filtered else {}
    given = {"servers": stage.url, "stream": stream, "readFrom": "direct"}
    options = read_options(given | more, streaming=False)
    if filtered:
        # What is there is counted first, and then goes.
        count = DirectDoor._count

        def counted(self: DirectDoor, piece: Piece, subject: str) -> int:
            found = count(self, piece, subject)
            stage.js.purge_stream(stream, seq=51)
            return found

        monkeypatch.setattr(DirectDoor, "_count", counted)
    else:
        Overtaken.act = staticmethod(lambda: stage.js.purge_stream(stream, seq=51))  # type: ignore[assignment]
        monkeypatch.setattr("tidelog.spark.task.DirectDoor", Overtaken)
    with pytest.raises(DataLoss, match=r"begins at 51, and \d+ was still to be read"):
        list(read_piece(options, Piece(stream, created, 1, 101)))


def test_a_stream_that_is_made_anew_under_a_task_fails_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPARK-3."""
    stream = stage.new_stream()
    stage.fill(stream, 100)
    created = stage.js.stream_info(stream).created
    options = read_options({"servers": stage.url, "stream": stream, "readFrom": "direct"}, streaming=False)

    def make_anew() -> None:
        stage.js.delete_stream(stream)
        stage.new_stream(stream)
        stage.fill(stream, 100)

    Overtaken.act = staticmethod(make_anew)  # type: ignore[assignment]
    monkeypatch.setattr("tidelog.spark.task.DirectDoor", Overtaken)
    with pytest.raises(DataLoss, match="made again while it was read"):
        list(read_piece(options, Piece(stream, created, 1, 101)))


def test_an_answer_that_breaks_off_is_asked_for_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK-1: the connection goes after some of an answer; none of it is given twice."""
    stream = stage.new_stream()
    stage.publish([Outgoing(f"{stream}.a", b"y" * 300) for _ in range(5000)])
    created = stage.js.stream_info(stream).created
    options = read_options({"servers": stage.url, "stream": stream, "readFrom": "direct"}, streaming=False)
    opened = Link._open
    links: list[Any] = []

    def breaking(self: Link) -> Any:
        connection = opened(self)
        if len(links) < 3:
            takes = iter(range(100))
            take_in = connection.take_in

            def interrupted(timeout_s: float) -> bool:
                if next(takes) == 1:
                    connection.close()
                return take_in(timeout_s)

            connection.take_in = interrupted  # type: ignore[method-assign]
        links.append(connection)
        return connection

    monkeypatch.setattr(Link, "_open", breaking)
    batches = list(read_piece(options, Piece(stream, created, 1, 5001)))
    assert [seq for batch in batches for seq in batch.column("seq").to_pylist()] == list(range(1, 5001))
    assert len(links) == 4


def test_blocks_that_retention_overtakes_fail_the_task(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK-3, by what the server says of the range."""
    stream = stage.new_stream()
    stage.fill(stream, 100)
    created = stage.js.stream_info(stream).created
    options = read_options({"servers": stage.url, "stream": stream}, streaming=False)
    asked = block_door.ask

    def purged(link: Link, name: str, start_seq: int, end_seq: int, subjects: tuple[str, ...]) -> Any:
        if end_seq > 2:  # not the question whether there are blocks
            stage.js.purge_stream(stream, seq=51)
        return asked(link, name, start_seq, end_seq, subjects)

    monkeypatch.setattr(block_door, "ask", purged)
    with pytest.raises(DataLoss, match=r"begins at 51, and \d+ was still to be read"):
        list(read_piece(options, Piece(stream, created, 1, 101)))


def test_both_doors_give_the_same_rows(stage: Stage) -> None:
    """SPARK-1."""
    chance = random.Random(5)
    stream = stage.new_stream()
    stage.fill(stream, 400, subjects=("a", "b.c", "b.d"))
    for seq in chance.sample(range(1, 400), 90):
        stage.js.delete_message(stream, seq)
    created = stage.js.stream_info(stream).created
    for subjects in ("", f"{stream}.b.>", f"{stream}.a,{stream}.*.d"):
        start = chance.randrange(1, 300)
        piece = Piece(stream, created, start, chance.randrange(start + 1, 402))
        rows = {}
        for door in ("auto", "direct"):
            given = {"servers": stage.url, "stream": stream, "readFrom": door}
            options = read_options(given | ({"subjects": subjects} if subjects else {}), streaming=False)
            rows[door] = [row for batch in read_piece(options, piece) for row in batch.to_pylist()]
        assert rows["auto"] == rows["direct"] != []


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_passwords_are_told_at_once_and_not_shown(spark: Any, kind: str, tmp_path: Path) -> None:
    config = 'authorization { user: "ann", password: "secret" }'
    with Stage(argv_of(kind), tmp_path, config=config) as stage:
        start = time.monotonic()
        with pytest.raises(PySparkException, match="options 'user' and 'password'") as raised:
            load(spark, stage, "S", user="ann", password="hidden").count()
        assert "hidden" not in str(raised.value)
        assert time.monotonic() - start < 20
        with pytest.raises(PySparkException, match=r"option 'stream'.*no stream 'S'"):
            load(spark, stage, "S", user="ann", password="secret").count()


def test_a_server_without_jetstream_is_told(spark: Any, stage: Stage) -> None:
    from tidelog.testing.peer import ServerProcess

    with ServerProcess(stage.argv, monitor=False) as bare:
        frame = spark.read.format("tidelog").options(servers=bare.url, stream="S")
        frame = frame.option("fetchOffset.numRetries", "2").option("fetchOffset.retryIntervalMs", "200")
        with pytest.raises(PySparkException, match="no JetStream"):
            frame.load().count()


def test_without_java_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import tidelog.spark as s, tidelog.spark.java as j; j.PLACES = (); s.session()",
        ],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode != 0
    assert "apt-get install openjdk-17-jre-headless" in ran.stderr
