import pytest

from tidelog.base.errors import ConfigError
from tidelog.broker.nkey import Kind, encode_public
from tidelog.broker.settings import AccountSettings, Mapping, Permissions, SubjectRights, User
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_account import PlacedUser, read_accounts

ACCOUNT_KEY = encode_public(Kind.ACCOUNT, bytes(32))


def accounts(text: str) -> tuple[tuple[AccountSettings, ...], tuple[PlacedUser, ...]]:
    findings = Findings()
    found = read_accounts(parse_text(f"accounts {text}", {})["accounts"], findings)
    findings.finish()
    return found


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        accounts(text)
    return caught.value.message


def test_accounts_may_be_names_only() -> None:
    assert accounts("[A, B]") == ((AccountSettings("A"), AccountSettings("B")), ())


def test_users_belong_to_their_account() -> None:
    found, users = accounts("{ A { users: [ {user: a} ] }, B { users: [ {user: b}, {user: c} ] } }")
    assert [account.name for account in found] == ["A", "B"]
    assert [user for user, _ in users] == [
        User("a", account="A"),
        User("b", account="B"),
        User("c", account="B"),
    ]


def test_default_permissions_hold_for_users_without() -> None:
    (account,), ((user, _),) = accounts("{ A { users: [ {user: a} ], default_permissions: {pub: x} } }")
    assert user.permissions == account.default_permissions == Permissions(SubjectRights(("x",)))


def test_limits() -> None:
    (account,), _ = accounts("{ A { limits { max_conn: 1, max_subs: 2, max_payload: 3, max_leafs: 4 } } }")
    assert account == AccountSettings("A", max_connections=1, max_subscriptions=2, max_payload=3)


def test_definitions_among_accounts_are_none() -> None:
    found, _ = accounts("{ rights { pub: x }, A { default_permissions: $rights } }")
    assert [account.name for account in found] == ["A"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo: bar", (Mapping("foo", "bar"),)),
        ("'a.*': 'b.$1'", (Mapping("a.*", "b.$1"),)),
        (
            "foo: [ {dest: a, weight: 30%}, {destination: b, weight: 70 } ]",
            (Mapping("foo", "a", 30), Mapping("foo", "b", 70)),
        ),
        ("foo: {dest: a, weight: 10 }", (Mapping("foo", "a", 10),)),
    ],
)
def test_mappings(text: str, expected: tuple[Mapping, ...]) -> None:
    (account,), _ = accounts(f"{{ A {{ mappings {{ {text} }} }} }}")
    assert account.mappings == expected


def test_what_is_not_built_is_checked() -> None:
    text = f"""{{
        A {{
            nkey: {ACCOUNT_KEY}
            exports: [ {{stream: "a.>", accounts: [B]}}, {{service: s, response: stream, threshold: "1s"}} ]
            jetstream {{ max_mem: 1MB, max_bytes_required: true }}
            msg_trace: {{ dest: t, sampling: 50% }}
        }}
        B {{ imports: [ {{stream: {{account: A, subject: "a.>"}}, prefix: p}} ], jetstream: enabled }}
    }}"""
    assert len(accounts(text)[0]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("['$G']", '"$G" is a Reserved Account'),
        ("[A, A]", "Duplicate Account Entry: A"),
        ("[1 ]", "Expected a string, got int64"),
        ("{ A: x }", "Expected map entries for accounts"),
        ("{ '$G' {} }", '"$G" is a Reserved Account'),
        ("{ A { bogus: 1 } }", 'unknown field "bogus"'),
        ("{ A { nkey: x } }", 'Not a valid public nkey for an account: "x"'),
        ("{ A { limits: 1 } }", "Expected account limits to be a map/struct, got int64"),
        ("{ A { limits { x: 1 } } }", 'Unknown field "x" parsing account limits'),
        ("{ A { jetstream: maybe } }", "Expected 'enabled' or 'disabled' for string value, got 'maybe'"),
        ("{ A { jetstream { x: 1 } } }", 'unknown field "x"'),
        ("{ A { jetstream { max_mem: x } } }", "Expected a parseable size"),
        ("{ A { msg_trace: 'a.*' } }", 'Trace destination "a.*" is not valid'),
        ("{ A { msg_trace: {dest: a, sampling: 0 } } }", "Trace destination sampling value 0 is invalid"),
        ("{ A { mappings { 'a..b': c } } }", 'Subject "a..b" is not a valid subject'),
        ("{ A { mappings { a: 1 } } }", "Expected an entry for the mapping destination"),
        ("{ A { mappings { a: {dest: b} } } }", 'Missing weight for mapping destination "b"'),
        ("{ A { mappings { a: {dest: b, weight: 101 } } } }", "Invalid weight 101 for mapping destination"),
        ("{ A { mappings { a: {dest: b, weight: x} } } }", 'Invalid weight "x" for mapping destination'),
        ("{ A { mappings { a: {x: b} } } }", 'Unknown field "x" for mapping destination'),
        ("{ A { mappings { a: {dest: b, weight: 1, cluster: c} } } }", "mapping destinations for a cluster"),
        (
            "{ A { mappings { a: [ {dest: b, weight: 60 }, {dest: c, weight: 50 } ] } } }",
            'Error adding mapping for "a" : total weight needs to be <= 100',
        ),
        ("{ A { mappings { a: 'b.$2' } } }", 'Error adding mapping for "a" to "b.$2" : '),
    ],
)
def test_faults(text: str, message: str) -> None:
    assert fault(text).startswith(message)
