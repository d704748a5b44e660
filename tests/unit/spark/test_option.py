"""Options: names and aliases, values, and errors that say which and what to do."""

from datetime import UTC, datetime

import pytest

from tidelog.spark.option import EARLIEST, LATEST, OptionError, Position, read_options, write_options


def test_keys_come_in_any_case_and_kafkas_names_are_known() -> None:
    read = read_options(
        {"SUBSCRIBE": "A, B", "kafka.bootstrap.servers": "nats://h:1", "maxmessagespertrigger": "5"},
        streaming=True,
    )
    assert (read.streams, read.connect.servers, read.max_rows) == (("A", "B"), "nats://h:1", 5)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("groupIdPrefix", "progress is in the checkpoint"),
        ("assign", "option 'stream'"),
        ("kafka.security.protocol", "tls://"),
        ("kafka.sasl.jaas.config", "'user' and 'password'"),
        ("kafka.max.poll.records", "leave it out"),
    ],
)
def test_what_only_kafka_has_is_refused_with_what_to_do(name: str, told: str) -> None:
    with pytest.raises(OptionError, match=f"option '{name.lower()}': .*{told}"):
        read_options({"stream": "S", name: "x"}, streaming=True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 900), ("90s", 90), ("15m", 900), ("1 h", 3600), ("250ms", 0.25)]
)
def test_delays_are_durations_as_spark_writes_them(text: str, seconds: float) -> None:
    given = {"stream": "S", "minOffsetsPerTrigger": "10", "maxTriggerDelay": text}
    assert read_options(given, streaming=True).max_delay_s == seconds
    with pytest.raises(OptionError, match="'maxTriggerDelay': must be a time"):
        read_options({"stream": "S", "maxTriggerDelay": "soon"}, streaming=True)


def test_defaults_are_kafkas() -> None:
    batch, stream = (
        read_options({"stream": "S"}, streaming=False),
        read_options({"stream": "S"}, streaming=True),
    )
    assert (batch.starting.of("S"), batch.ending.of("S")) == (EARLIEST, LATEST)
    assert stream.starting.of("S") == LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ({"startingOffsets": "earliest"}, EARLIEST),
        ({"startingOffsets": "42"}, Position(seq=42)),
        ({"startingOffsets": '{"S": 42, "T": -1}'}, Position(seq=42)),
        ({"startingOffsets": '{"S": -1}'}, LATEST),
        ({"startingOffsets": '{"S": -2}'}, EARLIEST),
        ({"startingOffsets": '{"T": 3}'}, LATEST),
        ({"startingTimestamp": "1000"}, Position(time=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))),
        (
            {"startingTimestamp": "2026-11-19T08:00:00+01:00"},
            Position(time=datetime(2026, 11, 19, 7, tzinfo=UTC)),
        ),
        (
            {"startingTimestamp": "2026-11-19", "startingOffsets": "42"},
            Position(time=datetime(2026, 11, 19, tzinfo=UTC)),
        ),
        (
            {"startingOffsetsByTimestamp": '{"S": 0}', "startingOffsets": "1"},
            Position(time=datetime(1970, 1, 1, tzinfo=UTC)),
        ),
    ],
)
def test_positions(given: dict[str, str], position: Position) -> None:
    assert read_options({"stream": "S"} | given, streaming=True).starting.of("S") == position


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "stream"),
        ({"stream": "S", "subscribePattern": "S"}, "stream"),
        ({"stream": "S", "subscribe": "T"}, "stream"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"stream": "S", "startingOffsets": "0"}, "startingOffsets"),
        ({"stream": "S", "startingOffsets": "{"}, "startingOffsets"),
        ({"stream": "S", "startingOffsetsByTimestamp": "[1]"}, "startingOffsetsByTimestamp"),
        ({"stream": "S", "startingTimestamp": "noon"}, "startingTimestamp"),
        ({"stream": "S", "endingOffsets": "earliest"}, "endingOffsets"),
        ({"stream": "S", "maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger"),
        ({"stream": "S", "rowFormat": "pulsar"}, "rowFormat"),
        ({"stream": "S", "subjects": "a b"}, "subjects"),
        ({"stream": "S", "password": "x"}, "password"),
        ({"stream": "S", "failOnDataLos": "false"}, "failondatalos"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, str], name: str) -> None:
    with pytest.raises(OptionError) as raised:
        read_options(given, streaming=False)
    assert raised.value.name == name


def test_options_that_are_sparks_own_are_passed_over() -> None:
    read_options({"stream": "S", "checkpointLocation": "/x", "queryName": "q", "path": "/y"}, streaming=True)


def test_secrets_are_not_shown() -> None:
    given = {
        "stream": "S",
        "user": "u",
        "password": "hidden",
        "servers": "nats://me:hidden@h:1",
        "token": "hidden",
    }
    read = read_options(given, streaming=False)
    assert "hidden" not in repr(read)
    assert read.connect.servers_shown == "nats://h:1"
    with pytest.raises(OptionError) as raised:
        read_options({"stream": "S", "servers": "nats://me:hidden@h:port"}, streaming=False)
    assert "hidden" not in str(raised.value)


def test_of_a_sink() -> None:
    write = write_options({"topic": "orders.new", "stream": "ORDERS"})
    assert (write.subject, write.stream, write.dedupe, write.max_in_flight) == (
        "orders.new",
        "ORDERS",
        "batch",
        4096,
    )
    for given in ({"subject": "a.*"}, {"subject": "a b"}, {"dedupe": "maybe"}, {"markerBucket": "a.b"}):
        with pytest.raises(OptionError):
            write_options(given)
