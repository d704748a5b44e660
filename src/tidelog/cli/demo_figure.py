"""What a demo shows, and how it ends when it sees something else than it must."""

from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: str


def expect(true: bool, what: str) -> None:
    if not true:
        raise click.ClickException(f"the demo expected {what} and got something else")
