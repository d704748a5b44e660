"""Streams over the API: made, changed, described, listed, emptied and deleted."""

import pytest

from unit.broker.desk.harbor import Harbor


@pytest.fixture
def harbor() -> Harbor:
    return Harbor()


def test_a_stream_is_made_and_takes_messages(harbor: Harbor) -> None:
    made = harbor.stream(description="d")
    assert made["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert made["did_create"]
    assert made["config"]["description"] == "d"
    assert made["state"]["first_ts"] == "0001-01-01T00:00:00Z"
    assert harbor.publish("S.a", b"1") == {"stream": "S", "seq": 1}
    assert harbor.stream(description="d")["did_create"]
    assert harbor.refused("STREAM.CREATE.S", {"name": "S", "subjects": ["other"]})[1] == 10058
    assert harbor.refused("STREAM.CREATE.T", {"name": "T", "subjects": ["S.a"]})[1] == 10065
    assert harbor.refused("STREAM.CREATE.T", {"name": "U"})[1] == 10056


def test_a_stream_is_changed(harbor: Harbor) -> None:
    harbor.stream()
    changed = harbor.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["T.>"], "max_msgs": 3})
    assert changed["type"] == "io.nats.jetstream.api.v1.stream_update_response"
    assert changed["config"]["max_msgs"] == 3
    assert harbor.publish("T.a")["seq"] == 1
    assert harbor.refused("STREAM.UPDATE.X", {"name": "X"})[1] == 10059


def test_a_stream_is_described(harbor: Harbor) -> None:
    harbor.stream(storage="memory")
    for subject in ("S.a", "S.b", "S.b", "S.c", "S.d"):
        harbor.publish(subject)
    harbor.ask("STREAM.PURGE.S", {"filter": "S.b"})
    found = harbor.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": "S.*"})
    state = found["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (3, 1, 5)
    assert (state["num_deleted"], state["deleted"]) == (2, [2, 3])
    assert (state["num_subjects"], state["subjects"]) == (3, {"S.a": 1, "S.c": 1, "S.d": 1})
    assert (found["total"], found["offset"], found["limit"]) == (3, 0, 100_000)
    assert found["cluster"] == {"leader": "here"}
    found = harbor.ask("STREAM.INFO.S", {"subjects_filter": "S.*", "offset": 1})
    assert found["state"]["subjects"] == {"S.c": 1, "S.d": 1}
    assert "deleted" not in found["state"]


def test_streams_are_listed_page_by_page(harbor: Harbor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert harbor.ask("STREAM.NAMES")["streams"] is None
    for name in ("C", "A", "B"):
        harbor.stream(name)
    found = harbor.ask("STREAM.NAMES", {"offset": 1})
    assert (found["total"], found["offset"], found["limit"]) == (3, 1, 1024)
    assert found["streams"] == ["B", "C"]
    assert harbor.ask("STREAM.NAMES", {"subject": "A.x"})["streams"] == ["A"]
    found = harbor.ask("STREAM.LIST", {"offset": 9})
    assert (found["total"], found["offset"], found["limit"], found["streams"]) == (3, 3, 256, [])
    monkeypatch.setattr("tidelog.broker.desk.stream.LISTED_NAMES", 2)
    monkeypatch.setattr("tidelog.broker.desk.stream.LISTED_STREAMS", 2)
    assert harbor.ask("STREAM.NAMES")["streams"] == ["A", "B"]
    assert [each["config"]["name"] for each in harbor.ask("STREAM.LIST")["streams"]] == ["A", "B"]


def test_a_stream_is_emptied(harbor: Harbor) -> None:
    harbor.stream()
    for number in range(6):
        harbor.publish(f"S.{number % 2}")
    assert harbor.refused("STREAM.PURGE.S", {"seq": 1, "keep": 1})[1] == 10003
    assert harbor.ask("STREAM.PURGE.S", {"filter": "S.0", "keep": 1})["purged"] == 2
    assert harbor.ask("STREAM.PURGE.S", {"seq": 4})["purged"] == 1
    found = harbor.ask("STREAM.PURGE.S")
    assert found == {
        "type": "io.nats.jetstream.api.v1.stream_purge_response",
        "success": True,
        "purged": 3,
    }
    assert harbor.ask("STREAM.INFO.S")["state"]["first_seq"] == 7
    assert harbor.ask("STREAM.PURGE.X")["purged"] == 0


def test_a_purge_may_be_of_nothing_or_go_beyond_the_last(harbor: Harbor) -> None:
    harbor.stream()
    harbor.publish("S.1")
    assert harbor.ask("STREAM.PURGE.S", {"filter": "S..1"})["purged"] == 0
    assert harbor.ask("STREAM.PURGE.S", {"filter": "S.1", "seq": 50})["purged"] == 1
    assert harbor.ask("STREAM.PURGE.S", {"seq": 100})["purged"] == 0
    state = harbor.ask("STREAM.INFO.S")["state"]
    assert (state["first_seq"], state["last_seq"]) == (100, 99)


def test_a_stream_is_deleted(harbor: Harbor) -> None:
    harbor.stream()
    assert harbor.refused("STREAM.DELETE.S", {"x": 1})[1] == 10038
    assert harbor.ask("STREAM.DELETE.S") == {
        "type": "io.nats.jetstream.api.v1.stream_delete_response",
        "success": True,
    }
    assert harbor.refused("STREAM.DELETE.S")[1] == 10059


def test_streams_are_there_after_a_restart(harbor: Harbor) -> None:
    """ENGINE-1"""
    harbor.stream()
    harbor.publish("S.a", b"kept")
    harbor.engine.close()
    again = Harbor(disk=harbor.disk)
    assert again.ask("STREAM.INFO.S")["state"]["messages"] == 1
    assert again.publish("S.a")["seq"] == 2
