import pytest

from tidelog.wire import header


def test_encode_writes_one_line_per_value_and_a_blank_line() -> None:
    assert header.encode({"A": ["1", "2"], "b": "x"}) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\nb: x\r\n\r\n"


def test_encode_of_nothing_is_a_block_without_lines() -> None:
    assert header.encode({}) == b"NATS/1.0\r\n\r\n"


def test_decode_returns_what_encode_was_given() -> None:
    headers = {"Nats-Msg-Id": ["a:b"], "key": ["", "grün"], "KEY": ["other case, other name"]}
    assert header.decode(header.encode(headers)) == (0, "", headers)


def test_decode_reads_status_and_description() -> None:
    assert header.decode(b"NATS/1.0 503\r\n\r\n") == (503, "", {})
    block = header.decode(b"NATS/1.0 404 No Messages\r\nA:b\r\n\r\n")
    assert block == (404, "No Messages", {"A": ["b"]})


def test_a_status_of_too_many_digits_is_none() -> None:
    assert header.decode(b"NATS/1.0 999999999\r\n\r\n").status == 999_999_999
    for digits in (10, 5000):
        assert header.decode(b"NATS/1.0 " + b"9" * digits + b"\r\nA: b\r\n\r\n") == (0, "", {"A": ["b"]})


def test_decode_drops_white_space_around_values_only() -> None:
    assert header.decode(b"NATS/1.0\r\nA: \t b c \t\r\n\r\n").headers == {"A": ["b c"]}


def test_decode_passes_over_lines_without_a_colon() -> None:
    assert header.decode(b"NATS/1.0\r\nnonsense\r\n: empty name\r\nA: 1\r\n\r\n").headers == {"A": ["1"]}


def test_bytes_that_are_no_utf8_survive() -> None:
    block = b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n"
    assert header.encode(header.decode(block).headers) == block


@pytest.mark.parametrize("block", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"A: b\r\n\r\n"])
def test_decode_refuses_what_has_no_version_line(block: bytes) -> None:
    with pytest.raises(ValueError, match="header block starts with"):
        header.decode(block)


@pytest.mark.parametrize("name", ["", "a:b", "a b", "a\r\nb", "a\x7f"])
def test_encode_refuses_names_that_break_the_block(name: str) -> None:
    with pytest.raises(ValueError, match="header name"):
        header.encode({name: "1"})


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\n", "\r"])
def test_encode_refuses_line_ends_in_values(value: str) -> None:
    with pytest.raises(ValueError, match="line end"):
        header.encode({"A": value})
