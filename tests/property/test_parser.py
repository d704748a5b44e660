"""Any chunking of any stream parses as the whole, for the parser and for a whole broker (PARSE-1 to PARSE-4).

Streams are made of operations, whole and damaged, and of bytes that are none. Bounds are small, so that their edges
are met.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import bcrypt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.base.errors import ProtocolError
from tidelog.broker.settings import Authorization, BrokerSettings, Limits, User
from tidelog.wire.parser import Collector
from unit.broker.house import House

MAX_CONTROL_LINE = 100
MAX_PAYLOAD = 24

SPACE = st.just(b" ")
BLANKS = st.sampled_from(
    [b" ", b"\t", b"  ", b" \t ", b" " * MAX_CONTROL_LINE, b" " * (MAX_CONTROL_LINE + 1)]
)
CRLF = st.just(b"\r\n")
LINE_END = st.sampled_from([b"\r\n", b"\n", b" \r\n", b"\t\n", b"\r\r\n"])
PLAIN_WORD = st.sampled_from([b"foo", b"foo.bar", b"a", b"*", b"1", b"2", b"7x"])
WORD = st.one_of(
    PLAIN_WORD,
    st.sampled_from([b">", b"$G", b"_R_.1", b"a..b"]),
    st.binary(min_size=1, max_size=8).filter(lambda word: not set(word) & set(b" \t\r\n")),
    st.integers(MAX_CONTROL_LINE - 8, MAX_CONTROL_LINE + 2).map(lambda size: b"s" * size),
)
PLAIN_PAYLOAD = st.sampled_from([b"", b"hello", b"a\r\nb", b"p" * MAX_PAYLOAD])
PAYLOAD = st.one_of(st.binary(max_size=8), st.just(b"p" * (MAX_PAYLOAD + 1)))
HEADER = st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"])


def cased(verb: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from([verb, verb, verb.lower(), verb.title()])


@st.composite
def command(draw: st.DrawFn, verb: bytes, least: int, most: int, wild: bool) -> bytes:
    line = draw(cased(verb))
    for word in draw(st.lists(WORD if wild else PLAIN_WORD, min_size=least, max_size=most)):
        line += draw(BLANKS if wild else SPACE) + word
    return line + draw(LINE_END if wild else CRLF)


@st.composite
def message(draw: st.DrawFn, client_role: bool, wild: bool) -> bytes:
    header = draw(st.one_of(st.none(), HEADER)) if client_role or wild else None
    payload = draw(PAYLOAD if wild else PLAIN_PAYLOAD)
    word = WORD if wild else PLAIN_WORD
    words = draw(st.lists(word, min_size=1 + client_role, max_size=2 + client_role))
    if header is not None:
        words.append(b"%d" % len(header))
    words.append(b"%d" % len((header or b"") + payload))
    plain, headed = (b"MSG", b"HMSG") if client_role else (b"PUB", b"HPUB")
    line = draw(cased(plain if header is None else headed))
    for one in words:
        line += draw(BLANKS if wild else SPACE) + one
    return line + draw(LINE_END if wild else CRLF) + (header or b"") + payload + b"\r\n"


CONNECT = st.sampled_from(
    [
        b'CONNECT {"verbose":false,"pedantic":false}\r\n',
        b'CONNECT {"user":"u","pass":"p","headers":true}\r\n',
        b'CONNECT{"user":"u","pass":"p","verbose":false}\r\n',
        b'connect\t{"protocol":1,"headers":true}\n',
        b"CONNECT {}\r\n",
    ]
)
BAD_CONNECT = st.sampled_from(
    [b"CONNECT nonsense\r\n", b"CONNECT\r\n", b'CONNECT {"no_responders":true} \r\n']
)


def operation(client_role: bool, wild: bool) -> st.SearchStrategy[bytes]:
    """What a sane client writes, or what one may write that wants to see."""
    common = [
        message(client_role, wild),
        *(command(verb, 0, wild, wild) for verb in (b"PING", b"PONG", b"+OK")),
    ]
    if wild or client_role:
        common += [command(b"INFO", 0, 2, wild), command(b"-ERR", 0, 2, wild)]
    if not client_role:
        common += [message(client_role, wild), CONNECT, BAD_CONNECT if wild else CONNECT]
        common += [command(b"SUB", 1 if wild else 2, 4 if wild else 3, wild), command(b"UNSUB", 1, 2, wild)]
    return st.one_of(common)


def damaged(operations: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """An operation with a byte too many, too few, or another one."""

    def damage(given: tuple[bytes, int, int, bytes]) -> bytes:
        whole, at, drop, instead = given
        at %= len(whole)
        return whole[:at] + instead + whole[at + drop :]

    instead = st.one_of(st.binary(max_size=2), st.sampled_from([b"\r", b"\n", b" ", b"0", b"9"]))
    return st.tuples(operations, st.integers(0, 100), st.integers(0, 2), instead).map(damage)


def streams(client_role: bool) -> st.SearchStrategy[bytes]:
    """Some sane operations, then perhaps worse ones: an error ends the stream, so it should not come first."""
    sane = st.lists(operation(client_role, wild=False), max_size=10)
    worse = st.one_of(
        operation(client_role, wild=True), damaged(operation(client_role, wild=False)), st.binary(max_size=6)
    )
    return st.tuples(sane, st.lists(worse, max_size=3)).map(lambda parts: b"".join(parts[0] + parts[1]))


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(edges)]


CUTS = st.lists(st.integers(0, 400), max_size=8)

Parsed = tuple[list[tuple[object, ...]], tuple[str, str] | None]


def parse(chunks: Iterable[bytes], client_role: bool) -> Parsed:
    collector = Collector(client_role=client_role, max_control_line=MAX_CONTROL_LINE, max_payload=MAX_PAYLOAD)
    found: list[tuple[object, ...]] = []
    for chunk in chunks:
        try:
            found += collector.feed(chunk)
        except ProtocolError as error:
            return found + collector.found, (error.text, error.reason)
    return found, None


@pytest.mark.parametrize("client_role", [False, True])
@given(st.data())
def test_any_chunking_parses_as_the_whole(client_role: bool, data: st.DataObject) -> None:
    """PARSE-1, PARSE-2: also the errors, and also that they come with the same byte."""
    stream = data.draw(streams(client_role))
    whole = parse([stream], client_role)
    assert parse(cut(stream, data.draw(CUTS)), client_role) == whole
    assert parse((stream[i : i + 1] for i in range(len(stream))), client_role) == whole


@pytest.mark.parametrize("client_role", [False, True])
@given(st.data())
def test_an_error_needs_no_more_bytes_than_it_has_seen(client_role: bool, data: st.DataObject) -> None:
    """PARSE-2: what follows the wrong byte changes nothing."""
    stream = data.draw(streams(client_role))
    found, error = parse([stream], client_role)
    if error is not None:
        more = data.draw(st.binary(max_size=40))
        assert parse([stream + more], client_role) == (found, error)


SAFE = st.binary(min_size=1, max_size=6).filter(lambda word: not set(word) & set(b" \t\r\n"))


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[bytes, tuple[object, ...], bytes]:
    """A message as a client may write it, what it means, and how its tail must stand in a delivery."""
    subject, reply = draw(SAFE), draw(st.one_of(st.none(), SAFE))
    header = draw(st.one_of(st.none(), HEADER))
    payload = draw(st.binary(max_size=10))
    body = (header or b"") + payload
    numbers = [b"%d" % len(body)] if header is None else [b"%d" % len(header), b"%d" % len(body)]
    if draw(st.booleans()):
        numbers[-1] = b"0" + numbers[-1]
    words = [subject, *([reply] if reply is not None else []), *numbers]
    line = draw(cased(b"PUB" if header is None else b"HPUB"))
    for word in words:
        line += draw(st.sampled_from([b" ", b" ", b" ", b"\t", b"  "])) + word
    stream = line + draw(st.sampled_from([b"\r\n", b"\r\n", b"\n", b" \r\n"])) + body + b"\r\n"
    # An empty header block is delivered as none.
    told = numbers if header else numbers[-1:]
    tail = b" ".join([*([reply] if reply is not None else []), *told]) + b"\r\n" + body + b"\r\n"
    return stream, ("PUB", subject, b"", reply, header or None, payload), tail


@given(st.lists(deliveries(), min_size=1, max_size=5))
def test_messages_mean_what_was_written_and_are_delivered_canonically(
    given: list[tuple[bytes, tuple[object, ...], bytes]],
) -> None:
    """PARSE-3."""
    stream = b"".join(one[0] for one in given)
    collector = Collector(client_role=False)
    assert collector.feed(stream) == [one[1] for one in given]
    assert collector.tail_of(stream) == [one[2] for one in given]


HASH = bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()
OPEN = BrokerSettings(
    limits=Limits(
        max_control_line=MAX_CONTROL_LINE, max_payload=MAX_PAYLOAD, max_subscriptions=3, max_pending=400
    )
)
SETTINGS = [
    OPEN,
    OPEN,
    replace(OPEN, authorization=Authorization(users=(User("u", "p"),))),
    replace(OPEN, authorization=Authorization(users=(User("u", "p"), User("v")), no_auth_user="v")),
    replace(OPEN, authorization=Authorization(user="u", password=HASH)),
]


def play(settings: BrokerSettings, chunks: Iterable[bytes]) -> object:
    """Everything that can be seen of one client that sends `chunks`, and of one that listens."""
    house = House(settings)
    witness = house.arrive()
    witness.connect(headers=True, user="u", **{"pass": "p"})
    witness.send(b"SUB foo.> 1\r\nSUB a q 2\r\nSUB > q 3\r\nSUB foo q 4\r\n")
    witness.read()
    client = house.arrive()
    client.read()
    for chunk in chunks:
        client.send(chunk)
        if client.session.closed:
            break
    return (
        client.read(),
        client.reason,
        client.ended,
        client.carry,
        witness.read(),
        witness.reason,
        [
            (one.subject, one.queue, one.sid, one.max_msgs, one.delivered)
            for one in client.session.subscriptions()
        ],
        (client.session.in_msgs, client.session.in_bytes, client.session.out_msgs, client.session.out_bytes),
        (
            house.broker.in_msgs,
            house.broker.out_msgs,
            house.broker.subscription_count,
            house.broker.slow_consumers,
        ),
        [line for line in house.log.lines if line[0] != "error"],
    )


@given(st.sampled_from(SETTINGS), st.one_of(CONNECT, st.just(b"")), streams(client_role=False), CUTS)
@example(OPEN, b"", b"PING " + b"x" * 96 + b"\n", [20])
@example(SETTINGS[4], b"", b"PUB foo 2\r\nhi\r\n", [1])
def test_a_broker_does_the_same_however_the_stream_is_cut(
    settings: BrokerSettings, first: bytes, rest: bytes, places: list[int]
) -> None:
    """PARSE-4."""
    stream = first + rest
    whole = play(settings, [stream])
    assert play(settings, cut(stream, places)) == whole
    assert play(settings, (stream[i : i + 1] for i in range(len(stream)))) == whole
