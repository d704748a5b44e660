"""Whatever a tree holds and however it is spelled, it is read back as it was."""

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import parse_text, plain
from tidelog.serve.scanner import BOOLEANS, INT64_MAX

# In front a slash would be taken for a comment, or in a list be refused.
BARE_STRING = re.compile(r"[A-Za-z_*>][A-Za-z0-9_.:/@?*>-]*")
# Keys end at blanks and separators; a key must not look like a quote, a comment or a bracket.
BARE_KEY = st.text(string.ascii_letters + string.digits + "_.>*-$", min_size=1, max_size=8).filter(
    lambda key: key.lower() != "include"
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
BARE_WORD = st.from_regex(BARE_STRING, fullmatch=True).filter(lambda word: word.lower() not in BOOLEANS)
SCALAR = st.one_of(
    st.integers(-INT64_MAX - 1, INT64_MAX),
    st.booleans(),
    st.floats(-1e15, 1e15, allow_nan=False).map(lambda value: round(value, 3)),
    TEXT,
    BARE_WORD,
)
KEY = st.one_of(BARE_KEY, TEXT.filter(lambda key: '"' not in key and key))
TREE = st.recursive(
    SCALAR,
    lambda child: st.lists(child, max_size=4) | st.dictionaries(KEY, child, max_size=4),
    max_leaves=12,
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, object], str]:
    """A tree, and a text that means it."""
    tree = draw(st.dictionaries(KEY, TREE, max_size=5))
    if tree and draw(st.booleans()):
        return tree, "{" + entries(draw, tree) + draw(GAP) + "}\n"
    return tree, draw(GAP) + entries(draw, tree) + "\n"


SEPARATOR = st.sampled_from([" ", ":", "=", " : ", " = ", "\t", ":  "])
GAP = st.sampled_from(["", " ", "\n", "\r\n", " # note {[\"'\n", " // note\n\n", "\t\n "])
ENTRY_END = st.sampled_from([",", ";", "\n", "\r\n", " ,", "  # end\n", "; // end\n"])
ITEM_END = st.sampled_from([",", "\n", " ,", " # end\n", ", // end\n"])


def entries(draw: st.DrawFn, tree: dict[str, object]) -> str:
    parts = []
    for key, value in tree.items():
        parts.append(draw(GAP) + key_text(draw, key) + draw(SEPARATOR) + value_text(draw, value))
        # A blank, so that a number, a word or a comment sign does not run into what follows.
        parts.append(" " + draw(ENTRY_END))
    return "".join(parts)


def key_text(draw: st.DrawFn, key: str) -> str:
    bare = all(char in string.ascii_letters + string.digits + "_.>*-$" for char in key)
    if bare and key.lower() != "include" and draw(st.booleans()):
        return key
    if "'" not in key and draw(st.booleans()):
        return f"'{key}'"
    return f'"{key}"'


def value_text(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, dict):
        return "{" + entries(draw, value) + draw(GAP) + "}"
    if isinstance(value, list):
        items = "".join(draw(GAP) + value_text(draw, item) + " " + draw(ITEM_END) for item in value)
        return "[" + items + draw(GAP) + "]"
    if isinstance(value, bool):
        word = draw(st.sampled_from([word for word, meaning in BOOLEANS.items() if meaning is value]))
        return draw(st.sampled_from([word, word.upper(), word.capitalize()]))
    if isinstance(value, int):
        return integer_text(draw, value)
    if isinstance(value, float):
        return f"{value:.3f}"
    assert isinstance(value, str)
    return string_text(draw, value)


def integer_text(draw: st.DrawFn, value: int) -> str:
    for unit, size in (("k", 1000), ("KiB", 1024), ("MB", 1024**2), ("g", 1000**3)):
        if value and value % size == 0 and draw(st.booleans()):
            return f"{value // size}{unit}"
    return str(value)


def string_text(draw: st.DrawFn, value: str) -> str:
    is_word = BARE_STRING.fullmatch(value) and value.lower() not in BOOLEANS
    if is_word and draw(st.booleans()):
        return value
    if "'" not in value and draw(st.booleans()):
        return f"'{value}'"
    return '"' + "".join(escaped(draw, char) for char in value) + '"'


def escaped(draw: st.DrawFn, char: str) -> str:
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    if char in ('"', "\\"):
        return named[char]
    way = draw(st.integers(0, 5))
    if way == 0:
        return "".join(f"\\x{byte:02x}" for byte in char.encode())
    return named.get(char, char) if way == 1 else char


@given(documents())
def test_any_spelling_of_a_tree_is_read_as_the_tree(document: tuple[dict[str, object], str]) -> None:
    tree, text = document
    assert plain(parse_text(text, {})) == tree


@given(st.text(st.sampled_from(list("ab1.-:= \n{}[](),;'\"\\#/$x")), max_size=30))
def test_any_text_is_a_tree_or_a_fault_with_a_place_in_it(text: str) -> None:
    fault = fault_of(text)
    if fault is not None:
        assert fault.path == "f"
        assert 1 <= fault.line <= text.count("\n") + 1
        assert fault.column >= 1


def fault_of(text: str) -> ConfigError | None:
    try:
        parse_text(text, {}, "f")
    except ConfigError as error:
        return error
    return None
