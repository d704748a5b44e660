"""Counters: sums made of increments."""

import msgspec
import pytest

from tidelog.base import limits
from tidelog.stream import counter
from tidelog.stream.failure import ApiFailure
from unit.stream.shore import Shore, block, contents


@pytest.fixture
def shore() -> Shore:
    shore = Shore()
    shore.stream(allow_msg_counter=True)
    return shore


def test_increments_are_summed_up_by_subject(shore: Shore) -> None:
    assert shore.publish(b"S.a", Nats_Incr="1") == {"stream": "S", "seq": 1, "val": "1"}
    assert shore.publish(b"S.a", Nats_Incr="+41")["val"] == "42"
    assert shore.publish(b"S.b", Nats_Incr="-7")["val"] == "-7"
    big = str(10**40)
    assert shore.publish(b"S.a", Nats_Incr=big)["val"] == str(10**40 + 42)
    assert [payload for _, _, payload in contents(shore.account.find("S"))][:2] == [
        b'{"val":"1"}',
        b'{"val":"42"}',
    ]
    shore.crash()
    assert shore.publish(b"S.a", Nats_Incr="-" + big)["val"] == "42"


def test_increments_of_one_tick_see_each_other(shore: Shore) -> None:
    shore.send(b"S.a", Nats_Incr="1")
    shore.send(b"S.a", Nats_Incr="2")
    shore.engine.commit()
    assert [msgspec.json.decode(payload)["val"] for _, payload in shore.heard] == ["1", "3"]


def test_what_is_no_increment_is_refused(shore: Shore) -> None:
    assert shore.refused(b"S.a")[0] == 10169
    assert shore.refused(b"S.a", b"payload", Nats_Incr="1")[0] == 10170
    for text in ("one", "1_000", "1.5", "+", "0x1"):
        assert shore.refused(b"S.a", Nats_Incr=text)[0] == 10171
    assert shore.refused(b"S.a", Nats_Incr="1", Nats_Rollup="sub")[0] == 10171
    assert shore.refused(b"S.a", Nats_Incr="1", Nats_Expected_Last_Sequence="0")[0] == 10171
    shore.stream("T")
    assert shore.refused(b"T.a", Nats_Incr="1")[0] == 10168


def test_increments_have_so_many_digits(shore: Shore) -> None:
    most = "9" * limits.COUNTER_DIGITS
    assert shore.publish(b"S.a", Nats_Incr=most)["val"] == most
    assert shore.publish(b"S.a", Nats_Incr=most)["val"] == str(2 * int(most))
    assert shore.refused(b"S.a", Nats_Incr=most + "9")[0] == 10171
    assert shore.refused(b"S.a", Nats_Incr="9" * 60_000)[0] == 10171
    shore.account.find("S").log.append(b"S.b", b'{"val":"%s"}' % (b"9" * 5000))
    assert shore.refused(b"S.b", Nats_Incr="1")[0] == 10172


def test_a_sum_that_cannot_be_read_is_told(shore: Shore) -> None:
    shore.account.find("S").log.append(b"S.a", b"no sum")
    shore.engine.commit()
    assert shore.refused(b"S.a", Nats_Incr="1")[0] == 10172
    shore.account.find("S").log.append(b"S.b", b'{"val":"1"}', block("Nats-Counter-Sources: x"))
    assert shore.refused(b"S.b", Nats_Incr="1")[0] == 10172


def test_a_batch_counts_on(shore: Shore) -> None:
    stream = shore.stream("B", allow_msg_counter=True, allow_atomic=True)
    shore.publish(b"B.a", Nats_Incr="10")
    shore.heard.clear()
    shore.send(b"B.a", Nats_Incr="1", Nats_Batch_Id="b", Nats_Batch_Sequence="1")
    shore.send(b"B.a", Nats_Incr="2", Nats_Batch_Id="b", Nats_Batch_Sequence="2", Nats_Batch_Commit="1")
    shore.engine.commit()
    assert [payload for _, _, payload in contents(stream)][1:] == [b'{"val":"11"}', b'{"val":"13"}']
    assert msgspec.json.decode(shore.heard[-1][1]) == {"stream": "B", "seq": 3, "batch": "b", "count": 2}


def test_sums_of_other_streams_are_taken_as_what_they_have_grown_by() -> None:
    total = counter.Total()

    def comes(value: int, stream: str) -> tuple[bytes, bytes]:
        header = block("Nats-Incr: 1", f"Nats-Stream-Source: {stream} 1 > > n.a")
        return counter.advance(total, header, b'{"val":"%d"}' % value, b"n.a")

    assert comes(5, "EU")[1] == b'{"val":"5"}'
    header, payload = comes(3, "US")
    assert payload == b'{"val":"8"}'
    assert b'Nats-Counter-Sources: {"EU":{"n.a":"5"},"US":{"n.a":"3"}}' in header
    header, payload = comes(9, "EU")
    assert payload == b'{"val":"12"}'
    assert b"\r\nNats-Incr: 4\r\n" in header
    assert counter.read_total(header, payload).sources == {"EU": {"n.a": "9"}, "US": {"n.a": "3"}}
    with pytest.raises(ApiFailure, match="broken"):
        counter.advance(total, block("Nats-Incr: 1", "Nats-Stream-Source: EU 1"), b"no sum", b"n.a")
