"""The `cold` block."""

from typing import Any

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_cold import read_cold


def cold(text: str) -> dict[str, Any]:
    findings = Findings()
    found = read_cold(parse_text(f"cold: {text}\n", {})["cold"], findings)
    findings.finish()
    return found


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("true", True),
        ("enabled", True),
        ("false", False),
        ("disabled", False),
        ("{}", True),
        ("{ enabled: false }", False),
    ],
)
def test_it_is_switched_on_in_many_ways(text: str, enabled: bool) -> None:
    assert cold(text) == {"enabled": enabled}


def test_the_block() -> None:
    found = cold(
        '{ url: "s3://b/p", streams: asked, local_bytes: 10GB, local_age: 36h, keep: forever, bandwidth: 20MB,'
        " parallel: 4, cache: 1000 }"
    )
    assert found == {
        "enabled": True,
        "url": "s3://b/p",
        "streams": False,
        "local_size": 10 * 1024**3,
        "local_age_ns": 36 * 3600 * 10**9,
        "keep_ns": -1,
        "bytes_per_second": 20 * 1024**2,
        "parallel": 4,
        "cache_size": 1000,
    }
    assert cold("{ keep: stream }")["keep_ns"] == 0
    assert cold("{ keep: 2d }")["keep_ns"] == 2 * 86_400 * 10**9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "Expected cold to be a map, bool or string"),
        ("sometimes", "Expected 'enabled' or 'disabled'"),
        ("{ parallel: 17 }", "parallel: 1 to 16, not 17"),
        ("{ local_bytes: {a: 1} }", "local_bytes must be a number or a string"),
        ("{ local_bytes: true }", "local_bytes must be a number or a string"),
        ('{ url: "file://host/path" }', "names no folder"),
    ],
)
def test_what_it_may_not_say(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cold(text)
