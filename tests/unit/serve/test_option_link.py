import pytest

from tidelog.base.errors import ConfigError
from tidelog.broker.settings import AccountSettings, Export, Import
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_account import read_accounts


def findings_of(text: str) -> Findings:
    findings = Findings()
    read_accounts(parse_text(f"accounts {{ B {{}}, A {{ {text} }} }}", {})["accounts"], findings)
    return findings


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        findings_of(text).finish()
    return caught.value.message


def accounts_of(text: str) -> dict[str, AccountSettings]:
    findings = Findings()
    accounts, _ = read_accounts(parse_text(f"accounts {{ {text} }}", {})["accounts"], findings)
    findings.finish()
    assert not findings.warnings
    return {account.name: account for account in accounts}


def test_exports_and_imports_are_read() -> None:
    found = accounts_of(
        """
        A { exports: [ {stream: 'a.>'}, {service: 'q.*', accounts: [B], response: chunked, threshold: '1s'},
                       {service: s, latency: l, allow_trace: true, account_token_position: 2} ] }
        B { imports: [ {stream: {account: A, subject: 'a.b'}, prefix: p},
                       {stream: {account: A, subject: 'a.c'}, to: t},
                       {service: {account: A, subject: 'q.*'}, to: 'r.*', share: true},
                       {service: {account: A, subject: s}} ] }
        """
    )
    assert found["A"].exports == (
        Export("a.>"),
        Export("q.*", service=True, accounts=("B",), many_answers=True),
        Export("s", service=True),
    )
    assert found["B"].imports == (
        Import("a.b", "A", local="p.a.b"),
        Import("a.c", "A", local="t"),
        Import("q.*", "A", service=True, local="r.*"),
        Import("s", "A", service=True),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "A { exports: [{service: 'x.>'}] }, B { imports: [{service: {account: A, subject: 'y.>'}}] }",
            'Error adding service import "y.>": service import not authorized',
        ),
        (
            "A { exports: [{service: 'x.>', accounts: [A]}] }, B { imports: [{service: {account: A, subject: x.y}}] }",
            'Error adding service import "x.y": service import not authorized',
        ),
        (
            "A { exports: [{service: 'x.>'}] }, B { imports: [{stream: {account: A, subject: x.y}}] }",
            'Error adding stream import "x.y": stream import not authorized',
        ),
        (
            "A { exports: [{stream: 'x.>'}] }, B { imports: [{stream: {account: A, subject: 'x.>'}, to: z}] }",
            'Error adding stream import "x.>": failed to create mapping transform for stream import subject from "x.>" '
            'to "z": invalid subject',
        ),
        (
            "A { exports: [{service: 'x.*'}] }, B { imports: [{service: {account: A, subject: 'x.*'}, to: z}] }",
            'Error adding service import "x.*": failed to create mapping transform for service import subject from "z" '
            'to "x.*": invalid',
        ),
        (
            "A { exports: [{service: 'x.>'}], imports: [{service: {account: B, subject: 'x.>'}}] } "
            ", B { exports: [{service: 'x.>'}], imports: [{service: {account: A, subject: 'x.>'}}] }",
            'Error adding service import "x.>": import forms a cycle',
        ),
        (
            "A { exports: [{service: x}] }"
            ", B { imports: [{service: {account: A, subject: x}, to: q}, {service: {account: A, subject: x}, to: q}] }",
            'Duplicate service import subject "q", previously used in import for account "A", subject "x"',
        ),
        ("A { exports: [{service: 'x..y'}] }", 'Error adding service export "x..y": invalid subject'),
    ],
)
def test_what_may_not_be_imported(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        accounts_of(text)
    assert caught.value.message.startswith(message)


def test_empty_lists_are_no_matter() -> None:
    assert not findings_of("imports: [], exports: []").warnings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exports: x", "Exports should be an array, got string"),
        ("imports: x", "Imports should be an array, got string"),
        ("exports: [x]", "Export Items should be a map with type entry, got string"),
        ("imports: [x]", "Import Items should be a map with type entry, got string"),
        ("exports: [ {stream: a, x: 1} ]", 'unknown field "x"'),
        ("exports: [ {stream: a, service: b} ]", 'Detected service "b" but already saw a stream'),
        ("exports: [ {stream: a, response: stream} ]", "Detected response directive on non-service"),
        ("exports: [ {stream: a, latency: l} ]", "Detected latency directive on non-service"),
        ("exports: [ {service: a, response: x} ]", 'Unknown response type: "x"'),
        ("exports: [ {service: a, threshold: x} ]", "error parsing response threshold: time: invalid"),
        ("exports: [ {service: a, latency: {sampling: 10 }} ]", "Latency subject required, but missing"),
        ("exports: [ {service: a, latency: {subject: l, sampling: 0 }} ]", "bad sampling percentage"),
        ("exports: [ {service: a, latency: 'l.*'} ]", "Error adding service latency sampling"),
        ("exports: [ {stream: a, accounts: [C]} ]", '"C" account not defined for stream export'),
        ("imports: [ {stream: x} ]", "Import entry should be an account map"),
        ("imports: [ {stream: {account: B}} ]", "Expect an account name and a subject"),
        ("imports: [ {service: {account: C, subject: s}} ]", '"C" account not defined for service import'),
        ("imports: [ {stream: {account: B, subject: s}, to: t, prefix: p} ]", "Stream import can not have"),
        (
            "imports: [ {stream: {account: B, subject: s}, service: {account: B, subject: s}} ]",
            "Detected service but already saw a stream",
        ),
        (
            "imports: [ {service: {account: B, subject: s}, allow_trace: true} ]",
            "Detected allow_trace directive",
        ),
    ],
)
def test_faults(text: str, message: str) -> None:
    assert fault(text).startswith(message)
