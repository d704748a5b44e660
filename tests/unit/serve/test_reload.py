from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_build import build_options
from tidelog.serve.option_table import read_options
from tidelog.serve.options import Options
from tidelog.serve.reload import ReloadPlan, plan, rule_of, rule_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "reload.md"


def options_of(text: str) -> Options:
    findings = Findings()
    found, places = read_options(parse_text(text, {}), findings)
    return build_options(found, places, findings)


def planned(old: str, new: str) -> ReloadPlan:
    return plan(options_of(old), options_of(new))


def test_nothing_changed() -> None:
    assert planned("port: 1", "port: 1") == ReloadPlan((), (), options_of("port: 1"))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("", "debug: true", "debug = true"),
        ("", "max_payload: 5", "max_payload = 5"),
        ("", "ping_interval: '5s'", "ping_interval = 5s"),
        ("", "lame_duck_duration: '40s'", "lame_duck_duration = 40s"),
        ("", "server_tags: [a, b]", "server_tags = [a b]"),
        ("", "authorization { users: [ {user: a} ] }", "users, permissions = 1 entries"),
        ("", "authorization { user: a }", "authorization.user = a"),
        ("authorization { token: a }", "authorization { token: b }", "authorization.token"),
        ("", "tls { cert_file: c, key_file: k }", "tls = enabled"),
        ("tls { cert_file: c, key_file: k }", "", "tls = disabled"),
        ("tls {}", "tls { verify: true }", "tls.verify = true"),
        ("", "accounts [A]", "accounts = 1 entries"),
        ("", "no_fast_producer_stall: true", "no_fast_producer_stall = true"),
        ("ws { port: 1, tls {} }", "ws { port: 1, tls { verify: true } }", "websocket.tls.verify = true"),
    ],
)
def test_what_is_applied(old: str, new: str, text: str) -> None:
    result = planned(old, new)
    assert text in [str(change) for change in result.applied]
    assert not result.refused
    assert result.options == options_of(new)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("port: 1", "port: 2", "config reload not supported for Port: old=1, new=2"),
        ("host: a", "host: b", "config reload not supported for Host: old=a, new=b"),
        ("server_name: a", "server_name: b", "config reload not supported for ServerName: old=a, new=b"),
        ("http: 1", "http: 2", "config reload not supported for HTTPPort: old=1, new=2"),
        ("ws { port: 1, no_tls: true }", "", "config reload not supported for Websocket: old=1, new=0"),
        ("", "leafnodes { port: 1 }", "config reload not supported for LeafNode: old=0, new=1"),
        ("", "no_system_account: true", "config reload not supported for SystemAccount: old=$SYS, new="),
    ],
)
def test_what_is_refused(old: str, new: str, text: str) -> None:
    result = planned(old, new)
    assert str(result.refused[0]).startswith(text)
    assert result.options == options_of(old)


def test_one_refusal_refuses_all() -> None:
    result = planned("port: 1", "port: 2, debug: true, max_payload: 5")
    assert result.applied == ()
    assert [change.option for change in result.refused] == ["port"]
    assert result.options == options_of("port: 1")


def test_any_port_keeps_the_one_in_use() -> None:
    result = planned("port: 1", "port: -1, debug: true")
    assert not result.refused
    assert result.options.port == 1
    assert result.options.log.debug


def test_secrets_are_masked() -> None:
    old = "authorization { users: [ {user: a, password: s3cret} ] }\nws { port: 1, no_tls: true }"
    new = "authorization { user: a, password: s3cret2 }\nws { port: 1, no_tls: true, authorization { token: s3cret } }"
    result = planned(old, new)
    assert "websocket.token" in [change.option for change in result.refused]
    assert "s3cret" not in repr(result.refused)
    assert "s3cret" not in "".join(map(str, result.refused))
    assert "s3cret" not in repr(planned(old, new.splitlines()[0] + "\nws { port: 1, no_tls: true }").applied)


def leaves(settings: Any, prefix: str = "") -> Iterator[str]:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        elif field.compare and field.name not in ("config_file", "config_digest"):
            yield prefix + field.name


def test_every_option_has_a_rule() -> None:
    for path in leaves(Options()):
        assert rule_of(path)


def test_the_file_itself_is_no_option() -> None:
    old = options_of("")
    result = plan(old, replace(old, config_file="x", config_digest="y", warnings=("z",)))
    assert not result.applied
    assert not result.refused


def test_the_document_has_this_table() -> None:
    assert rule_table() in DOCUMENT.read_text(encoding="utf-8")
