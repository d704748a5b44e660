"""Snapshots and restores over the API."""

from typing import Any, NamedTuple

import msgspec
import pytest

from unit.broker.desk.harbor import Harbor, replies


class Piece(NamedTuple):
    reply: str
    header: bytes
    payload: bytes


class Backup:
    """A client that takes a snapshot in its own time."""

    def __init__(self, harbor: Harbor, **asked: Any) -> None:
        self.harbor = harbor
        self.response = harbor.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "here", **asked})
        self.pieces: list[Piece] = []

    def listen(self) -> None:
        self.harbor.client.send(b"SUB here 9\r\n")
        self.take()

    def take(self) -> int:
        """What has come; how much that was."""
        wait(self.harbor, 0)
        data = self.harbor.client.read()
        count = len(self.pieces)
        while data:
            line, _, data = data.partition(b"\r\n")
            words = line.decode().split()
            if words[0] not in ("MSG", "HMSG"):
                continue
            sizes = [int(word) for word in words[-1:] if words[0] == "MSG"] or [
                int(word) for word in words[-2:]
            ]
            header_size = sizes[0] if words[0] == "HMSG" else 0
            reply = words[3] if len(words) == (5 if words[0] == "MSG" else 6) else ""
            self.pieces.append(Piece(reply, data[:header_size], data[header_size : sizes[-1]]))
            data = data[sizes[-1] + 2 :]
        return len(self.pieces) - count

    def acknowledge(self, piece: Piece) -> None:
        self.harbor.client.send(f"PUB {piece.reply} 0\r\n\r\n".encode())

    def whole(self) -> bytes:
        """Acknowledge until there is no more."""
        at = 0
        while self.pieces[-1].payload:
            for piece in self.pieces[at:]:
                at += 1
                if piece.reply:
                    self.acknowledge(piece)
            assert self.take()
        return b"".join(piece.payload for piece in self.pieces)


def wait(harbor: Harbor, seconds: float) -> None:
    clock = harbor.house.clock
    clock.advance(seconds=seconds)
    harbor.house.broker.timers.run(clock.monotonic_ns())
    harbor.tick()


def restore(harbor: Harbor, data: bytes, config: object, size: int = 1000) -> dict[str, Any]:
    answer = harbor.ask("STREAM.RESTORE.S", {"config": config, "state": {"messages": 1}})
    subject = answer["deliver_subject"]
    for start in range(0, len(data), size):
        heard = harbor.send(subject, data[start : start + size])
        assert [reply.payload for reply in heard] == [b""], heard
    return harbor.send(subject, b"")[0].document


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream(storage="file")
    for number in range(40):
        harbor.publish("S.a", b"%d" % number * 100)
    return harbor


def test_a_snapshot_goes_out_as_it_is_taken_and_comes_back(harbor: Harbor) -> None:
    backup = Backup(harbor, chunk_size=1024, window_size=3000)
    assert backup.response["type"].endswith("stream_snapshot_response")
    assert backup.response["state"]["messages"] == 40
    backup.listen()
    assert len(backup.pieces) == 2
    backup.acknowledge(backup.pieces[0])
    assert backup.take() == 1
    data = backup.whole()
    assert backup.pieces[-1] == Piece("", b"NATS/1.0 204\r\n\r\n", b"")
    config = backup.response["config"]
    assert harbor.refused("STREAM.RESTORE.S", {"config": config, "state": {}})[1] == 10130
    harbor.ask("STREAM.DELETE.S")
    answer = restore(harbor, data, config)
    assert answer["type"].endswith("stream_create_response")
    assert answer["state"] == backup.response["state"]
    assert harbor.ask("STREAM.INFO.S")["state"]["last_seq"] == 40


@pytest.mark.parametrize("wanted", [True, False])
def test_consumers_come_along_if_they_are_wanted(harbor: Harbor, wanted: bool) -> None:
    config = {"durable_name": "C", "ack_policy": "explicit"}
    harbor.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    delivered = harbor.send("$JS.API.CONSUMER.MSG.NEXT.S.C", b"3")
    assert len(delivered) == 3
    backup = Backup(harbor, no_consumers=not wanted)
    backup.listen()
    data = backup.whole()
    harbor.ask("STREAM.DELETE.S")
    restore(harbor, data, backup.response["config"])
    found = harbor.ask("CONSUMER.INFO.S.C")
    if wanted:
        assert (found["delivered"]["stream_seq"], found["num_ack_pending"]) == (3, 3)
    else:
        assert found["error"]["err_code"] == 10014


def test_a_snapshot_waits_for_somebody_who_listens(harbor: Harbor) -> None:
    backup = Backup(harbor)
    wait(harbor, 1)
    assert backup.take() == 0
    backup.listen()
    assert backup.pieces[-1].payload == b""
    assert len(backup.whole()) > 4000


def test_who_does_not_acknowledge_is_told_and_left(harbor: Harbor) -> None:
    backup = Backup(harbor, chunk_size=1024, window_size=1024)
    backup.listen()
    assert backup.take() == 0
    wait(harbor, 5.1)
    backup.take()
    assert backup.pieces[-1].header == b"NATS/1.0 408 No Flow Response\r\n\r\n"
    backup.acknowledge(backup.pieces[0])
    assert backup.take() == 0


def test_who_goes_away_ends_it(harbor: Harbor) -> None:
    other = harbor.house.client(headers=True)
    other.send(b"SUB $JS.EVENT.ADVISORY.STREAM.> 1\r\n")
    backup = Backup(harbor, chunk_size=1024, window_size=1024)
    backup.listen()
    harbor.client.send(b"UNSUB 9\r\n")
    harbor.tick()
    told = [msgspec.json.decode(reply.payload) for reply in replies(other.read())]
    assert [event["type"].rpartition(".")[2] for event in told] == ["snapshot_create", "snapshot_complete"]
    assert told[1]["error"] == "no interest"


def test_what_is_asked_must_make_sense(harbor: Harbor) -> None:
    assert harbor.refused("STREAM.SNAPSHOT.S")[1] == 10003
    assert harbor.refused("STREAM.SNAPSHOT.T", {"deliver_subject": "x"})[1] == 10059
    assert harbor.refused("STREAM.SNAPSHOT.S", {"deliver_subject": "x.*"})[1] == 10015
    assert harbor.refused("STREAM.RESTORE.T")[1] == 10003
    assert harbor.refused("STREAM.RESTORE.T", {"config": {"name": "U"}, "state": {}})[1] == 10056


def test_an_archive_that_cannot_be_read_leaves_nothing(harbor: Harbor) -> None:
    config = {"name": "T", "subjects": ["t"], "storage": "file"}
    subject = harbor.ask("STREAM.RESTORE.T", {"config": config, "state": {}})["deliver_subject"]
    answer = harbor.send(subject, b"nothing of the kind")[0].document
    assert (answer["error"]["err_code"], answer["error"]["description"]) == (
        10062,
        "restore failed: this is no archive of a stream",
    )
    assert harbor.refused("STREAM.INFO.T")[1] == 10059
    assert not harbor.disk.exists("$G/streams/T")


def test_who_stops_sending_leaves_nothing(harbor: Harbor) -> None:
    config = {"name": "T", "subjects": ["t"], "storage": "file"}
    subject = harbor.ask("STREAM.RESTORE.T", {"config": config, "state": {}})["deliver_subject"]
    assert harbor.disk.exists("$G/streams/T")
    wait(harbor, 5.1)
    assert not harbor.disk.exists("$G/streams/T")
    heard = harbor.send(subject, b"more")
    assert [reply.header[:12] for reply in heard] == [b"NATS/1.0 503"]


def test_a_refusal_to_restore_names_no_place(harbor: Harbor) -> None:
    assert harbor.ask("STREAM.RESTORE.S")["deliver_subject"] == ""
