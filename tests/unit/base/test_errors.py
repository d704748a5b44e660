"""Errors say what and where."""

import pytest

from tidelog.base.errors import ClientError, ConfigError, ProtocolError, TidelogError


def test_a_protocol_error_shows_the_most_telling_of_its_texts() -> None:
    assert str(ProtocolError("text", "reason", "detail")) == "detail"
    assert str(ProtocolError("text", "reason")) == "text"
    assert str(ProtocolError("", "reason")) == "reason"


@pytest.mark.parametrize(
    ("where", "shown"),
    [((), "bad"), (("f",), "f: bad"), (("f", 3), "f:3: bad"), (("f", 3, 9), "f:3:9: bad")],
)
def test_a_config_error_says_where(where: tuple[object, ...], shown: str) -> None:
    assert str(ConfigError("bad", *where)) == shown  # type: ignore[arg-type]


def test_everything_is_a_tidelog_error() -> None:
    assert issubclass(ProtocolError, TidelogError)
    assert issubclass(ConfigError, TidelogError)
    assert issubclass(ClientError, TidelogError)
