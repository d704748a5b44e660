"""Batch reads and SQL: the rows are those that the server holds, exactly."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import PySparkException

from spark.stage import Held, Stage
from tidelog.client.jetstream import Outgoing
from tidelog.subject.pattern import matches


def reader(spark: Any, stage: Stage, stream: str, **options: object) -> Any:
    made = spark.read.format("tidelog").option("servers", stage.url).option("stream", stream)
    for name, value in options.items():
        made = made.option(name.replace("_", "."), str(value))
    return made


def rows(spark: Any, stage: Stage, stream: str, **options: object) -> list[Held]:
    """In the order in which they came, partition by partition."""
    frame = reader(spark, stage, stream, **options).load().select("seq", "subject", "value")
    return [Held(row.seq, row.subject, bytes(row.value)) for row in frame.collect()]


def test_rows_are_what_the_server_holds_whatever_range_filter_and_deletes(spark: Any, stage: Stage) -> None:
    """SPARK-1."""
    chance = random.Random(20261119)
    stream = stage.new_stream()
    stage.fill(stream, 600, subjects=("a", "b.c", "b.d", "e.f.g"))
    for seq in {*chance.sample(range(1, 600), 70), *range(300, 340)}:
        stage.js.delete_message(stream, seq)
    held = stage.held(stream)
    filters = [
        "",
        f"{stream}.a",
        f"{stream}.b.*",
        f"{stream}.a,{stream}.>",
        f"{stream}.*.c,{stream}.b.*",
        f"{stream}.none",
    ]
    for case in range(10):
        start = chance.randrange(held[0].seq, 560)
        end = chance.randrange(start, 602)
        wanted = filters[case % len(filters)]
        patterns = [pattern.encode() for pattern in wanted.split(",") if pattern] or [b">"]
        expected = [
            message
            for message in held
            if start <= message.seq < end
            and any(matches(each, message.subject.encode()) for each in patterns)
        ]
        options: dict[str, object] = {"startingOffsets": start, "endingOffsets": max(1, end)}
        if wanted:
            options["subjects"] = wanted
        options["minPartitions"] = chance.randrange(1, 5)
        assert rows(spark, stage, stream, **options) == expected, (case, options)


def test_a_stream_that_has_nothing_gives_no_rows(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    assert rows(spark, stage, stream) == []
    stage.fill(stream, 10)
    stage.js.purge_stream(stream)
    assert rows(spark, stage, stream) == []
    assert rows(spark, stage, stream, subjects=f"{stream}.b.c") == []


def test_payloads_headers_and_times_come_as_they_are(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    before = datetime.now(UTC)
    payloads = [b"", bytes(range(256)), b"\xff\xfe\x00", "Grüße".encode(), b"x" * 900_000]
    # The names that the server itself uses are no trouble, and names may repeat.
    headers = {"Kind": ["one", "two"], "Nats-Sequence": "77", "Nats-Stream": "OTHER", "Empty": ""}
    stage.publish(
        [
            Outgoing(f"{stream}.p", payload, headers if at == 1 else None)
            for at, payload in enumerate(payloads)
        ]
    )
    found = reader(spark, stage, stream, includeHeaders=True).load().orderBy("seq").collect()
    assert [bytes(row.value) for row in found] == payloads
    assert [(pair.key, bytes(pair.value)) for pair in found[1].headers] == [
        ("Kind", b"one"),
        ("Kind", b"two"),
        ("Nats-Sequence", b"77"),
        ("Nats-Stream", b"OTHER"),
        ("Empty", b""),
    ]
    assert [len(row.headers) for row in found] == [0, 5, 0, 0, 0]
    assert {row.stream for row in found} == {stream}
    slack = timedelta(seconds=1)
    for row in found:
        assert before - slack <= row.timestamp.replace(tzinfo=UTC) <= datetime.now(UTC) + slack


def test_rows_like_kafkas(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 4)
    found = reader(spark, stage, stream, rowFormat="kafka").load().orderBy("offset").collect()
    assert [(bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) for row in found] == [
        (f"{stream}.a".encode(), b"0", stream, 0, 1),
        (f"{stream}.b.c".encode(), b"1", stream, 0, 2),
        (f"{stream}.b.d".encode(), b"2", stream, 0, 3),
        (f"{stream}.a".encode(), b"3", stream, 0, 4),
    ]


def test_several_streams_by_list_and_by_pattern(spark: Any, stage: Stage) -> None:
    streams = [stage.new_stream(f"MANY_{letter}") for letter in "ABC"]
    for at, stream in enumerate(streams):
        stage.fill(stream, 5 + at)
    counts = {
        row.stream: row["count"]
        for row in reader(spark, stage, ",".join(streams)).load().groupBy("stream").count().collect()
    }
    assert counts == {stream: 5 + at for at, stream in enumerate(streams)}
    frame = (
        spark.read.format("tidelog")
        .option("servers", stage.url)
        .option("subscribePattern", "MANY_[AC]")
        .load()
    )
    assert frame.filter(frame.stream.isin(streams)).count() == 12


def test_offsets_and_times_by_stream(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 10)
    assert [row.seq for row in rows(spark, stage, stream, startingOffsets=f'{{"{stream}": 8}}')] == [8, 9, 10]
    assert [row.seq for row in rows(spark, stage, stream, endingOffsets=f'{{"{stream}": 3}}')] == [1, 2]
    times = {row.seq: row.timestamp for row in reader(spark, stage, stream).load().collect()}
    exact = times[6].replace(tzinfo=UTC).isoformat()
    expected = [seq for seq, time in sorted(times.items()) if time >= times[6]]
    assert [row.seq for row in rows(spark, stage, stream, startingTimestamp=exact)] == expected
    assert [row.seq for row in rows(spark, stage, stream, endingTimestamp=exact)] == [
        seq for seq in sorted(times) if seq not in expected
    ]
    assert rows(spark, stage, stream, endingTimestamp="2000-01-01") == []
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with pytest.raises(PySparkException, match="startingOffsetsByTimestampStrategy"):
        rows(spark, stage, stream, startingTimestamp=later)
    assert (
        rows(spark, stage, stream, startingTimestamp=later, startingOffsetsByTimestampStrategy="latest") == []
    )


def test_sql_needs_no_registration_and_a_view_answers_one_question_after_the_other(
    spark: Any, stage: Stage
) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 300)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW s USING tidelog OPTIONS (stream '{stream}', servers '{stage.url}')"
    )
    found = spark.sql(
        f"SELECT seq FROM s WHERE seq > 50 AND seq <= 59 AND subject = '{stream}.a' ORDER BY 1"
    ).collect()
    assert [row.seq for row in found] == [52, 55, 58]
    assert (
        spark.sql("SELECT count(*) AS n FROM s WHERE subject = 'not one of these' OR seq = 3").collect()[0].n
        == 1
    )
    assert spark.sql("SELECT count(*) AS n FROM s WHERE subject = 'not one of these'").collect()[0].n == 0


def test_the_range_is_cut_into_tasks(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 10)
    assert reader(spark, stage, stream, minPartitions=3).load().rdd.getNumPartitions() == 3
    assert reader(spark, stage, stream, maxRecordsPerPartition=4).load().rdd.getNumPartitions() == 3
    assert reader(spark, stage, stream).load().rdd.getNumPartitions() == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"stream": "NOT_THERE"}, "option 'stream'.*'NOT_THERE'"),
        ({"stream": "a.b"}, "option 'stream'"),
        ({"startingOffsets": "soon"}, "option 'startingOffsets'"),
        ({"startingOffset": "1"}, "did you mean 'startingOffsets'"),
        ({"endingOffsets": "1000"}, "option 'endingOffsets'.*failOnDataLoss"),
        ({"failOnDataLoss": "perhaps"}, "option 'failOnDataLoss'"),
        ({"subjects": "a..b"}, "option 'subjects'"),
        ({"subscribePattern": "x"}, "option 'stream'"),
        ({"servers": "http://127.0.0.1:1"}, "option 'servers'"),
        (
            {
                "servers": "nats://127.0.0.1:1",
                "fetchOffset.numRetries": "2",
                "fetchOffset.retryIntervalMs": "100",
            },
            "option 'servers'.*did not answer",
        ),
    ],
)
def test_errors_name_the_option(spark: Any, stage: Stage, options: dict[str, str], told: str) -> None:
    stream = stage.new_stream()
    stage.fill(stream, 3)
    made = reader(spark, stage, stream)
    for name, value in options.items():
        made = made.option(name, value)
    with pytest.raises(PySparkException, match=told):
        made.load().collect()


def test_a_stream_without_direct_get_is_told_of(spark: Any, stage: Stage) -> None:
    stream = stage.new_stream(allow_direct=False)
    with pytest.raises(PySparkException, match="--allow-direct"):
        rows(spark, stage, stream)


def test_the_schema_asks_nobody(spark: Any) -> None:
    frame = spark.read.format("tidelog").option("servers", "nats://127.0.0.1:1").option("stream", "S").load()
    assert frame.columns == ["stream", "subject", "seq", "timestamp", "value"]
