"""Durations as Go writes them: `5s`, `300ms`, `1m30s`, `1.5h`; a bare number is seconds."""

import re

import click

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
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
