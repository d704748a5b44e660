"""Offsets as they stand in a checkpoint, readable by people: the next sequence of each stream.

    {"v": 1, "tasks": 2, "streams": {"ORDERS": {"seq": 1042, "created": "2026-11-19T08:00:00.000000001Z"}}}

`created` tells a stream from a later one of the same name, where sequences begin anew. `tasks` is into how many tasks
the range that ends here is cut: a batch that is repeated after a restart, maybe on another machine, is cut as before,
so that what a sink knows of its rows by number still holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.base.errors import TidelogError

VERSION = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """`seq` is the first that has not been read."""

    seq: int
    created: str


@dataclass(frozen=True, slots=True)
class Offset:
    streams: Mapping[str, Mark]
    tasks: int = 1

    def as_json(self) -> dict[str, Any]:
        streams = {name: {"seq": mark.seq, "created": mark.created} for name, mark in self.streams.items()}
        return {"v": VERSION, "tasks": self.tasks, "streams": streams}


def parse(document: Mapping[str, Any]) -> Offset:
    """Raises TidelogError for what this version does not understand."""
    try:
        if document["v"] != VERSION:
            raise TidelogError(
                f"the checkpoint has offsets of version {document['v']}; this Tidelog knows {VERSION}"
            )
        streams = {
            name: Mark(int(mark["seq"]), mark["created"]) for name, mark in document["streams"].items()
        }
        return Offset(streams, int(document["tasks"]))
    except (KeyError, TypeError, ValueError) as error:
        raise TidelogError(f"the checkpoint was not written by this source: {document!r}") from error
