import itertools
import re
from collections.abc import Callable

import pytest

from tidelog.cli import command, pub
from tidelog.client import Connection, Message

TypeIn = Callable[[bytes], None]


@pytest.fixture
def published(connection: Connection) -> Callable[..., list[Message]]:
    """Run `pub p ...`; what it published."""
    inbound = connection.subscribe("p.>")
    connection.flush()

    def run(*arguments: str, count: int = 1) -> list[Message]:
        assert command.run(["pub", *arguments]) == 0
        return [inbound.next(5) for _ in range(count)]

    return run


Published = Callable[..., list[Message]]


def test_a_body_is_published_with_reply_and_headers(published: Published) -> None:
    (message,) = published("p.a", "hello", "--reply", "r", "-H", "A:1", "-H", "A: 2")
    assert (message.subject, message.payload, message.reply) == ("p.a", b"hello", "r")
    assert message.headers == {"A": ["1", "2"]}


def test_many_messages_may_differ(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    found = published("p.{{Count}}", "n {{Count}}", "--count", "3", "-H", "N:{{Count}}", count=3)
    assert [message.subject for message in found] == ["p.1", "p.2", "p.3"]
    assert [message.payload for message in found] == [b"n 1", b"n 2", b"n 3"]
    assert found[2].headers == {"N": ["3"]}
    assert len(re.findall("Published 3 bytes", capsys.readouterr().err)) == 3


def test_templates_can_be_turned_off(published: Published) -> None:
    assert published("p.a", "{{Count}}", "--no-templates")[0].payload == b"{{Count}}"


def test_without_a_body_standard_input_is_one(published: Published, type_in: TypeIn) -> None:
    type_in(b"two\nlines\xff\n")
    assert published("p.a")[0].payload == b"two\nlines\xff\n"


def test_lines_of_standard_input_may_be_messages(published: Published, type_in: TypeIn) -> None:
    type_in(b"one\r\ntwo\n\nlast")
    found = published("p.a", "--send-on", "newline", count=4)
    assert [message.payload for message in found] == [b"one", b"two", b"", b"last"]


def test_beyond_twenty_there_is_one_remark(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    published("p.a", "x", "--count", "21", count=21)
    assert capsys.readouterr().err.strip().endswith('Published 21 messages to "p.a"')
    published("p.a", "x", "-q")
    assert capsys.readouterr().err == ""


def test_a_server_that_is_not_there_fails_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["-s", "nats://127.0.0.1:1", "pub", "a", "b"]) == 1
    assert capsys.readouterr().err == "tidelog: nats://127.0.0.1:1: Connection refused\n"


def test_zero_is_no_end() -> None:
    assert list(itertools.islice(pub.numbers(0), 3)) == [1, 2, 3]
    assert list(pub.numbers(2)) == [1, 2]
