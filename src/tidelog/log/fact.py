"""What a reader must be told of messages that it does not get, each word with one meaning.

*Trimmed*: retention passed them. *Deleted*: somebody deleted them. *Lost*: they should be there and are not.
"""

from typing import NamedTuple

from tidelog.base.errors import StorageError


class Trimmed(NamedTuple):
    """`start_seq` to `end_seq` (not included) went to retention before they were read."""

    start_seq: int
    end_seq: int


class Lost(NamedTuple):
    """`start_seq` to `end_seq` (not included) fell to damage."""

    start_seq: int
    end_seq: int


class Awaited(StorageError):
    """A message that is there, and elsewhere: it is being brought, and can be read when that is done."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"message {seq} is in the cold tier and is being brought back; ask again")
        self.seq = seq


class TrimmedError(StorageError):
    """A reader that must see everything is behind what retention has left."""

    def __init__(self, fact: Trimmed) -> None:
        super().__init__(
            f"messages {fact.start_seq} to {fact.end_seq - 1} were trimmed by retention before they were read; "
            f"go on from {fact.end_seq} on purpose, or keep more"
        )
        self.fact = fact
