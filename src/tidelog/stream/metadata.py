"""The peer's own entries in the metadata of streams and consumers: which level of the API they need and were made by.

What an asset needs is kept with it; version and level of the server are only added to what is sent.
"""

from tidelog import API_LEVEL, PROTOCOL_VERSION
from tidelog.wire.header import decode

LEVEL_HEADER = "Nats-Required-Api-Level"

REQUIRED_LEVEL = "_nats.req.level"
SERVER_VERSION_KEY = "_nats.ver"
SERVER_LEVEL = "_nats.level"


def stored(metadata: dict[str, str], required_level: int) -> dict[str, str]:
    """As it is kept."""
    return without_server(metadata) | {REQUIRED_LEVEL: str(required_level)}


def without_server(metadata: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key not in (SERVER_VERSION_KEY, SERVER_LEVEL)}


def shown(metadata: dict[str, str]) -> dict[str, str]:
    """As it is sent: keys in order, as Go writes them."""
    full = metadata | {SERVER_VERSION_KEY: PROTOCOL_VERSION, SERVER_LEVEL: str(API_LEVEL)}
    return dict(sorted(full.items()))


def like_before(metadata: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """With the required level of an earlier configuration, so that the two can be compared."""
    kept = {key: value for key, value in without_server(metadata).items() if key != REQUIRED_LEVEL}
    return kept | ({REQUIRED_LEVEL: before[REQUIRED_LEVEL]} if REQUIRED_LEVEL in before else {})


def asks_too_much(header: bytes) -> bool:
    """Whether a request with these headers needs a level of the API that is not built."""
    try:
        wanted = decode(header).headers.get(LEVEL_HEADER) if header else None
        return wanted is not None and bool(wanted[0]) and int(wanted[0]) > API_LEVEL
    except ValueError:
        return True
