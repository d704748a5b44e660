import pytest

from tidelog.base.errors import ConfigError
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


@pytest.mark.parametrize(
    "text",
    [
        "exports: [ {stream: 'a.>'} ]",
        "exports: [ {service: s, accounts: [B], latency: l, allow_trace: true, account_token_position: 2 } ]",
        "exports: [ {service: s, latency: {subject: l, sampling: 10%}} ]",
        "imports: [ {service: {account: B, subject: s}, to: t, share: true} ]",
        "imports: [ {stream: {account: B, subject: s}, to: t} ]",
    ],
)
def test_good_shapes_are_accepted_with_a_warning(text: str) -> None:
    findings = findings_of(text)
    findings.finish()
    assert 'of account "A" is accepted but not yet built' in findings.warnings[0]


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
