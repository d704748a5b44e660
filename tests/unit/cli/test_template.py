import re

import pytest

from tidelog.cli import template


def test_text_without_braces_stays_as_it_is() -> None:
    assert template.fill("a { b } c", 1) == "a { b } c"


def test_count_and_request_are_filled_in() -> None:
    assert template.fill("{{Count}} of {{ Count }}: {{.Request}}/{{Request}}", 7, "r") == "7 of 7: r/r"


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("{{Unix}}", r"\d{10}"),
        ("{{UnixNano}}", r"\d{19}"),
        ("{{Time}}", r"\d\d:\d\d:\d\d"),
        ("{{TimeStamp}}", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"),
        ("{{ID}}", r"[0-9a-f]{22}"),
        ("{{UUID}}", r"[0-9a-f-]{36}"),
        ("{{Random 3 3}}", r"\w{3}"),
        ("{{ Random 0 5 }}", r"\w{0,5}"),
    ],
)
def test_words_have_the_form_that_is_promised(word: str, pattern: str) -> None:
    assert re.fullmatch(pattern, template.fill(word, 1))


@pytest.mark.parametrize(
    "text", ["{{Nothing}}", "{{Random}}", "{{Random 5 1}}", "{{Count 1}}", "{{", "{{0}}"]
)
def test_unknown_words_stay(text: str) -> None:
    assert template.fill(text, 1) == text


def test_a_request_is_not_a_template_itself() -> None:
    assert template.fill("{{Request}}", 1, "{{Count}}") == "{{Count}}"
