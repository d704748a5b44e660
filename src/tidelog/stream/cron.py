"""When something that repeats is due: six fields of cron (second minute hour day month weekday) in a time zone.

A field is `*`, `?`, a number, a range `2-5`, with a step `*/10`, `2-20/3`, or `5/15` (from 5 on), or several of these
with commas; months and weekdays may be named by three letters. Where both days are restricted, either will do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

YEARS_AHEAD = 5
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class Field:
    values: frozenset[int]
    free: bool  # any value will do


@dataclass(frozen=True, slots=True)
class Cron:
    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    def next(self, after_s: int, zone: tzinfo) -> int | None:
        """The first second behind `after_s` that matches, in seconds since the epoch; None: not within years."""
        start = datetime.fromtimestamp(after_s + 1, zone)
        date = start.date()
        while date.year <= start.year + YEARS_AHEAD:
            if date.month not in self.month.values:
                date = (date.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self.matches_day(date.day, date.isoweekday() % 7):
                found = self._within(date.year, date.month, date.day, after_s, zone)
                if found is not None:
                    return found
            date += timedelta(days=1)
        return None

    def matches_day(self, day: int, weekday: int) -> bool:
        by_day, by_weekday = day in self.day.values, weekday in self.weekday.values
        if self.day.free or self.weekday.free:
            return by_day and by_weekday
        return by_day or by_weekday

    def _within(self, year: int, month: int, day: int, after_s: int, zone: tzinfo) -> int | None:
        """The first match of a day behind `after_s`. Times that a clock leaves out do not come."""
        for hour in sorted(self.hour.values):
            # An hour that a clock repeats comes twice.
            for fold in (0, 1):
                found = self._in_hour(datetime(year, month, day, hour, tzinfo=zone, fold=fold), after_s)
                if found is not None:
                    return found
        return None

    def _in_hour(self, hour: datetime, after_s: int) -> int | None:
        if int(hour.replace(minute=59, second=59).timestamp()) <= after_s:
            return None
        for minute in sorted(self.minute.values):
            if int(hour.replace(minute=minute, second=59).timestamp()) <= after_s:
                continue
            for second in sorted(self.second.values):
                at_s = int(hour.replace(minute=minute, second=second).timestamp())
                if at_s > after_s and datetime.fromtimestamp(at_s, hour.tzinfo).hour == hour.hour:
                    return at_s
        return None


def parse_cron(text: str) -> Cron:
    """Raises ValueError."""
    fields = text.split()
    if len(fields) != 6:
        raise ValueError(f"six fields are expected, not {len(fields)}")
    return Cron(
        read_field(fields[0], 0, 59),
        read_field(fields[1], 0, 59),
        read_field(fields[2], 0, 23),
        read_field(fields[3], 1, 31),
        read_field(fields[4], 1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
        read_field(fields[5], 0, 6, {name: number for number, name in enumerate(WEEKDAYS)}),
    )


def read_field(text: str, least: int, most: int, names: Mapping[str, int] | None = None) -> Field:
    values: set[int] = set()
    free = False
    for part in filter(None, text.split(",")):
        span, slash, step_text = part.partition("/")
        low, dash, high = span.partition("-")
        if low in ("*", "?"):
            start, end = least, most
        else:
            start = number_of(low, names)
            end = number_of(high, names) if dash else most if slash else start
        step = number_of(step_text) if slash else 1
        if not least <= start <= end <= most or step == 0:
            raise ValueError(f"{part!r} does not lie within {least} and {most}")
        values.update(range(start, end + 1, step))
        free = free or (low in ("*", "?") and step == 1)
    return Field(frozenset(values), free)


def number_of(text: str, names: Mapping[str, int] | None = None) -> int:
    if names is not None and text.lower() in names:
        return names[text.lower()]
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is no number")
    return int(text)
