"""Requests see what was published before them, and do not wait for ever."""

import msgspec
import pytest

from tidelog.base.limits import REQUEST_WAIT_NS
from unit.broker.desk.harbor import Harbor, replies


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream()
    harbor.client.read()
    return harbor


def request(subject: str, body: object = None) -> bytes:
    text = b"" if body is None else msgspec.json.encode(body)
    return b"PUB $JS.API.%b _R.1 %d\r\n%b\r\n" % (subject.encode(), len(text), text)


def test_a_message_of_the_same_burst_is_found(harbor: Harbor) -> None:
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.MSG.GET.S", {"seq": 1}))
    assert harbor.client.read() == b""
    harbor.tick()
    (answer,) = replies(harbor.client.read())
    assert answer.document["message"]["seq"] == 1


def test_a_consumer_that_is_made_in_the_same_burst_counts_it(harbor: Harbor) -> None:
    create = request("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}})
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + create)
    harbor.tick()
    (answer,) = replies(harbor.client.read())
    assert answer.document["num_pending"] == 1


def test_requests_keep_their_order(harbor: Harbor) -> None:
    harbor.client.send(
        b"PUB S.a 1\r\nx\r\n" + request("STREAM.INFO.S") + request("INFO") + request("STREAM.NAMES")
    )
    assert harbor.client.read() == b""
    harbor.tick()
    kinds = [answer.document["type"].rpartition(".")[2] for answer in replies(harbor.client.read())]
    assert kinds == ["stream_info_response", "account_info_response", "stream_names_response"]


def test_nothing_waits_where_all_is_committed(harbor: Harbor) -> None:
    harbor.publish("S.a")
    harbor.client.send(request("STREAM.INFO.S"))
    assert len(replies(harbor.client.read())) == 1


def test_a_request_does_not_wait_for_ever(harbor: Harbor) -> None:
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.INFO.S"))
    harbor.house.advance((REQUEST_WAIT_NS - 1) / 1e9)
    assert harbor.client.read() == b""
    harbor.house.advance(0.001)
    assert len(replies(harbor.client.read())) == 1


def test_a_request_for_a_stream_that_goes_away_is_answered(harbor: Harbor) -> None:
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.DELETE.S") + request("STREAM.INFO.S"))
    harbor.tick()
    first, second = replies(harbor.client.read())
    assert first.document["success"]
    assert second.document["error"]["err_code"] == 10059
