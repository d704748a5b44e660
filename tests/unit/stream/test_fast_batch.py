"""Fast batches: the server sets the pace, and says what it has."""

from typing import Any

import msgspec
import pytest

from tidelog.base import limits
from tidelog.stream.fast_batch import Place, read_place
from unit.stream.shore import Shore, contents

START, APPEND, COMMIT, END, PING = range(5)


@pytest.fixture
def shore() -> Shore:
    shore = Shore()
    shore.stream(allow_batched=True, max_msg_size=100)
    return shore


def send(shore: Shore, number: int, operation: int, payload: bytes = b"", **more: Any) -> None:
    batch, flow, gap = more.pop("batch", "b"), more.pop("flow", 2), more.pop("gap", "fail")
    reply = f"reply.{batch}.{flow}.{gap}.{number}.{operation}.$FI".encode()
    shore.send(b"S.a", payload or b"%d" % number, reply=reply, **more)


def told(shore: Shore) -> list[Any]:
    shore.engine.commit()
    heard = [msgspec.json.decode(payload) for _, payload in shore.heard]
    shore.heard.clear()
    return heard


def payloads(shore: Shore) -> list[bytes]:
    return [payload for _, _, payload in contents(shore.account.find("S"))]


def test_a_batch_is_told_its_pace_and_how_far_it_is(shore: Shore) -> None:
    send(shore, 1, START)
    for number in range(2, 6):
        send(shore, number, APPEND)
    assert told(shore) == [
        {"type": "ack", "seq": 0, "msgs": 2},
        {"type": "ack", "seq": 2, "msgs": 2},
        {"type": "ack", "seq": 4, "msgs": 2},
    ]
    send(shore, 6, COMMIT)
    assert told(shore) == [{"stream": "S", "seq": 6, "batch": "b", "count": 6}]
    assert payloads(shore) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert shore.engine.staged.fast_batches == 0


def test_a_batch_may_end_without_a_message(shore: Shore) -> None:
    send(shore, 1, START)
    send(shore, 2, END)
    assert told(shore)[-1] == {"stream": "S", "seq": 1, "batch": "b", "count": 1}
    assert payloads(shore) == [b"1"]


def test_a_batch_of_one_message_is_only_acknowledged(shore: Shore) -> None:
    send(shore, 1, COMMIT)
    assert told(shore) == [{"stream": "S", "seq": 1, "batch": "b", "count": 1}]


def test_a_gap_ends_a_batch_or_is_told(shore: Shore) -> None:
    send(shore, 1, START)
    send(shore, 3, APPEND)
    assert told(shore)[1:] == [
        {"type": "gap", "last_seq": 2, "seq": 3},
        {"stream": "S", "seq": 1, "batch": "b", "count": 1},
    ]
    send(shore, 1, START, gap="ok")
    send(shore, 3, APPEND, gap="ok")
    send(shore, 4, COMMIT, gap="ok")
    assert told(shore)[1:] == [
        {"type": "gap", "last_seq": 2, "seq": 3},
        {"type": "ack", "seq": 2, "msgs": 2},
        {"stream": "S", "seq": 4, "batch": "b", "count": 4},
    ]
    assert payloads(shore) == [b"1", b"1", b"3", b"4"]


def test_a_ping_is_answered(shore: Shore) -> None:
    send(shore, 1, START, flow=10)
    send(shore, 1, PING, flow=10)
    assert told(shore)[1:] == [{"type": "ack", "seq": 0, "msgs": 10}]
    send(shore, 5, PING, flow=10)
    assert told(shore) == [
        {"type": "gap", "last_seq": 2, "seq": 6},
        {"stream": "S", "seq": 1, "batch": "b", "count": 1},
    ]


def test_what_is_refused_is_told_and_may_end_the_batch(shore: Shore) -> None:
    send(shore, 1, START, Nats_Incr="1")
    answer = told(shore)[-1]
    assert (answer["error"]["err_code"], answer["stream"]) == (10168, "S")
    for gap, left in (("fail", 1), ("ok", 3)):
        send(shore, 1, START, gap=gap)
        send(shore, 2, APPEND, gap=gap, Nats_Incr="1")
        heard = told(shore)[1:]
        assert (heard[0]["type"], heard[0]["seq"], heard[0]["error"]["err_code"]) == ("err", 2, 10168)
        send(shore, 3, COMMIT, gap=gap)
        told(shore)
        assert len(payloads(shore)) == left


def test_what_came_before_is_passed(shore: Shore) -> None:
    send(shore, 1, START, Nats_Msg_Id="x")
    send(shore, 2, APPEND, Nats_Msg_Id="x")
    send(shore, 3, COMMIT, Nats_Msg_Id="y")
    assert told(shore)[-1] == {"stream": "S", "seq": 2, "batch": "b", "count": 3}


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        (b"i.b.5.ok.1.0.$FI", Place(b"b", 5, True, 1, START)),
        (b"i.n.b.0.fail.9.2.$FI", Place(b"b", limits.FAST_BATCH_FLOW, False, 9, COMMIT)),
        (b"i.b.99999.ok.2.1.$FI", Place(b"b", limits.FAST_BATCH_FLOW_MOST, True, 2, APPEND)),
        (b"b.5.ok.1.0.$FI", Place(b"b", 5, True, 1, START)),
        (b"5.ok.1.0.$FI", None),
        (b"i.b.5.maybe.1.0.$FI", None),
        (b"i.b.5.ok.0.0.$FI", None),
        (b"i.b.5.ok.2.0.$FI", None),
        (b"i.b.5.ok.1.1.$FI", None),
        (b"i.b.5.ok.1.3.$FI", None),
        (b"i.b.5.ok.1.5.$FI", None),
        (b"i.b.5.ok.x.1.$FI", None),
    ],
)
def test_a_reply_says_where_a_message_belongs(reply: bytes, place: Place | None) -> None:
    assert read_place(reply) == place


def test_what_is_wrong_is_told_as_the_peer_does(shore: Shore, monkeypatch: pytest.MonkeyPatch) -> None:
    def code(**fields: Any) -> int:
        send(shore, **fields)
        answer: int = told(shore)[-1]["error"]["err_code"]
        return answer

    assert code(number=2, operation=START) == 10206
    assert code(number=2, operation=APPEND) == 10208
    assert code(number=1, operation=START, batch="b" * 65) == 10207
    assert code(number=1, operation=START, payload=b"p" * 101) == 10054
    assert code(number=1, operation=START, Nats_Required_Api_Level="99") == 10185
    monkeypatch.setattr(limits, "FAST_BATCHES_PER_STREAM", 0)
    assert code(number=1, operation=START) == 10211
    shore.stream("OFF")
    shore.send(b"OFF.a", reply=b"reply.b.1.ok.1.0.$FI")
    assert told(shore)[-1]["error"]["err_code"] == 10205


def test_batches_share_the_pace_and_are_forgotten_when_nothing_comes(shore: Shore) -> None:
    send(shore, 1, START, batch="one", flow=1000)
    send(shore, 1, START, batch="two", flow=1000)
    heard = told(shore)
    assert [answer["msgs"] for answer in heard] == [500, 1, 2]
    shore.advance(10.1)
    assert shore.engine.staged.fast_batches == 0
    send(shore, 2, APPEND, batch="one")
    assert told(shore)[-1]["error"]["err_code"] == 10208
