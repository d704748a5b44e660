"""Beyond the peer: cursors of a stream, and what its log knows of itself."""

from typing import Any

import msgspec
import pytest

from sim.disk import SimDisk
from tidelog.stream.surroundings import AccountLimits
from unit.broker.desk.harbor import Document, Harbor


def own(harbor: Harbor, subject: str, body: object = None) -> Document:
    text = msgspec.json.encode(body) if body is not None else b""
    heard = harbor.send(f"$TIDELOG.API.{subject}", text)
    assert len(heard) == 1, heard
    return heard[0].document


def error(found: Document) -> tuple[int, int]:
    return found["error"]["code"], found["error"]["err_code"]


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream()
    return harbor


def test_a_cursor_is_set_and_fetched(harbor: Harbor) -> None:
    found = own(harbor, "CURSOR.SET.S.reader.7", {"seq": 12})
    assert found["type"] == "io.tidelog.api.v1.cursor_set_response"
    cursor = found["cursor"]
    assert (cursor["stream"], cursor["name"], cursor["seq"], cursor["revision"]) == ("S", "reader.7", 12, 1)
    assert own(harbor, "CURSOR.GET.S.reader.7")["cursor"] == cursor
    assert error(own(harbor, "CURSOR.GET.S.other")) == (404, 20002)
    assert error(own(harbor, "CURSOR.GET.X.other")) == (404, 10059)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"seq": 13}, 0),
        ({"seq": 13, "expected_revision": 1}, 0),
        ({"seq": 13, "expected_revision": 0}, 20003),
        ({"seq": 13, "expected_revision": 7}, 20003),
        ({"seq": 11}, 20004),
        ({"seq": 11, "rewind": True}, 0),
        ({"seq": -1}, 10025),
        ({"sequence": 1}, 10025),
        (None, 10003),
    ],
)
def test_a_cursor_moves_only_as_it_is_told(harbor: Harbor, body: Any, code: int) -> None:
    own(harbor, "CURSOR.SET.S.c", {"seq": 12})
    found = own(harbor, "CURSOR.SET.S.c", body)
    if code:
        assert found["error"]["err_code"] == code
        assert own(harbor, "CURSOR.GET.S.c")["cursor"]["seq"] == 12
    else:
        assert found["cursor"]["seq"] == body["seq"]


def test_cursors_are_listed_and_deleted(harbor: Harbor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a", "c"):
        own(harbor, f"CURSOR.SET.S.{name}", {"seq": 1})
    found = own(harbor, "CURSOR.LIST.S", {"offset": 1})
    assert (found["total"], found["offset"], found["limit"]) == (3, 1, 1024)
    assert [cursor["name"] for cursor in found["cursors"]] == ["b", "c"]
    monkeypatch.setattr("tidelog.broker.desk.cursor.LISTED_NAMES", 1)
    assert [cursor["name"] for cursor in own(harbor, "CURSOR.LIST.S")["cursors"]] == ["a"]
    assert error(own(harbor, "CURSOR.DELETE.S.a", {"expected_revision": 9})) == (409, 20003)
    assert own(harbor, "CURSOR.DELETE.S.a")["success"]
    assert error(own(harbor, "CURSOR.DELETE.S.a")) == (404, 20002)
    assert own(harbor, "CURSOR.LIST.S")["total"] == 2


def test_names_have_a_form(harbor: Harbor) -> None:
    assert error(own(harbor, f"CURSOR.SET.S.{'x' * 256}", {"seq": 1})) == (400, 20001)


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_answered_is_there_after_a_crash(clean: bool) -> None:
    disk = SimDisk(1)
    harbor = Harbor(disk=disk)
    harbor.stream()
    harbor.stream("M", storage="memory")
    own(harbor, "CURSOR.SET.S.c", {"seq": 12})
    own(harbor, "CURSOR.SET.M.c", {"seq": 3})
    if clean:
        harbor.engine.close()
        disk.kill()
    else:
        disk.power_cut()
    again = Harbor(disk=disk.reopen())
    assert own(again, "CURSOR.GET.S.c")["cursor"]["seq"] == 12
    again.stream("M", storage="memory")
    assert error(own(again, "CURSOR.GET.M.c")) == (404, 20002)


def test_a_stream_takes_its_cursors_along(harbor: Harbor) -> None:
    own(harbor, "CURSOR.SET.S.c", {"seq": 12})
    harbor.ask("STREAM.DELETE.S")
    harbor.stream()
    assert error(own(harbor, "CURSOR.GET.S.c")) == (404, 20002)


def test_what_nobody_knows_is_refused(harbor: Harbor) -> None:
    assert error(own(harbor, "CURSOR.MOVE.S.c")) == (400, 10003)
    assert harbor.desk.refusals == 1


def test_a_log_tells_what_it_does_not_have() -> None:
    harbor = Harbor(limits={"$G": AccountLimits()})
    harbor.stream(max_msgs=3, first_seq=10)
    for _ in range(6):
        harbor.publish("S.a")
    found = own(harbor, "STREAM.INFO.S")
    assert found["type"] == "io.tidelog.api.v1.stream_info_response"
    log_id = harbor.engine.accounts["$G"].find("S").log.store.log_id
    assert (found["account"], found["log_id"]) == ("$G", log_id.hex())
    assert (found["first_seq"], found["last_seq"], found["committed_seq"]) == (13, 15, 15)
    assert found["trimmed"] == [{"start_seq": 10, "end_seq": 13}]
    assert (found["lost"], found["acknowledged"]) == ([], "synced")
    harbor.engine.accounts["$G"].find("S").log.store.lose(14)
    found = own(harbor, "STREAM.INFO.S")
    assert found["lost"] == [{"start_seq": 14, "end_seq": 15}]
    assert harbor.ask("STREAM.INFO.S")["state"]["lost"]["msgs"] == [14]
