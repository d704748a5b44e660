"""The parser: each rule once; that chunking changes nothing is shown in tests/property (PARSE-1)."""

import pytest

from tidelog.base.errors import ProtocolError
from tidelog.wire.parser import Collector

UNKNOWN = ("Unknown Protocol Operation", "Protocol Violation")
SILENT = ("", "Protocol Violation")
TOO_LONG = ("maximum control line exceeded", "Maximum Control Line Exceeded")
TOO_LARGE = ("Maximum Payload Violation", "Maximum Message Payload Exceeded")


def from_client(**bounds: int) -> Collector:
    return Collector(client_role=False, **bounds)


def refused(data: bytes, collector: Collector | None = None) -> tuple[str, str]:
    with pytest.raises(ProtocolError) as caught:
        (collector or from_client()).feed(data)
    return caught.value.text, caught.value.reason


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"PING\r\n", ("PING", b"")),
        (b"pInG\n", ("PING", b"")),
        (b"PING and more\r\n", ("PING", b"")),
        (b"PINGPONG\r\n", ("PING", b"")),
        (b"PONG\r\n", ("PONG", b"")),
        (b"+OK\r\n", ("+OK", b"")),
        (b"-ERR 'x y'\r\n", ("-ERR", b"'x y'")),
        (b"CONNECT {}\r\n", ("CONNECT", b"{}")),
        (b"connect\t {} \r\n", ("CONNECT", b"{} ")),
        (b"CONNECT{}\r\n", ("CONNECT", b"{}")),
        (b"CONNECT\r\n", ("CONNECT", b"")),
        (b"INFO {}\r\n", ("INFO", b"{}")),
        (b"SUB foo 1\r\n", ("SUB", b"foo 1")),
        (b"sub \t foo\tq 1\n", ("SUB", b"foo\tq 1")),
        (b"SUB \r\n", ("SUB", b"")),
        (b"UNSUB 1 5\r\n", ("UNSUB", b"1 5")),
        (b"PUB foo 2\r\nhi\r\n", ("PUB", b"foo", b"", None, None, b"hi")),
        (b"pub foo 2\nhi\r\n", ("PUB", b"foo", b"", None, None, b"hi")),
        (b"PUB\tfoo\treply\t2 \r\nhi\r\n", ("PUB", b"foo", b"", b"reply", None, b"hi")),
        (b"PUB foo 12 2\r\nhi\r\n", ("PUB", b"foo", b"", b"12", None, b"hi")),
        (b"PUB foo 12a 2\r\nhi\r\n", ("PUB", b"foo", b"", b"12a", None, b"hi")),
        (b"PUB foo 0\r\n\r\n", ("PUB", b"foo", b"", None, None, b"")),
        (b"PUB foo 4\r\n\r\n\r\n\r\n", ("PUB", b"foo", b"", None, None, b"\r\n\r\n")),
        (b"HPUB foo 3 5\r\nH: hi\r\n", ("PUB", b"foo", b"", None, b"H: ", b"hi")),
        (b"HPUB foo r 5 5\r\nH: hi\r\n", ("PUB", b"foo", b"", b"r", b"H: hi", b"")),
        (b"HPUB foo 0 2\r\nhi\r\n", ("PUB", b"foo", b"", None, None, b"hi")),
    ],
)
def test_what_clients_send(data: bytes, found: tuple[object, ...]) -> None:
    assert from_client().feed(data + b"PONG\r\n") == [found, ("PONG", b"")]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"MSG foo 1 2\r\nhi\r\n", ("MSG", b"foo", b"1", None, None, b"hi")),
        (b"MSG foo 1 reply 2\r\nhi\r\n", ("MSG", b"foo", b"1", b"reply", None, b"hi")),
        (b"HMSG foo 1 3 5\r\nH: hi\r\n", ("MSG", b"foo", b"1", None, b"H: ", b"hi")),
        (b"HMSG foo 1 r 3 5\r\nH: hi\r\n", ("MSG", b"foo", b"1", b"r", b"H: ", b"hi")),
        (b"INFO {}\r\n", ("INFO", b"{}")),
        (b"-ERR 'Stale Connection'\r\n", ("-ERR", b"'Stale Connection'")),
    ],
)
def test_what_servers_send(data: bytes, found: tuple[object, ...]) -> None:
    assert Collector().feed(data + b"PING\r\n") == [found, ("PING", b"")]


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\x00",
        b"\r\n",
        b"\n",
        b" PING\r\n",
        b"PX",
        b"PUX",
        b"PUBX",
        b"PUB\r\n",
        b"SUB\r\n",
        b"SUBfoo",
        b"UNSUB\r",
        b"UNX",
        b"-ERR\r\n",
        b"-X",
        b"+X",
        b"MSG",
        b"HX",
        b"A",
        b"RS+",
        b"LS+",
        b"L",
        b"R",
        b"CONNEX",
        b"INFX",
        b"PUB a 2\r\nabX",
        b"PUB a 2\r\nab\n",
        b"PUB a 2\r\nab\rX",
        b"HPUB a 1 2\r\nabX",
        b"PUB a  2\r\nab\rX",
    ],
)
def test_what_is_no_operation_is_told_at_its_first_wrong_byte(data: bytes) -> None:
    """PARSE-2: one byte less is still the beginning of something, or a different error."""
    assert refused(data) == UNKNOWN


@pytest.mark.parametrize(
    "data", [b"PUB a 2\r\nab", b"PUB a 2\r\nab\r", b"PU", b"SUB", b"-ERR", b"+O", b"H", b""]
)
def test_the_beginning_of_an_operation_waits_for_the_rest(data: bytes) -> None:
    assert from_client().feed(data) == []


@pytest.mark.parametrize("data", [b"PUB a 0\r\n\r\n", b"SUB", b"HPUB", b"UNSUB", b"CONNECT"])
def test_a_server_sends_nothing_of_what_clients_do(data: bytes) -> None:
    assert refused(data, Collector()) == UNKNOWN


@pytest.mark.parametrize(
    "data",
    [
        b"PUB \r\n",
        b"PUB a\r\n",
        b"PUB a b c 1\r\n",
        b"PUB a b c d e f 1\r\n",
        b"PUB a -1\r\n",
        b"PUB a 1x\r\n",
        b"PUB a 9999999999\r\n",
        b"PUB a b\r\n",
        b"PUB a 99999999999999999999999\r\n",
        b"HPUB a 1\r\n",
        b"HPUB a 3 2\r\n",
        b"HPUB a x 2\r\n",
        b"HPUB a b c 1 2\r\n",
        b"HPUB a 1 x\r\n",
    ],
)
def test_arguments_that_make_no_sense_close_without_a_word(data: bytes) -> None:
    assert refused(data) == SILENT


def test_headers_are_refused_where_they_are_not_taken() -> None:
    collector = from_client()
    collector.headers = False
    assert refused(b"HPUB a 1 2\r\n", collector) == ("", "Message Header Violation")
    assert from_client().feed(b"HPUB a 1 2\r\nxy\r\n")


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("verb", [b"SUB", b"UNSUB", b"CONNECT", b"INFO", b"-ERR"])
def test_arguments_are_bounded(verb: bytes, end: bytes) -> None:
    assert from_client(max_control_line=16).feed(verb + b"   " + b"a" * 16 + end)
    for data in (b"a" * 17 + end, b"a" * 17, b"a" * 16 + b"\rb"):
        assert refused(verb + b" " + data, from_client(max_control_line=16)) == TOO_LONG
    assert from_client(max_control_line=16).feed(verb + b" " + b"a" * 16 + b"\r") == []


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_the_arguments_of_messages_are_bounded(end: bytes) -> None:
    for line, headers in ((b"PUB %s 0", 2), (b"PUB  %s 0", 2), (b"HPUB %s 0 0", 4)):
        fits = line % (b"a" * (16 - headers))
        assert from_client(max_control_line=16).feed(fits + end + b"\r\n")
        over = line % (b"a" * (17 - headers))
        assert refused(over + end, from_client(max_control_line=16)) == TOO_LONG
        assert refused(over, from_client(max_control_line=16)) == TOO_LONG


@pytest.mark.parametrize("verb", [b"PUB", b"HPUB", b"SUB", b"CONNECT"])
def test_blanks_before_arguments_are_bounded(verb: bytes) -> None:
    """PARSE-5: the peer takes any number of them; here what waits for its end is kept."""
    assert from_client(max_control_line=16).feed(verb + b" " * 16) == []
    assert refused(verb + b" " * 17, from_client(max_control_line=16)) == TOO_LONG


def test_payloads_are_bounded_at_their_control_line() -> None:
    assert from_client(max_payload=5).feed(b"PUB a 5\r\nhello\r\n")
    assert refused(b"PUB a 6\r\n", from_client(max_payload=5)) == TOO_LARGE
    assert refused(b"PUB  a 6\r\n", from_client(max_payload=5)) == TOO_LARGE
    assert refused(b"HPUB a 4 6\r\n", from_client(max_payload=5)) == TOO_LARGE
    assert refused(b"PUB a 999999999\r\n", from_client(max_payload=5)) == TOO_LARGE
    assert from_client(max_payload=0).feed(b"PUB a 0\r\n\r\n")
    assert from_client(max_payload=-1).feed(b"PUB a 999999999\r\nx") == []


@pytest.mark.parametrize(
    ("data", "tail"),
    [
        (b"PUB a 2\r\nhi\r\n", b"2\r\nhi\r\n"),
        (b"PUB a r 2\r\nhi\r\n", b"r 2\r\nhi\r\n"),
        (b"PUB a r 002\r\nhi\r\n", b"r 002\r\nhi\r\n"),
        (b"PUB a r  2\r\nhi\r\n", b"r 2\r\nhi\r\n"),
        (b"PUB a r\t2\r\nhi\r\n", b"r 2\r\nhi\r\n"),
        (b"PUB a\t2\r\nhi\r\n", b"2\r\nhi\r\n"),
        (b"PUB a 2 \r\nhi\r\n", b"2\r\nhi\r\n"),
        (b"PUB a 2\nhi\r\n", b"2\r\nhi\r\n"),
        (b"HPUB a r 3 5\r\nH: hi\r\n", b"r 3 5\r\nH: hi\r\n"),
        (b"HPUB a r 3\t5\r\nH: hi\r\n", b"r 3 5\r\nH: hi\r\n"),
        (b"HPUB a 0 2\r\nhi\r\n", b"2\r\nhi\r\n"),
        (b"HPUB a r 0 2\r\nhi\r\n", b"r 2\r\nhi\r\n"),
    ],
)
def test_deliveries_are_canonical_whatever_the_publisher_wrote(data: bytes, tail: bytes) -> None:
    """PARSE-3."""
    assert from_client().tail_of(data) == [tail]


def test_a_large_payload_is_not_parsed_again_with_every_piece() -> None:
    collector = from_client()
    piece = b"x" * 1000
    assert collector.feed(b"PUB a 1000000\r\n") == []
    for _ in range(1000):
        assert collector.feed(piece) == []
    assert collector.feed(b"\r\nPING\r\n") == [("PUB", b"a", b"", None, None, piece * 1000), ("PING", b"")]


def test_what_came_before_an_error_is_known() -> None:
    collector = from_client()
    assert refused(b"PING\r\nPONG\r\nX", collector) == UNKNOWN
    assert collector.found == [("PING", b""), ("PONG", b"")]


def test_any_buffer_is_taken() -> None:
    for data in (bytearray(b"PING\r\n"), memoryview(b"PING\r\n")):
        assert from_client().feed(data) == [("PING", b"")]
