from typing import Any

import pytest

from tidelog.base.errors import ConfigError
from tidelog.broker.nkey import Kind, encode_public
from tidelog.broker.settings import Permissions, ResponseRights, SubjectRights, User
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_user import read_authorization

USER_KEY = encode_public(Kind.USER, bytes(32))
ACCOUNT_KEY = encode_public(Kind.ACCOUNT, bytes(32))


def authorization(text: str) -> dict[str, Any]:
    findings = Findings()
    found = read_authorization(parse_text(f"a {{ {text} }}", {})["a"], findings)
    findings.finish()
    return found


def permissions(text: str) -> Permissions | None:
    user: User = authorization(f"users: [ {{ user: u, permissions {{ {text} }} }} ]")["users"][0]
    return user.permissions


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        authorization(text)
    return caught.value.message


def test_one_user_or_token() -> None:
    assert authorization("user: a, password: b") == {"user": "a", "password": "b"}
    assert authorization("username: a, pass: b") == {"user": "a", "password": "b"}
    assert authorization("token: t") == {"token": "t"}


@pytest.mark.parametrize(("value", "ns"), [("1", 10**9), ("0.5", 5 * 10**8), ('"250ms"', 25 * 10**7)])
def test_timeouts_are_seconds_or_durations(value: str, ns: int) -> None:
    assert authorization(f"timeout: {value} ") == {"timeout_ns": ns}


def test_a_timeout_of_zero_is_the_default() -> None:
    assert authorization("timeout: 0 ") == {}


def test_high_timeouts_raise_a_doubt() -> None:
    findings = Findings()
    read_authorization(parse_text("a { timeout: 61 }", {}, "f")["a"], findings)
    assert findings.doubts[0].startswith(
        'f:1:5: invalid use of field "timeout": timeout of 61 (61.000000 seconds)'
    )


def test_users() -> None:
    text = f"""users: [
        {{ user: a, password: "$2a$10$x" }}
        {{ nkey: {USER_KEY} }}
        {{ user: c, allowed_connection_types: [websocket, "STANDARD"] }}
    ]"""
    assert authorization(text)["users"] == (
        User(name="a", password="$2a$10$x"),
        User(nkey=USER_KEY),
        User(name="c", connection_types=frozenset(("WEBSOCKET", "STANDARD"))),
    )


def test_users_without_permissions_have_the_default_ones() -> None:
    text = "users: [ {user: a}, {user: b, permissions: {publish: x}} ], default_permissions: {publish: y}"
    first, second = authorization(text)["users"]
    assert first.permissions == Permissions(publish=SubjectRights(("y",)))
    assert second.permissions == Permissions(publish=SubjectRights(("x",)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("publish: a.b", Permissions(publish=SubjectRights(("a.b",)))),
        ("pub: [a, 'b.>']", Permissions(publish=SubjectRights(("a", "b.>")))),
        ("subscribe: { allow: a, deny: [b, c] }", Permissions(subscribe=SubjectRights(("a",), ("b", "c")))),
        ("sub: 'a queue'", Permissions(subscribe=SubjectRights(("a queue",)))),
        ("publish: { deny: a }", Permissions(publish=SubjectRights(None, ("a",)))),
        ("publish: {}", Permissions()),
        ("publish: []", Permissions()),
        ("allow_responses: false", Permissions()),
        ("allow_responses: true", Permissions(SubjectRights(()), responses=ResponseRights())),
        (
            "publish: a, allow_responses: { max: 5, ttl: '1m' }",
            Permissions(SubjectRights(("a",)), responses=ResponseRights(5, 60 * 10**9)),
        ),
        (
            "allow_responses: { max: 0, expires: '-1s' }",
            Permissions(SubjectRights(()), responses=ResponseRights(1, -(10**9))),
        ),
    ],
)
def test_permissions(text: str, expected: Permissions) -> None:
    assert permissions(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bogus: 1", 'unknown field "bogus"'),
        ("user: 1", "Expected a string, got int64"),
        ("users: a", "Expected users field to be an array, got string"),
        ("users: [a]", "Expected user entry to be a map/struct, got string"),
        ("users: [ {password: a} ]", "User entry requires a user"),
        ("users: [ {nkey: a} ]", "Not a valid public nkey for a user"),
        (f"users: [ {{nkey: {ACCOUNT_KEY}}} ]", "Not a valid public nkey for a user"),
        (f"users: [ {{nkey: {USER_KEY}, user: a}} ]", "Nkey users do not take usernames or passwords"),
        ("users: [ {user: a, clients: [x]} ]", 'invalid connection types ["X"]'),
        ("users: [ {user: a, proxy_required: true} ]", "proxy_required is not supported"),
        ("users: [ {user: a, permissions: x} ]", "Expected permissions to be a map/struct, got string"),
        ("permissions: { publish: 'a b' }", 'subject "a b" is not a valid subject'),
        ("permissions: { publish: 'a..b' }", 'subject "a..b" is not a valid subject'),
        ("permissions: { sub: 'a..b q' }", 'subject "a..b" is not a valid subject'),
        ("permissions: { sub: 'a q..r' }", 'queue "q..r" is not a valid queue'),
        ("permissions: { publish: 1 }", "Expected subject permissions to be a subject, or array of subjects"),
        ("permissions: { publish: [1 ] }", "Subject in permissions array cannot be cast to string"),
        ("permissions: { bogus: a }", 'Unknown field "bogus" parsing permissions'),
        ("permissions: { publish: { a: b } }", 'Unknown field name "a" parsing subject permissions'),
        (
            "permissions: { allow_responses: x }",
            "error parsing response permissions, expected a boolean or a map",
        ),
        ("permissions: { allow_responses: { ttl: 5 } }", "error parsing expires, not a duration string"),
        ("permissions: { allow_responses: { ttl: x } }", 'error parsing expires: time: invalid duration "x"'),
        ("timeout: x", "error parsing authorization config, 'timeout' time: invalid duration \"x\""),
        ("timeout: true", "error parsing authorization config, 'timeout' wrong type"),
        ("auth_callout: { issuer: x }", "auth_callout is not supported"),
        ("proxy_required: true", "proxy_required is not supported"),
    ],
)
def test_faults(text: str, message: str) -> None:
    assert fault(text).startswith(message)
