"""Durations as Go writes them: `1h30m`, `2.5s`, `100ms`. Faults are told in Go's words.

Exact in nanoseconds, up to Go's range of about 292 years.
"""

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # MICRO SIGN
    "μs": 1_000,  # GREEK SMALL LETTER MU
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
DURATION_MAX_NS = 2**63 - 1
DIGITS = "0123456789"


def parse_duration_ns(text: str) -> int:
    """Nanoseconds. ValueError: `text` is no duration; its message is Go's."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest:
        raise invalid(text)
    total = 0
    while rest:
        whole = leading_digits(rest)
        rest = rest[len(whole) :]
        fraction = ""
        if rest[:1] == ".":
            fraction = leading_digits(rest[1:])
            rest = rest[1 + len(fraction) :]
        if not whole and not fraction:
            raise invalid(text)
        unit = rest[: next((i for i, char in enumerate(rest) if char in DIGITS or char == "."), len(rest))]
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in UNITS_NS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        rest = rest[len(unit) :]
        total += int(whole or "0") * UNITS_NS[unit]
        total += int(fraction or "0") * UNITS_NS[unit] // 10 ** len(fraction)
        if total > DURATION_MAX_NS:
            raise invalid(text)
    return -total if text[0] == "-" else total


def format_duration(ns: int) -> str:
    """As Go prints it: `1m30s`, `1.5s`, `250ms`, `0s`."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < UNITS_NS["s"]:
        if ns == 0:
            return "0s"
        unit = "ms" if ns >= UNITS_NS["ms"] else "µs" if ns >= UNITS_NS["us"] else "ns"
        return sign + with_fraction(ns, UNITS_NS[unit]) + unit
    minutes, rest = divmod(ns, UNITS_NS["m"])
    hours, minutes = divmod(minutes, 60)
    text = with_fraction(rest, UNITS_NS["s"]) + "s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return sign + (f"{hours}h{text}" if hours else text)


def with_fraction(ns: int, unit_ns: int) -> str:
    whole, rest = divmod(ns, unit_ns)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit_ns)) - 1}d}".rstrip("0")


def leading_digits(text: str) -> str:
    return text[: len(text) - len(text.lstrip(DIGITS))]


def invalid(text: str) -> ValueError:
    return ValueError(f'time: invalid duration "{text}"')
