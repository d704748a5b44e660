"""Bad days: what is killed, lost or refused ends in the right rows, or in an error that says what to do."""

import os
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import certificate
from spark.stage import KINDS, Stage, argv_of
from tidelog.client.jetstream import Outgoing
from tidelog.spark import block_door
from tidelog.spark.door import ANSWER_SIZE, DirectDoor
from tidelog.spark.link import Link
from tidelog.spark.option import read_options
from tidelog.spark.plan import Piece
from tidelog.spark.survey import DataLoss
from tidelog.spark.task import read_piece
from tidelog.testing.peer import ServerProcess, tidelog_argv


def load(spark: Any, stage: Stage, stream: str, **options: str) -> Any:
    return spark.read.format("tidelog").options(servers=stage.url, stream=stream, **options).load()


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
    if stage.argv != tidelog_argv():
        pytest.skip("only Tidelog has blocks")
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
def test_messages_larger_than_any_batch_go_through_every_door(spark: Any, kind: str, tmp_path: Path) -> None:
    """SPARK-1 and SPARK-4: beyond the size of an answer and of Spark's own batches, among small ones."""
    largest = ANSWER_SIZE + 1_000_000
    with Stage(argv_of(kind), tmp_path, config=f"max_payload: {2 * ANSWER_SIZE}") as stage:
        stream, again = stage.new_stream(), stage.new_stream()
        sizes = [10, largest, 0, 3_000_000, 3_000_000, 3_000_000, 10]
        values = [bytes([at]) * size for at, size in enumerate(sizes)]
        stage.publish([Outgoing(f"{stream}.a", value) for value in values])
        for door in ("server", "direct"):
            rows = load(spark, stage, stream, readFrom=door).orderBy("seq")
            assert [row.n for row in rows.selectExpr("length(value) AS n").collect()] == sizes
        frame = load(spark, stage, stream).select("value")
        write = frame.write.format("tidelog").mode("append").options(servers=stage.url, stream=again)
        write.options(subject=f"{again}.x", maxInFlightBytes=1_000_000).save()
        found = load(spark, stage, again).selectExpr("length(value) AS n", "crc32(value) AS sum", "seq")
        assert [(row.n, row.sum) for row in found.orderBy("seq").collect()] == [
            (len(value), zlib.crc32(value)) for value in values
        ]


def test_very_many_tiny_messages(spark: Any, stage: Stage) -> None:
    """SPARK-1: as many rows as there are, however little is in them."""
    stream, count = stage.new_stream(), int(os.environ.get("TIDELOG_SPARK_TINY", "200000"))
    stage.publish([Outgoing(f"{stream}.t", b"x")] * count)
    for door in ("server", "direct"):
        frame = load(spark, stage, stream, readFrom=door, minPartitions="2")
        found = frame.selectExpr("count(*) AS n", "sum(seq) AS s", "sum(length(value)) AS v").first()
        assert (found.n, found.s, found.v) == (count, count * (count + 1) // 2, count)


@pytest.mark.parametrize("kind", KINDS)
def test_tls_needs_an_authority_and_says_so(spark: Any, kind: str, tmp_path: Path) -> None:
    cert, key = certificate.issue().write(tmp_path, "server")
    for name in ("Test CA", "Another CA"):
        (tmp_path / f"{name}.pem").write_bytes(certificate.authority(name).cert_pem)
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}'
    with Stage(
        argv_of(kind), tmp_path / "store", config=config, tls_ca=str(tmp_path / "Test CA.pem")
    ) as stage:
        stream, again = stage.new_stream(), stage.new_stream()
        stage.fill(stream, 20)
        trusted = {"tls.ca": str(tmp_path / "Test CA.pem")}
        frame = load(spark, stage, stream, **trusted).drop("subject")
        frame.write.format("tidelog").mode("append").options(
            servers=stage.url, subject=f"{again}.x", **trusted
        ).save()
        assert sorted(int(held.value) for held in stage.held(again)) == list(range(20))
        start = time.monotonic()
        for given in ({}, {"tls.ca": str(tmp_path / "Another CA.pem")}):
            with pytest.raises(PySparkException, match=r"option 'tls\.ca'.*not trusted"):
                load(spark, stage, stream, **given).count()
        with pytest.raises(PySparkException, match=r"No such file.*options 'tls\.ca'"):
            load(spark, stage, stream, **{"tls.ca": "/not/there.pem"}).count()
        assert time.monotonic() - start < 20


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
