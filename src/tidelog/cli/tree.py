"""A group of commands that knows the other names of its verbs, as the `nats` command has them."""

from collections.abc import Mapping
from typing import Any

import click


class Nouns(click.Group):
    def __init__(self, *arguments: Any, aliases: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.aliases = dict(aliases or {})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(name, name))
