"""Points in time as RFC 3339 text, the way Go reads and writes them.

A time on the wire keeps its zone and up to nine digits of the second. In memory it is nanoseconds since the epoch in
UTC, where 0 stands for no time at all: Go writes that as the first of January of the year 1.
"""

import re
import time
from calendar import timegm
from functools import lru_cache

SECOND_NS = 1_000_000_000
NO_TIME = "0001-01-01T00:00:00Z"

_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_LAYOUT = "2006-01-02T15:04:05Z07:00"
# Pieces of the layout, for the words about a text that does not follow it.
_PIECES = (
    ("2006", re.compile("[0-9]{4}")),
    ("-", re.compile("-")),
    ("01", re.compile("[0-9]{2}")),
    ("-", re.compile("-")),
    ("02", re.compile("[0-9]{2}")),
    ("T", re.compile("T")),
    ("15", re.compile("[0-9]{2}")),
    (":", re.compile(":")),
    ("04", re.compile("[0-9]{2}")),
    (":", re.compile(":")),
    ("05", re.compile(r"[0-9]{2}(?:\.[0-9]+)?")),
    ("Z07:00", re.compile("Z|[+-][0-9]{2}:[0-9]{2}")),
)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def timestamp(ns: int) -> str:
    """RFC 3339 in UTC, with as many digits of the second as are needed."""
    second, rest_ns = divmod(ns, SECOND_NS)
    return f"{_second_stamp(second)}.{rest_ns:09d}".rstrip("0").rstrip(".") + "Z"


def timestamp_or_none(ns: int) -> str:
    """The same, where 0 means that there is no time."""
    return timestamp(ns) if ns else NO_TIME


# Connections come and speak in bursts, so the seconds of a list repeat.
@lru_cache(4096)
def _second_stamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def read_instant(text: str) -> str:
    """The same time in its shortest spelling, zone kept. ValueError with Go's words if it is none."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(_fault(text))
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12:
        wrong = "month"
    elif not 1 <= day <= _MONTH_DAYS[month - 1] - (month == 2 and not leap):
        wrong = "day"
    elif hour > 23:
        wrong = "hour"
    elif minute > 59:
        wrong = "minute"
    elif second > 59:
        wrong = "second"
    else:
        fraction = (found[7] or "")[:9].rstrip("0")
        zone = "Z" if found[8] in ("+00:00", "-00:00") else found[8]
        return text[:19] + (f".{fraction}" if fraction else "") + zone
    raise ValueError(f'parsing time "{text}": {wrong} out of range')


def instant_ns(text: str) -> int:
    """Nanoseconds since the epoch, which may be negative, of what `read_instant` returned; 0 for no time."""
    found = _INSTANT.fullmatch(text)
    assert found is not None
    if text == NO_TIME:
        return 0
    seconds = timegm((*(int(part) for part in found.groups()[:6]), 0, 0, 0))
    if found[8] != "Z":
        offset_s = int(found[8][1:3]) * 3600 + int(found[8][4:6]) * 60
        seconds -= offset_s if found[8][0] == "+" else -offset_s
    return seconds * SECOND_NS + int((found[7] or "0")[:9].ljust(9, "0"))


def _fault(text: str) -> str:
    rest = text
    for piece, pattern in _PIECES:
        found = pattern.match(rest)
        if found is None:
            return f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{rest}" as "{piece}"'
        rest = rest[found.end() :]
    return f'parsing time "{text}": extra text: "{rest}"'
