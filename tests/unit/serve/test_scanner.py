import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import parse_text, plain
from tidelog.serve.scanner import INT64_MAX


def value(text: str) -> object:
    tree = plain(parse_text(f"a: {text}\n", {}))
    assert isinstance(tree, dict)
    return tree["a"]


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_text(f"a: {text}\n", {})
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", 42),
        ("-42", -42),
        ("007", 7),
        ("1k", 1000),
        ("1kb", 1024),
        ("1KiB", 1024),
        ("2Ki", 2048),
        ("1m", 10**6),
        ("1MB", 2**20),
        ("1g", 10**9),
        ("1gib", 2**30),
        ("1t", 10**12),
        ("1TB", 2**40),
        ("1p", 10**15),
        ("1PiB", 2**50),
        ("1e", 10**18),
        ("1eb", 2**60),
        ("-1k", -1000),
        (str(INT64_MAX), INT64_MAX),
        (str(-INT64_MAX - 1), -INT64_MAX - 1),
        ("1.25", 1.25),
        ("-0.5", -0.5),
    ],
)
def test_numbers(text: str, expected: float) -> None:
    assert value(text) == expected
    assert type(value(text)) is type(expected)


@pytest.mark.parametrize("text", ["1k2", "1kbx", "10x", "5_0", "0x10", "1.2.3.4", "127.0.0.1:-1", "1/2"])
def test_strings_may_begin_like_numbers(text: str) -> None:
    assert value(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (str(INT64_MAX + 1), f"integer '{INT64_MAX + 1}' is out of the range"),
        ("10e", "integer '10e' is out of the range"),
        ("1kbb", "expected integer, but got '1kbb'"),
        ("-", "Expected a digit but got '\\n'."),
        ("-.5", "Floats must start with a digit, not '.'."),
        (".5", "Floats must start with a digit"),
        ("1.", "Floats must have a digit after the '.', but got '\\n' instead."),
        ("20-01-02", "All ISO8601 dates must be in full Zulu form."),
        ("2026-01-02", "Expected 'T' in ISO8601 datetime, but found '\\n' instead."),
        ("2026-1-02", "Expected digit in ISO8601 datetime, but found '-' instead."),
        ("2026-02-30T00:00:00Z", "expected Zulu formatted DateTime, but got '2026-02-30T00:00:00Z'"),
        ("1" * 400 + ".5", "is out of the range"),
    ],
)
def test_numbers_that_are_none(text: str, reason: str) -> None:
    assert reason in fault(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a\\tb\\n\\r\\"\\\\"', 'a\tb\n\r"\\'),
        ('"\\x41"', "A"),
        ('"\\xc3\\xa9"', "é"),
        ("'raw \\n'", "raw \\n"),
        ("bare\\x41", "bareA"),
        ('"true"', "true"),
        ("tr\\x75e", "true"),
        ("TRUE", True),
        ("it's", "it"),
        ('"a\nb"', "a\nb"),
        ("nats://a:1/x?y=z#w", "nats://a:1/x?y=z#w"),
        ("é", "é"),
    ],
)
def test_strings_and_booleans(text: str, expected: object) -> None:
    if text == "it's":
        assert plain(parse_text("a: it'\n", {})) == {"a": "it"}
    else:
        assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"\\q"', "Invalid escape character 'q'."),
        ('"\\x4"', "Expected two hexadecimal digits after '\\x', but got '4\"'"),
        ('"\\x\n"', "Expected two hexadecimal digits after '\\x', but hit end of line"),
        ("'open", "Unexpected EOF."),
        ('"open', "Unexpected EOF."),
        ("(\nopen", "Unexpected EOF processing block."),
    ],
)
def test_strings_that_are_none(text: str, reason: str) -> None:
    assert reason in fault(text)


def test_a_block_ends_with_a_parenthesis_alone_on_its_line() -> None:
    assert value("(\n  one ) two\n )\n)\n") == "\n  one ) two\n )\n"
