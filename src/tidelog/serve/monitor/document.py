"""What all documents share: a JSON form, and Go's spelling of times and durations.

A field with a default is left out when it holds that default; a field without one is always there. Fields
stand in the order in which they are declared.
"""

from functools import lru_cache

import msgspec

SECOND_NS = 1_000_000_000
MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
YEAR_DAYS = 365


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all documents and their parts."""


def encode(document: object, indent: int = 2) -> bytes:
    encoded = msgspec.json.encode(document)
    return msgspec.json.format(encoded, indent=indent) if indent else encoded


def text(value: bytes) -> str:
    """A subject or a name; whatever is no UTF-8 in it becomes U+FFFD, as in Go."""
    return value.decode("utf-8", "replace")


def number(value: float) -> int | float:
    """Go writes 2.0 as 2."""
    return int(value) if value == int(value) else value


def duration(ns: int) -> str:
    """`480µs`, `1.5ms`, `2m0.25s`: a Go duration."""
    if ns < 1_000:
        return f"{ns}ns" if ns else "0s"
    if ns < 1_000_000:
        return f"{fraction(ns, 1_000)}µs"
    if ns < SECOND_NS:
        return f"{fraction(ns, 1_000_000)}ms"
    minutes, rest_ns = divmod(ns, MINUTE_S * SECOND_NS)
    hours, minutes = divmod(minutes, 60)
    seconds = fraction(rest_ns, SECOND_NS)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def fraction(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")


def age(ns: int) -> str:
    """`1y2d3h4m5s`: whole seconds, leading units that are zero left out. Clocks that went back count as
    zero."""
    return age_of(max(0, ns) // SECOND_NS)


@lru_cache(4096)
def age_of(seconds: int) -> str:
    days, rest = divmod(seconds, DAY_S)
    years, days = divmod(days, YEAR_DAYS)
    hours, rest = divmod(rest, HOUR_S)
    minutes, seconds = divmod(rest, MINUTE_S)
    parts = [(years, "y"), (days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    return "".join(f"{count}{unit}" for count, unit in parts)
