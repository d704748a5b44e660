"""One message over the API: read, and deleted."""

import base64

import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth
from sim.worker import SimWorker
from unit.broker.desk.harbor import Harbor, replies


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream()
    for number in range(6):
        harbor.publish(f"S.{number % 2}", b"m%d" % number, A=str(number))
    harbor.ask("STREAM.MSG.DELETE.S", {"seq": 3})
    return harbor


@pytest.mark.parametrize(
    ("body", "seq"),
    [
        ({"seq": 2}, 2),
        ({"last_by_subj": "S.1"}, 6),
        ({"last_by_subj": "S.*"}, 6),
        ({"next_by_subj": "S.0"}, 1),
        ({"next_by_subj": "S.0", "seq": 2}, 5),
        ({"start_time": "2000-01-01T00:00:00Z"}, 1),
        ({"start_time": "2000-01-01T00:00:00Z", "next_by_subj": "S.1"}, 2),
    ],
)
def test_a_message_is_found(harbor: Harbor, body: dict[str, object], seq: int) -> None:
    found = harbor.ask("STREAM.MSG.GET.S", body)
    message = found["message"]
    assert message["seq"] == seq
    assert base64.b64decode(message["data"]) == b"m%d" % (seq - 1)
    assert b"A: %d" % (seq - 1) in base64.b64decode(message["hdrs"])
    assert "hdrs" not in harbor.ask("STREAM.MSG.GET.S", {**body, "no_hdr": True})["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"seq": 3}, 10037),
        ({"seq": 9}, 10037),
        ({"last_by_subj": "x"}, 10037),
        ({"last_by_subj": "S..x"}, 10037),
        ({"next_by_subj": "S.0", "seq": 6}, 10037),
        ({"start_time": "2200-01-01T00:00:00Z"}, 10037),
        (None, 10003),
        ({"seq": 1, "last_by_subj": "S.1"}, 10003),
        ({"seq": 1, "batch": 2}, 10003),
        ({"last_by_subj": "S.1", "next_by_subj": "S.1"}, 10003),
        ({"no_hdr": True}, 10003),
        ({"reverse": True, "seq": 1}, 10025),
    ],
)
def test_there_is_none_or_it_cannot_be_asked(harbor: Harbor, body: object, code: int) -> None:
    assert harbor.refused("STREAM.MSG.GET.S", body)[1] == code


def test_reading_is_not_counted(harbor: Harbor) -> None:
    before = harbor.ask("INFO")["api"]["total"]
    harbor.ask("STREAM.MSG.GET.S", {"seq": 1})
    assert harbor.ask("INFO")["api"]["total"] == before + 1


def test_a_message_is_deleted(harbor: Harbor) -> None:
    assert harbor.ask("STREAM.MSG.DELETE.S", {"seq": 4, "no_erase": True})["success"]
    assert harbor.refused("STREAM.MSG.DELETE.S", {"seq": 4}) == (400, 10043, "sequence 4 not found")
    assert harbor.refused("STREAM.MSG.DELETE.S", {"seq": 9}) == (500, 10057, "stream store EOF")
    assert harbor.refused("STREAM.MSG.DELETE.S")[1] == 10003
    assert harbor.ask("STREAM.INFO.S")["state"]["num_deleted"] == 2
    harbor.stream("T", deny_delete=True)
    assert harbor.refused("STREAM.MSG.DELETE.T", {"seq": 1})[1] == 10057


def harbor_of_files(worker: SimWorker, disk: SimDisk | None = None) -> Harbor:
    """With a stream that is synced before anything is answered."""
    harbor = Harbor(worker=worker, disk=disk)
    harbor.send("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["S.>"],"storage":"file"}')
    worker.run_all()
    for number in range(6):
        harbor.send("S.1", b"m%d" % number)
    worker.run_all()
    replies(harbor.client.read())
    return harbor


@pytest.mark.parametrize(
    ("subject", "body", "left"),
    [("STREAM.MSG.DELETE.S", b'{"seq":3}', 5), ("STREAM.PURGE.S", b'{"keep":2}', 2)],
)
def test_what_is_deleted_is_answered_when_it_is_synced(subject: str, body: bytes, left: int) -> None:
    """STREAM-6"""
    worker = SimWorker()
    harbor = harbor_of_files(worker)
    assert harbor.send(f"$JS.API.{subject}", body) == []
    (info,) = harbor.send("$JS.API.STREAM.INFO.S")
    assert info.document["state"]["messages"] == left
    worker.run_all()
    harbor.tick()
    (answer,) = replies(harbor.client.read())
    assert answer.document["success"]


def test_what_could_not_be_synced_is_refused() -> None:
    """STREAM-6"""
    disk, worker = SimDisk(1), SimWorker()
    harbor = harbor_of_files(worker, disk)
    disk.toxics.append(FailNth(1, "sync"))
    harbor.send("$JS.API.STREAM.MSG.DELETE.S", b'{"seq":3}')
    harbor.send("$JS.API.STREAM.PURGE.S")
    worker.run_all()
    harbor.tick()
    codes = [reply.document["error"]["err_code"] for reply in replies(harbor.client.read())]
    assert codes == [10057, 10110]
