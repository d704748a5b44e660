"""What only several options together can get wrong."""

import pytest

from tidelog.base.errors import ConfigError
from tidelog.broker.nkey import Kind, encode_public
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_build import build_options
from tidelog.serve.option_table import read_options
from tidelog.serve.options import Options

KEY = encode_public(Kind.USER, bytes(32))


def options_of(text: str) -> Options:
    findings = Findings()
    found, places = read_options(parse_text(text, {}, "f"), findings)
    return build_options(found, places, findings)


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        options_of(text)
    return str(caught.value)


def test_users_of_the_block_and_of_accounts_stand_in_one_list() -> None:
    text = "authorization { users: [ {user: a} ] }, accounts { X { users: [ {user: b} ] } }, no_auth_user: b"
    authorization = options_of(text).broker.authorization
    assert [(user.name, user.account) for user in authorization.users] == [("a", "$G"), ("b", "X")]
    assert authorization.no_auth_user == "b"
    assert authorization.required


def test_tls_gives_logins_more_time() -> None:
    pair = "cert_file: c, key_file: k"
    assert options_of(f"tls {{ {pair}, timeout: 5 }}").broker.authorization.timeout_ns == 6 * 10**9
    text = f"tls {{ {pair}, verify_and_map: true }}, authorization {{ timeout: 1 }}"
    authorization = options_of(text).broker.authorization
    assert authorization.timeout_ns == 10**9
    assert authorization.verify_and_map


def test_the_store_is_named_once() -> None:
    assert options_of("store_dir: d, jetstream: true").jetstream.store_dir == "d"
    assert "Duplicate 'store_dir' configuration" in fault("store_dir: d, jetstream { store_dir: e }")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nauthorization { user: a, password: b, token: c }", "f:2:1: Cannot have a user/pass and token"),
        ("authorization { user: a, users: [] }", "f:1:1: Can not have a single user/pass and a users array"),
        ("authorization { token: a, users: [] }", "f:1:1: Can not have a token and a users array"),
        (
            "authorization { user: a }\naccounts { A { users: [ {user: b} ] } }",
            "f:1:1: Can not have a single user/pass and a users array",
        ),
        ("authorization { users: [ {user: a}, {user: a} ] }", 'f:1:1: Duplicate user "a" detected'),
        (
            f"accounts {{ A {{ users: [ {{nkey: {KEY}}} ] }}\n B {{ users: [ {{nkey: {KEY}}} ] }} }}",
            f'f:2:6: Duplicate nkey "{KEY}" detected',
        ),
        ("no_auth_user: a", 'f:1:1: no_auth_user: "a" present, but users/nkeys are not defined'),
        (
            "authorization { users: [ {user: a} ] }\nno_auth_user: b",
            'f:2:1: no_auth_user: "b" not present as user or nkey in authorization block or account configuration',
        ),
        (
            "authorization { users: [ {user: a} ] }\nws { port: 1, no_tls: true, no_auth_user: b }",
            'f:2:1: no_auth_user: "b" not present',
        ),
        (
            "authorization { users: [ {user: a} ] }\nws { port: 1, no_tls: true, authorization { user: b } }",
            "f:2:1: websocket authentication username not compatible with presence of users/nkeys",
        ),
        (
            "authorization { users: [ {user: a} ] }\nws { port: 1, no_tls: true, authorization { token: b } }",
            "f:2:1: websocket authentication token not compatible with presence of users/nkeys",
        ),
    ],
)
def test_faults(text: str, message: str) -> None:
    assert fault(text).startswith(message)
