import pytest

from tidelog.base.errors import ConfigError, ConfigErrors
from tidelog.serve.conf import Node, parse_text
from tidelog.serve.field import (
    UNKEPT,
    Findings,
    aliases,
    boolean,
    integer,
    kind,
    quoted,
    read_section,
    storage_size,
    text,
)


def node(written: str) -> Node:
    return parse_text(f"x: {written}\n", {}, "f")["x"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a", "string"),
        ("true", "bool"),
        ("1", "int64"),
        ("1.5", "float64"),
        ("2026-01-02T03:04:05Z", "time.Time"),
        ("{}", "map[string]interface {}"),
        ("[]", "[]interface {}"),
    ],
)
def test_kinds_have_the_names_of_the_peer(written: str, name: str) -> None:
    assert kind(node(written)) == name


def test_booleans_are_no_integers() -> None:
    with pytest.raises(ConfigError, match="f:1:1: Expected an integer, got bool"):
        integer(node("true"))


def test_texts_are_quoted_as_go_does() -> None:
    assert quoted('a"b\\c\n') == '"a\\"b\\\\c\\n"'


def test_a_section_is_read_by_its_table() -> None:
    findings = Findings()
    table = {**aliases("a b", "first", text), "c": ("second", boolean), "d": (UNKEPT, integer)}
    tree = parse_text("B: x, c: true, d: 5 ", {})
    assert read_section(tree, table, findings) == {"first": "x", "second": True}
    assert not findings.errors


def test_one_fault_does_not_hide_another() -> None:
    findings = Findings()
    read_section(parse_text("a: 1\nb: x\nc: 2", {}, "f"), {"a": ("a", text), "b": ("b", text)}, findings)
    with pytest.raises(ConfigErrors) as caught:
        findings.finish()
    assert str(caught.value) == 'f:1:1: Expected a string, got int64\nf:3:1: unknown field "c"'
    assert (caught.value.line, len(caught.value.errors)) == (1, 2)


def test_a_single_fault_is_raised_as_it_is() -> None:
    findings = Findings()
    findings.add(ConfigError("x"))
    with pytest.raises(ConfigError) as caught:
        findings.finish()
    assert not isinstance(caught.value, ConfigErrors)


@pytest.mark.parametrize(("written", "size"), [("5", 5), ("'5K'", 5120), ("'1T'", 2**40), ("''", 0)])
def test_storage_sizes(written: str, size: int) -> None:
    assert storage_size("s")(node(written)) == size
