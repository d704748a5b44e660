"""What `nats-server -t` 2.15.1 printed; more files are compared in tests/conform/test_conf.py."""

import pytest

from tidelog.serve.conf import parse_text
from tidelog.serve.digest import config_digest, written


def digest_of(text: str) -> str:
    return config_digest(parse_text(text, {}))


def test_the_digest_is_that_of_the_peer() -> None:
    digest = digest_of('port: 4222\nmax_payload: 1MB\nserver_tags: [a, "b<c"]\n')
    assert digest == "sha256:8c15c6f72d720ca7af5c8e3e4667b7e8d26f402b7b69f6ad9c453dbd41db5282"


def test_order_and_spelling_do_not_matter() -> None:
    assert digest_of("a: 1, b { c = x }") == digest_of("# hi\nb: { 'c': \"x\" }\na 1\n")
    assert digest_of("a: 1") != digest_of("a: 2")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a<>&b", '"a\\u003c\\u003e\\u0026b"'),
        ('q"\\', '"q\\"\\\\"'),
        ("\b\f\n\r\t\x01\x7f", '"\\b\\f\\n\\r\\t\\u0001\x7f"'),
        ("\udcff", '"\ufffd"'),
        ("\u2028", '"\\u2028"'),
        (True, "true"),
        (1.0, "1"),
        (-0.0, "-0"),
        (0.000001, "0.000001"),
        (0.00000012, "1.2e-7"),
        (100000.5, "100000.5"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1.5e300, "1.5e+300"),
        (1.25e-5, "0.0000125"),
        (1.23e17, "123000000000000000"),
    ],
)
def test_values_are_written_as_go_writes_them(value: str | float, text: str) -> None:
    assert written(value) == text
