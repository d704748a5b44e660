"""Direct reads over the wire: one message or many, forwards and backwards, with the status of the peer."""

from typing import Any

import msgspec
import pytest

from sim.disk import SimDisk
from sim.toxic import FailNth
from tidelog.base import limits
from tidelog.wire.header import decode
from unit.broker.desk.harbor import Harbor


@pytest.fixture
def harbor() -> Harbor:
    # The clock begins at 2023-11-14T22:13:20Z; each message is a second younger.
    harbor = Harbor()
    harbor.stream(allow_direct=True)
    for number in range(12):
        harbor.publish(f"S.{number % 4}", b"m%d" % number, **({"A": str(number)} if number % 3 == 0 else {}))
        harbor.house.advance(1)
    harbor.ask("STREAM.MSG.DELETE.S", {"seq": 3})
    return harbor


def read(
    harbor: Harbor, body: object, subject: str = "DIRECT.GET.S"
) -> tuple[list[int], str, dict[str, str]]:
    """Sequences that came, the status at the end, and what was said with it."""
    text = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    sequences, status, said = [], "", {}
    for reply in harbor.send(f"$JS.API.{subject}", text):
        block = decode(reply.header)
        if block.status:
            status = f"{block.status} {block.description}"
            said = {name: values[0] for name, values in block.headers.items()}
        else:
            sequences.append(int(block.headers["Nats-Sequence"][0]))
    return sequences, status, said


def test_a_message_comes_with_what_there_is_to_say(harbor: Harbor) -> None:
    (reply,) = harbor.send("$JS.API.DIRECT.GET.S", b'{"seq": 4}')
    assert reply.payload == b"m3"
    assert reply.header == (
        b"NATS/1.0\r\nA: 3\r\nNats-Stream: S\r\nNats-Subject: S.3\r\nNats-Sequence: 4\r\n"
        b"Nats-Time-Stamp: 2023-11-14T22:13:23Z\r\n\r\n"
    )
    (reply,) = harbor.send("$JS.API.DIRECT.GET.S", b'{"seq": 4, "no_hdr": true}')
    assert (reply.header, reply.payload) == (b"", b"m3")


def test_a_batch_says_what_is_still_there(harbor: Harbor) -> None:
    first, second, end = harbor.send("$JS.API.DIRECT.GET.S", b'{"seq": 2, "batch": 2}')
    assert decode(first.header).headers["Nats-Num-Pending"] == ["9"]
    assert decode(first.header).headers["Nats-Last-Sequence"] == ["0"]
    assert decode(second.header).headers["Nats-Last-Sequence"] == ["2"]
    assert end.header == b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 8\r\nNats-Last-Sequence: 4\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "sequences", "status"),
    [
        ({"seq": 2}, [2], ""),
        ({"seq": 3}, [], "404 Message Not Found"),
        ({"last_by_subj": "S.1"}, [10], ""),
        ({"last_by_subj": "S.*"}, [12], ""),
        ({"last_by_subj": "S..x"}, [], "404 Message Not Found"),
        ({"next_by_subj": "S.1", "seq": 3}, [6], ""),
        ({"start_time": "2023-11-14T22:13:30Z", "batch": 5}, [11, 12], "204 EOB"),
        ({"seq": 10, "batch": 9}, [10, 11, 12], "204 EOB"),
        ({"seq": 13, "batch": 9}, [], "404 Message Not Found"),
        ({"next_by_subj": "S.1", "batch": 9}, [2, 6, 10], "204 EOB"),
        ({"seq": 1, "batch": 9, "max_bytes": 25}, [1, 2], "204 EOB"),
        ({"multi_last": ["S.1", "S.0"]}, [9, 10], "204 EOB"),
        ({"multi_last": ["S.*"], "up_to_seq": 6}, [4, 5, 6], "204 EOB"),
        ({"multi_last": ["S.*"], "up_to_time": "2023-11-14T22:13:26Z"}, [4, 5, 6], "204 EOB"),
        ({"multi_last": ["S.*"], "batch": 1}, [9], "204 EOB"),
        ({"multi_last": ["x"]}, [], "404 No Results"),
        ({"multi_last": ["S..x"]}, [], "404 No Results"),
        ({"multi_last": ["S.*"], "up_to_time": "2020-01-01T00:00:00Z"}, [], "404 No Results"),
        (None, [], "408 Empty Request"),
        ({}, [], "408 Empty Request"),
        (b"x", [], "408 Malformed Request"),
        ({"seq": 1, "last_by_subj": "S.1"}, [], "408 Bad Request"),
        ({"last_by_subj": "S.1", "batch": 2}, [], "408 Bad Request"),
        ({"multi_last": ["S.1"], "next_by_subj": "S.1"}, [], "408 Bad Request"),
        ({"seq": 1, "stop_seq": 2}, [], "408 Bad Request"),
        ({"reverse": True}, [12], ""),
        ({"reverse": True, "seq": 3}, [2], ""),
        ({"reverse": True, "prev_by_subj": "S.2"}, [11], ""),
        ({"reverse": True, "prev_by_subj": "S.2", "seq": 6}, [], "404 Message Not Found"),
        ({"reverse": True, "end_time": "2023-11-14T22:13:25.5Z"}, [6], ""),
        ({"reverse": True, "stop_time": "2023-11-14T22:13:50Z"}, [], "404 Message Not Found"),
        ({"reverse": True, "batch": 3}, [12, 11, 10], "204 EOB"),
        ({"reverse": True, "batch": 9, "seq": 5}, [5, 4, 2, 1], "204 EOB"),
        ({"reverse": True, "batch": 9, "seq": 5, "stop_seq": 4}, [5, 4], "204 EOB"),
        ({"reverse": True, "batch": 9, "stop_time": "2023-11-14T22:13:30Z"}, [12, 11], "204 EOB"),
        ({"reverse": True, "batch": 9, "last_by_subj": "S.1"}, [10, 6, 2], "204 EOB"),
        ({"reverse": True, "batch": 9, "prev_by_subj": "S.1", "seq": 9}, [6, 2], "204 EOB"),
        ({"reverse": True, "batch": 9, "seq": 5, "stop_seq": 6}, [], "204 EOB"),
        ({"reverse": True, "batch": 9, "prev_by_subj": "x"}, [], "204 EOB"),
        ({"reverse": True, "seq": 3, "last_by_subj": "S.1"}, [], "408 Bad Request"),
        ({"reverse": True, "next_by_subj": "S.1"}, [], "408 Bad Request"),
    ],
)
def test_what_is_asked_comes(harbor: Harbor, body: Any, sequences: list[int], status: str) -> None:
    found = read(harbor, body)
    assert found[:2] == (sequences, status)


def test_backwards_the_end_says_from_where(harbor: Harbor) -> None:
    said = read(harbor, {"reverse": True, "batch": 2, "seq": 8})[2]
    assert said == {"Nats-Num-Pending": "5", "Nats-Last-Sequence": "7", "Nats-UpTo-Sequence": "8"}


def test_pages_backwards_make_up_the_stream(harbor: Harbor) -> None:
    found: list[int] = []
    anchor: dict[str, int] = {}
    while True:
        page, status, said = read(harbor, {"reverse": True, "batch": 5, **anchor})
        assert status == "204 EOB"
        found += page
        if said["Nats-Num-Pending"] == "0":
            break
        anchor = {"seq": int(said["Nats-Last-Sequence"]) - 1}
    assert found == [12, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1]


@pytest.mark.parametrize(
    ("key", "body", "sequences", "status"),
    [
        ("S.1", None, [10], ""),
        ("S.9", None, [], "404 Message Not Found"),
        ("S.1", {"batch": 1}, [], "408 Bad Request"),
        ("S.1", b"x", [], "408 Malformed Request"),
    ],
)
def test_the_subject_may_say_it_all(
    harbor: Harbor, key: str, body: object, sequences: list[int], status: str
) -> None:
    assert read(harbor, body, f"DIRECT.GET.S.{key}")[:2] == (sequences, status)


def test_a_level_that_is_not_built_is_refused(harbor: Harbor) -> None:
    for subject in ("S", "S.S.1"):
        (reply,) = harbor.send(
            f"$JS.API.DIRECT.GET.{subject}", b'{"seq":1}', {"Nats-Required-Api-Level": "99"}
        )
        assert reply.header == b"NATS/1.0 412 Required Api Level\r\n\r\n"


def test_nobody_answers_where_it_is_not_allowed(harbor: Harbor) -> None:
    harbor.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "allow_direct": False})
    assert read(harbor, {"seq": 1})[1] == "503 "
    harbor.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "allow_direct": True})
    assert read(harbor, {"seq": 1})[0] == [1]
    harbor.ask("STREAM.DELETE.S")
    assert read(harbor, {"seq": 1})[1] == "503 "


def test_a_long_batch_goes_out_in_slices(harbor: Harbor) -> None:
    harbor.stream("L", allow_direct=True, storage="memory")
    count = limits.DIRECT_SLICE_COUNT + 10
    for number in range(count):
        harbor.client.send(b"PUB L.%d 0\r\n\r\n" % (number % 7))
    harbor.tick()
    harbor.client.read()
    harbor.client.send(b'PUB $JS.API.DIRECT.GET.L _R.1 28\r\n{"seq": 1, "batch": 1000000}\r\n')
    assert harbor.client.read().count(b"HMSG") == limits.DIRECT_SLICE_COUNT
    harbor.tick()
    rest = harbor.client.read()
    assert rest.count(b"HMSG") == 11
    assert b"204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: %d\r\n" % count in rest


def test_too_many_subjects_are_refused(harbor: Harbor) -> None:
    harbor.stream("L", allow_direct=True, storage="memory")
    for number in range(limits.DIRECT_SUBJECTS + 1):
        harbor.client.send(b"PUB L.%d 0\r\n\r\n" % number)
    harbor.tick()
    assert read(harbor, {"multi_last": ["L.*"]}, "DIRECT.GET.L")[1] == "413 Too Many Results"
    body = {"multi_last": ["L.*"], "up_to_seq": limits.DIRECT_SUBJECTS}
    assert len(read(harbor, body, "DIRECT.GET.L")[0]) == limits.DIRECT_SUBJECTS


def test_what_cannot_be_read_is_told() -> None:
    disk = SimDisk(1)
    harbor = Harbor(disk=disk)
    harbor.stream(allow_direct=True)
    for _ in range(3):
        harbor.publish("S.a", b"payload")
    harbor.engine.close()
    disk.kill()
    disk = disk.reopen()
    harbor = Harbor(disk=disk)
    disk.toxics.append(FailNth(1, "read", sticky=True))
    for body in ({"seq": 2}, {"seq": 1, "batch": 3}):
        status = read(harbor, body)[1]
        assert status.startswith("500 "), status
    disk.toxics.clear()
    assert read(harbor, {"seq": 1, "batch": 3})[0] == [1, 2, 3]
