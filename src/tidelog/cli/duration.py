"""Durations as Go writes them: `5s`, `300ms`, `1m30s`, `1.5h`, and `7d`, `2w`, `1M`, `1y`; a bare number is seconds.

A month has 30 days and a year 365, as in the `nats` command.
"""

import re

import click

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_S |= {"d": 86_400.0, "w": 7 * 86_400.0, "M": 30 * 86_400.0, "y": 365 * 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w|M|y)")
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")


def parse(text: str) -> float:
    """Seconds. Raises ValueError."""
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 300ms, 5s or 1m30s")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def show(seconds: float) -> str:
    """For people: three digits and the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g}{unit}"
    return f"{seconds * 1e9:.0f}ns"


def show_long(seconds: float) -> str:
    """For people, where it may be days: `3d4h`, `2m5s`, `1.5s`."""
    if seconds < 60:
        return show(seconds) if seconds else "0s"
    parts, rest = [], int(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()
