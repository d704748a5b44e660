"""Reads what was asked for, however little of it the system gives at a time.

A system may give fewer bytes than it was asked for though there are more: a signal came, or the rest is not in its
memory, or somewhere on a network. Every disk reads through here, so that who uses one never has to think of it: fewer
bytes than were asked for mean the end of the file, and nothing else.
"""

from collections.abc import Callable


def read_whole(read_part: Callable[[int, int], bytes], pos: int, size: int) -> bytes:
    """`size` bytes from `pos`, or as many as there are. `read_part` gives at least one, but behind the end."""
    parts = []
    while size > 0 and (part := read_part(pos, size)):
        parts.append(part)
        pos += len(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
