"""The grammar's structure: keys, maps, lists, includes, variables.

What the peer does with such texts is compared in tests/conform/test_conf.py.
"""

from pathlib import Path

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import NESTING_MAX, parse_file, parse_text, plain
from tidelog.serve.scanner import Zulu


def read(text: str, **environ: str) -> object:
    return plain(parse_text(text, environ))


def fault(text: str, **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_text(text, environ, "a.conf")
    return caught.value


@pytest.mark.parametrize("separator", [" ", "=", ":", " = ", ":\t", "\n = "])
def test_a_key_is_parted_from_its_value_by_blank_or_sign(separator: str) -> None:
    assert read(f"port{separator}4222") == {"port": 4222}


@pytest.mark.parametrize("end", ["\n", "\r\n", ";", ",", " # x\n", " // x\n", ""])
def test_a_value_ends_with_the_line_or_a_sign(end: str) -> None:
    assert read(f"a: b{end}") == {"a": "b"}


def test_values_follow_each_other() -> None:
    assert read("a 1; b = 2, c: 3\nd 4") == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_map_needs_no_separator() -> None:
    assert read("a { b: 1, c { d = e } }") == {"a": {"b": 1, "c": {"d": "e"}}}


def test_lists_are_parted_by_commas_or_lines_and_hold_anything() -> None:
    assert read('a = [ x, "y"\n z # last\n { b: 1 }, [ c ] ]') == {"a": ["x", "y", "z", {"b": 1}, ["c"]]}


def test_json_is_read() -> None:
    text = '{\n "port": 4222,\n "a": {"b": ["x", "y"], "c": null_word}\n}\n'
    assert read(text) == {"port": 4222, "a": {"b": ["x", "y"], "c": "null_word"}}


def test_keys_may_be_quoted() -> None:
    assert read('"a b": 1, \'c.>\': 2\nm { "d e": 3 }') == {"a b": 1, "c.>": 2, "m": {"d e": 3}}


def test_the_last_of_equal_keys_wins() -> None:
    assert read("a: 1\na: 2") == {"a": 2}


def test_kinds_of_values() -> None:
    text = "i: 42, f: -1.5, t: yes, n: OFF, s: some/word, d: 2026-01-02T03:04:05Z, a: 127.0.0.1:4222 "
    assert read(text) == {
        "i": 42,
        "f": -1.5,
        "t": True,
        "n": False,
        "s": "some/word",
        "d": Zulu("2026-01-02T03:04:05Z"),
        "a": "127.0.0.1:4222",
    }


def test_nodes_know_the_place_of_their_key() -> None:
    tree = parse_text("a: 1\n  b {\n c: [ x\n y ] }\n", {}, "a.conf")
    b = tree["b"]
    assert (b.path, b.line, b.column) == ("a.conf", 2, 3)
    assert isinstance(b.value, dict)
    c = b.value["c"]
    assert (c.line, c.column) == (3, 2)
    assert isinstance(c.value, list)
    assert [(item.line, item.column) for item in c.value] == [(3, 7), (4, 2)]


# -- variables --


def test_variables_are_looked_up_from_the_inside_out() -> None:
    assert read("x: 1\na { x: 2\n b { y: $x } }\nc: $x") == {"x": 1, "a": {"x": 2, "b": {"y": 2}}, "c": 1}


def test_a_variable_may_be_a_whole_map() -> None:
    assert read("rights { publish: foo }\nu { permissions: $rights }") == {
        "rights": {"publish": "foo"},
        "u": {"permissions": {"publish": "foo"}},
    }


def test_variables_are_marked_as_used() -> None:
    tree = parse_text("x: 1\ny: 2\na: $x", {})
    assert tree["x"].used
    assert not tree["y"].used


def test_the_environment_is_read_as_a_value() -> None:
    assert read("a: $A\nb: $B", A="10MB", B="[x, y]") == {"a": 10 * 1024 * 1024, "b": ["x", "y"]}


def test_environment_may_refer_to_environment() -> None:
    assert read("a: $A", A="$B", B="deep") == {"a": "deep"}


def test_environment_in_a_circle_is_refused() -> None:
    assert "variable reference cycle for 'A'" in str(fault("\na: $A", A="$B", B="$A"))


def test_unknown_variables_are_refused() -> None:
    error = fault("a: 1\nb: $missing\n")
    assert str(error) == "a.conf:2:4: variable reference for 'missing' on line 2 can not be found"


def test_bcrypt_hashes_need_no_quotes() -> None:
    assert read("password: $2a$11$abc./def") == {"password": "$2a$11$abc./def"}


def test_a_quoted_variable_is_a_string() -> None:
    assert read('a: "$x"') == {"a": "$x"}


# -- includes --


def test_includes_are_relative_and_merge(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "main.conf").write_text('a: 1\ninclude "sub/one.conf"\nm { include sub/two.conf }\nd: $b\n')
    (tmp_path / "sub/one.conf").write_text("b: 2\ninclude './three.conf'\n")
    (tmp_path / "sub/two.conf").write_text("c: 3\n")
    (tmp_path / "sub/three.conf").write_text("e: 4\n")
    tree = parse_file(str(tmp_path / "main.conf"), {})
    assert plain(tree) == {"a": 1, "b": 2, "e": 4, "m": {"c": 3}, "d": 2}
    assert tree["e"].path.endswith("three.conf")


def test_a_fault_in_an_include_names_both(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("include 'bad.conf'\n")
    (tmp_path / "bad.conf").write_text("a: 1\nb = \n")
    with pytest.raises(ConfigError) as caught:
        parse_file(str(tmp_path / "main.conf"), {})
    assert "error parsing include file 'bad.conf', Parse error on line 3: 'Expected value" in str(
        caught.value
    )
    assert caught.value.path.endswith("bad.conf")


def test_a_missing_include_is_refused_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("\ninclude 'none.conf'\n")
    with pytest.raises(ConfigError, match=r"main\.conf:2:.*no such file or directory"):
        parse_file(str(tmp_path / "main.conf"), {})


def test_an_include_that_no_file_can_be_named_is_refused_where_it_stands() -> None:
    assert str(fault("\ninclude 'a\0b'\n")).endswith("open a\0b: invalid argument")


def test_files_that_include_themselves_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("include 'b.conf'\n")
    (tmp_path / "b.conf").write_text("include 'a.conf'\n")
    with pytest.raises(ConfigError, match=r"include cycle at 'a\.conf'"):
        parse_file(str(tmp_path / "a.conf"), {})


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^open /none\.conf: no such file or directory$"):
        parse_file("/none.conf", {})


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("[x]", "start of an array"),
        ("{x}", "start of a map"),
        ("(x", "start of a block"),
        ("1", "start of a number"),
        ("\\x", "escape sequence"),
        ("\n", "new line"),
    ],
)
def test_includes_name_a_file(value: str, found: str) -> None:
    assert f"Expected include value but found {found}" in str(fault(f"include {value}"))


def test_include_may_be_an_ordinary_key() -> None:
    assert read("include: x") == {"include": "x"}


# -- faults --


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\n= 2", 2, "Unexpected key separator '='"),
        ("a {\n : 2 }", 2, "Unexpected key separator ':'."),
        (
            "a: 1 b: 2",
            1,
            "Expected a top-level value to end with a new line, comment or EOF, but got 'b' instead.",
        ),
        ("a =\n1", 2, "Expected value but found new line"),
        (
            "a { b: 1 c: 2 }",
            1,
            'Expected a map value terminator "," or a map terminator "}", but got \'c\' instead.',
        ),
        ("a {\n b: 1\n", 3, "Unexpected EOF processing map."),
        ("a {\n b", 2, "Unexpected EOF processing map key."),
        ("a { ] }", 1, "Unexpected array end ']' processing map."),
        ("a { b: , }", 1, 'Unexpected map value terminator ",".'),
        ("a: [ b, , c ]", 1, "Unexpected array value terminator ','."),
        (
            "a: [ b c ]",
            1,
            'Expected an array value terminator "," or an array terminator "]", but got \'c\' instead.',
        ),
        ('"a', 1, "Unexpected EOF."),
        ("a { 'b", 1, "Unexpected EOF processing quoted map key."),
        ('a { "b', 1, "Unexpected EOF processing double quoted map key."),
        ("a { b: }", 1, "Expected value but found the end of the map"),
        (
            "{ a: 1 b: 2 }",
            1,
            "Expected a block-level value to end with a new line, comment or EOF, but got 'b' instead.",
        ),
        ("{ { a: b } c }", 1, "Expected a block-level to end with a '}', but got 'c' instead."),
        ("a { /b: 1 }", 1, "Unexpected '/' processing map."),
        ("/ a", 1, "Unexpected EOF."),
    ],
)
def test_faults_tell_line_and_reason(text: str, line: int, reason: str) -> None:
    error = fault(text)
    assert error.line == line
    assert error.message == f"Parse error on line {line}: '{reason}'"


def test_a_key_alone_is_no_configuration() -> None:
    assert "config is invalid (a.conf:2:" in str(fault("port\n"))


def test_a_brace_too_many_at_the_end_is_overlooked() -> None:
    assert read("a { b: 1 }\n}\n") == {"a": {"b": 1}}


def test_nesting_is_bounded() -> None:
    assert read("a: " + "[" * NESTING_MAX + "]" * NESTING_MAX)
    assert "Nested deeper" in str(fault("a: " + "[" * (NESTING_MAX + 1)))
