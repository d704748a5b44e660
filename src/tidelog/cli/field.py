"""Configurations by flags: a table of flags, each with its field of the API, makes the options of `add` and `edit`.

A flag that is not given changes nothing: what a new stream or consumer is then is the server's business.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from tidelog.cli.jetstream import PAIR

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Field:
    """`key` is the field, with a dot inside for one within another. `when`: "add" or "edit" only."""

    flags: str
    key: str
    words: str
    type: Any = str
    several: bool = False
    when: str = ""
    # What a word on the command line is called in the API.
    names: Mapping[str, str] | None = None

    @property
    def parameter(self) -> str:
        return "field_" + self.key.replace(".", "__")

    def option(self) -> Callable[[Function], Function]:
        if self.type is bool:
            name = self.flags.removeprefix("--")
            return click.option(f"--{name}/--no-{name}", self.parameter, default=None, help=self.words)
        kind = click.Choice(list(self.names)) if self.names else self.type
        return click.option(
            *self.flags.split(), self.parameter, type=kind, multiple=self.several, help=self.words
        )

    def value(self, given: Any) -> Any:
        if self.names:
            return self.names[given]
        if self.type is PAIR:
            return dict(given)
        if self.several:
            # `--subjects a,b --subjects c` is three of them.
            return [part.strip() for text in given for part in text.split(",") if part.strip()]
        return given


def options(fields: Iterable[Field], when: str) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for field in reversed([each for each in fields if each.when in ("", when)]):
            function = field.option()(function)
        return function

    return decorate


def given(fields: Iterable[Field], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that flags were given for."""
    found: dict[str, Any] = {}
    for field in fields:
        value = flags.get(field.parameter)
        if value is None or value == ():
            continue
        place = found
        *outer, name = field.key.split(".")
        for key in outer:
            place = place.setdefault(key, {})
        place[name] = field.value(value)
    return found


def merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with `changes`; documents within it are merged, too."""
    result = dict(config)
    for key, value in changes.items():
        before = result.get(key)
        result[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Field, value before, value after."""
    keys = sorted(set(before) | set(after))
    return [(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]
