"""Messages on their way, made from columns: what the operations are, and what counts as acknowledged."""

import random
import struct
from collections.abc import Sequence

import pytest

from tidelog.client.jetstream.flight import Acks, Flight, Rows, Texts

INBOX = "_INBOX.x"


def texts(*items: bytes) -> Texts:
    ends = [0]
    for item in items:
        ends.append(ends[-1] + len(item))
    return Texts(struct.pack(f"<{len(ends)}i", *ends), b"".join(items), 0, len(items))


def flight(*, msg_id: str = "", stream: str = "", max_count: int = 100, max_size: int = 10_000) -> Flight:
    return Flight(INBOX, max_count=max_count, max_size=max_size, msg_id=msg_id, stream=stream)


def ack(number: int, payload: bytes = b'{"stream":"S","seq":1}', sid: bytes = b"1") -> bytes:
    return b"MSG %b.%d %b %d\r\n%b\r\n" % (INBOX.encode(), number, sid, len(payload), payload)


def listening(to: Flight) -> Acks:
    parser = Acks()
    parser.listen(b"1", to)
    return parser


def many(count: int, size: int = 3) -> Rows:
    return Rows(texts(*[b"v" * size] * count), subject=b"a.b")


def test_a_row_becomes_an_operation() -> None:
    one = flight()
    assert one.board(Rows(texts(b"hello", b""), subject=b"a.b"), 0) == 2
    assert one.unsent() == b"PUB a.b _INBOX.x.0 5\r\nhello\r\nPUB a.b _INBOX.x.1 0\r\n\r\n"
    assert one.unsent() == b""
    assert (one.under_way, one.operation(1)) == (2, b"PUB a.b _INBOX.x.1 0\r\n\r\n")


def test_ids_by_number_and_the_stream_stand_in_front_of_a_rows_own_headers() -> None:
    one = flight(msg_id="q:7:0:", stream="S")
    keys, items = texts(b"K", b"Nats-Msg-Id", b"K"), texts(b"1", b"theirs", b"")
    rows = Rows(
        texts(b"x", b"y"),
        subjects=texts(b"a", b"b"),
        headers=(struct.pack("<3i", 0, 0, 3), keys, items),
        first_number=10,
    )
    one.board(rows, 0)
    first = b"NATS/1.0\r\nNats-Msg-Id: q:7:0:10\r\nNats-Expected-Stream: S\r\n\r\n"
    second = b"NATS/1.0\r\nNats-Msg-Id: q:7:0:11\r\nNats-Expected-Stream: S\r\nK: 1\r\nK: \r\n\r\n"
    assert one.unsent() == (
        b"HPUB a _INBOX.x.0 %d %d\r\n%bx\r\n" % (len(first), len(first) + 1, first)
        + b"HPUB b _INBOX.x.1 %d %d\r\n%by\r\n" % (len(second), len(second) + 1, second)
    )


def test_a_column_of_ids_and_rows_that_are_passed_over() -> None:
    one = flight()
    rows = Rows(texts(b"x", b"y", b"z"), subject=b"a", ids=texts(b"1", b"2", b"3"), skip=bytes([1, 0, 1]))
    assert one.board(rows, 0) == 3
    assert one.unsent().count(b"HPUB") == 1
    assert b"Nats-Msg-Id: 2\r\n" in one.operation(1)
    assert [one.operation(number) for number in (0, 2)] == [b"", b""]
    assert (one.settle(0, False), one.under_way, one.unacknowledged()) == (False, 1, [one.operation(1)])
    listening(one).feed(ack(1))
    assert (one.under_way, one.stored) == (0, 1)


def test_a_slice_of_a_column() -> None:
    ends = struct.pack("<5i", 0, 1, 2, 4, 4)
    one = flight()
    one.board(Rows(Texts(ends, b"abcd", 1, 2), subject=b"s"), 0)
    assert [one.operation(number).split(b"\r\n")[1] for number in range(2)] == [b"b", b"cd"]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (Rows(texts(b"x"), subject=b""), "is empty or has a blank"),
        (Rows(texts(b"x"), subjects=texts(b"a b")), "is empty or has a blank"),
        (Rows(texts(b"x"), subject=b"a\r\nPUB b"), "is empty or has a blank"),
        (Rows(texts(b"x"), subject=b"s", ids=texts(b"1\r\n2")), "an id has a line end"),
        (Rows(texts(b"x" * 2000), subject=b"s"), "the server takes 1000 at most"),
    ],
)
def test_what_cannot_be_sent_is_not_on_its_way(rows: Rows, told: str) -> None:
    one = flight()
    one.max_payload = 1000
    with pytest.raises(ValueError, match=told):
        one.board(rows, 0)
    assert (one.under_way, one.unsent()) == (0, b"")


@pytest.mark.parametrize(("key", "value"), [(b"", b"v"), (b"a b", b"v"), (b"a:", b"v"), (b"K", b"v\r\nX: y")])
def test_headers_that_would_break_the_block_are_refused(key: bytes, value: bytes) -> None:
    headers = (struct.pack("<2i", 0, 1), texts(key), texts(value))
    with pytest.raises(ValueError, match="header"):
        flight().board(Rows(texts(b"x"), subject=b"s", headers=headers), 0)


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one end more"):
        Texts(struct.pack("<2i", 0, 1), b"a", 1, 1)
    with pytest.raises(ValueError, match="behind its data"):
        Texts(struct.pack("<2i", 0, 2), b"a", 0, 1)
    with pytest.raises(ValueError, match="of one length"):
        Rows(texts(b"a"), subjects=texts(b"s", b"t"))
    with pytest.raises(ValueError, match="do not match"):
        Rows(texts(b"a"), subject=b"s", headers=(struct.pack("<2i", 0, 2), texts(b"K"), texts(b"v")))


def test_no_more_is_on_its_way_than_may_be() -> None:
    one = flight(max_count=8)
    assert one.board(many(20), 0) == 8
    assert not one.has_room
    parser = listening(one)
    parser.feed(ack(0))
    assert (one.under_way, one.has_room) == (7, False)
    parser.feed(ack(1))
    assert (one.under_way, one.has_room) == (6, True)
    assert one.board(many(20), 8) == 10
    by_size = flight(max_size=100)
    assert by_size.board(many(5, 40), 0) == 2
    assert not by_size.has_room
    # One that is larger than all that may be goes alone.
    assert flight(max_size=10).board(many(2, 40), 0) == 1


def test_a_burst_ends_before_the_rows_do() -> None:
    one = flight(max_count=10_000, max_size=1 << 30)
    assert one.board(many(5_000, 100), 0) < 2_000


@pytest.mark.parametrize(
    ("payload", "stored", "duplicates"),
    [
        (b'{"stream":"S","seq":12}', 1, 0),
        (b'{"stream":"S", "seq":12}', 1, 0),
        (b'{"stream":"S", "seq":12,"duplicate": true}', 0, 1),
        (b'{"stream":"S","seq":12,"duplicate":true}', 0, 1),
        (b'{"stream":"S","seq":12,"domain":"hub"}', 1, 0),
        (b'{"stream":"S","seq":12,"domain":"hub","duplicate":true}', 0, 1),
    ],
)
def test_plain_acknowledgements_are_counted(payload: bytes, stored: int, duplicates: int) -> None:
    one = flight()
    one.board(many(2), 0)
    parser = listening(one)
    data = ack(1, payload)
    for at in range(len(data)):
        assert parser.feed(data[at : at + 1]) == []
    parser.feed(data)  # once more
    assert (one.under_way, one.stored, one.duplicates) == (1, stored, duplicates)
    assert (one.operation(0) != b"", one.operation(1)) == (True, b"")


@pytest.mark.parametrize(
    "payload",
    [
        b'{"error":{"code":503,"err_code":10077,"description":"no"},"stream":"S","seq":0}',
        b'{"stream":"S","seq":1,"batch":"b"}',
        b'{"stream":"S","seq":1,"error":{"code":503}}',
        b'{"stream":"","seq":1}',
        b'{"stream":"S"}',
        b"hello",
        b"",
    ],
)
def test_everything_else_is_for_who_reads_it(payload: bytes) -> None:
    one = flight()
    one.board(many(2), 0)
    (found,) = listening(one).feed(ack(1, payload))
    assert found[1:] == (b"_INBOX.x.1", b"1", None, None, payload)
    assert one.under_way == 2
    assert one.settle(1, False)
    assert not one.settle(1, False)
    assert (one.under_way, one.stored) == (1, 1)


def test_what_is_for_others_is_left_alone() -> None:
    one = flight()
    one.board(many(1), 0)
    parser = listening(one)
    assert len(parser.feed(ack(0, sid=b"2"))) == 1
    assert parser.feed(ack(77)) == []  # nothing is on its way under that number
    parser.listen(b"", None)
    assert len(parser.feed(ack(0))) == 1
    assert one.under_way == 1


def test_what_was_not_acknowledged_comes_again_byte_for_byte() -> None:
    """SPARK-4: whatever order acknowledgements come in, and however much has been dropped at the front."""
    chance = random.Random(7)
    one = flight(max_count=5_000, max_size=1 << 30, msg_id="m:")
    parser = listening(one)
    sent: dict[int, bytes] = {}
    at = 0
    while at < 60_000:
        rows = Rows(
            texts(*[b"p" * chance.randrange(40) for _ in range(1_000)]), subject=b"s", first_number=at
        )
        done = 0
        while done < rows.count:
            before = done
            done = one.board(rows, done)
            sent |= {number: one.operation(number) for number in range(at + before, at + done)}
            assert one.unsent() == b"".join(sent[number] for number in range(at + before, at + done))
            if done < rows.count and not one.has_room:
                for number in chance.sample(sorted(sent), 2_000):
                    parser.feed(ack(number))
                    del sent[number]
        at += rows.count
    assert one.under_way == len(sent)
    assert one.size == sum(map(len, sent.values()))
    assert b"".join(one.unacknowledged()) == b"".join(sent[number] for number in sorted(sent))
    for number in sorted(sent):
        parser.feed(ack(number))
    assert (one.under_way, one.size, one.stored, list(one.unacknowledged())) == (0, 0, 60_000, [])


def test_what_was_given_again_is_not_unsent() -> None:
    one = flight()
    one.board(many(2), 0)
    again: Sequence[bytes] = one.unacknowledged()
    assert (b"".join(again).count(b"PUB"), one.unsent()) == (2, b"")
