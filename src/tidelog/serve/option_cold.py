"""The `cold` block of `tidelog`: an object store for the history of streams.

    tidelog { cold: enabled }                      in a folder below the store directory
    tidelog { cold { url: "s3://bucket/prefix", local_bytes: 10GB, local_age: 36h, keep: 90d
                     streams: asked, bandwidth: 20MB, parallel: 2, cache: 256MB } }

Keys of the store stand in the environment. What a stream may say itself is in `tidelog.stream.tiering`.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tidelog.serve.conf import Node
from tidelog.serve.field import Findings, Table, boolean, fault, integer, quoted, read_section, table_of, text
from tidelog.serve.option_account import enabled_word

SCHEMES = ("file", "s3", "gs", "az", "memory")
PARALLEL_MOST = 16
FOREVER = -1


def read_cold(node: Node, findings: Findings) -> dict[str, Any]:
    """The block as fields of `ColdSettings`: a switch, a word, or a map, which switches on."""
    if isinstance(node.value, bool):
        return {"enabled": node.value}
    if isinstance(node.value, str):
        return {"enabled": enabled_word(node)}
    rows: Table = {
        "enabled": ("enabled", boolean),
        "url": ("url", store_url),
        "streams": ("streams", all_or_asked),
        "local_bytes": ("local_size", said("local_bytes", size)),
        "local_age": ("local_age_ns", said("local_age", span)),
        "keep": ("keep_ns", said("keep", keep)),
        "bandwidth": ("bytes_per_second", said("bandwidth", size)),
        "parallel": ("parallel", parallel),
        "cache": ("cache_size", said("cache", size)),
    }
    return {
        "enabled": True,
        **read_section(table_of(node, "Expected cold to be a map, bool or string"), rows, findings),
    }


def store_url(node: Node) -> str:
    url = text(node)
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise fault(
            node, f"{quoted(url)} is no object store: it begins with {', '.join(f'{s}://' for s in SCHEMES)}"
        )
    if parts.password:
        raise fault(node, "keys of an object store stand in the environment, not in its URL")
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise fault(node, f"{quoted(url)} names no folder: it reads file:///path/to/folder")
    return url


def all_or_asked(node: Node) -> bool:
    word = text(node)
    if word not in ("all", "asked"):
        raise fault(node, f"streams: all, or asked (those that say so themselves), not {quoted(word)}")
    return word == "all"


def said(name: str, read: Callable[[str], int]) -> Callable[[Node], int]:
    """A reader of what may be written as a number, too."""

    def reader(node: Node) -> int:
        if not isinstance(node.value, str | int) or isinstance(node.value, bool):
            raise fault(node, f"{name} must be a number or a string")
        try:
            return read(str(node.value))
        except ValueError as error:
            raise fault(node, f"{name}: {error}") from None

    return reader


# As in the metadata of streams; what reads that is imported only by configurations that say something.


def size(word: str) -> int:
    from tidelog.stream.tiering import read_size

    return read_size(word)


def span(word: str) -> int:
    from tidelog.stream.tiering import read_span

    return read_span(word)


def keep(word: str) -> int:
    from tidelog.stream.tiering import read_keep

    found = read_keep(word)
    return FOREVER if found is None else found


def parallel(node: Node) -> int:
    count = integer(node)
    if not 1 <= count <= PARALLEL_MOST:
        raise fault(node, f"parallel: 1 to {PARALLEL_MOST}, not {count}")
    return int(count)
