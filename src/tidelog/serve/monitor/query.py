"""Options of a monitoring request, read as Go reads them, with its words for what cannot be read."""

from tidelog.base.errors import TidelogError

Query = dict[str, str]

TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
INT64_LIMIT = 2**63
UINT64_LIMIT = 2**64
# Far more digits than a 64-bit number has; Python refuses to read numbers of thousands.
DIGITS_MAX = 100


class BadQuery(TidelogError):
    """The answer is status 400 with this text."""


def read_bool(query: Query, name: str) -> bool:
    """Absent and empty mean false."""
    value = query.get(name, "")
    if value in TRUE:
        return True
    if not value or value in FALSE:
        return False
    failed = f"Error decoding boolean for '{name}': strconv.ParseBool: parsing {quote(value)}"
    raise BadQuery(f"{failed}: invalid syntax")


def read_int(query: Query, name: str) -> int:
    """Absent and empty mean 0."""
    value = query.get(name, "")
    if not value:
        return 0
    failed = f"Error decoding int for '{name}': strconv.Atoi: parsing {quote(value)}"
    digits = value[1:] if value[0] in "+-" else value
    number = read_digits(digits, failed)
    if number >= INT64_LIMIT + (value[0] == "-"):
        raise BadQuery(f"{failed}: value out of range")
    return -number if value[0] == "-" else number


def read_unsigned(query: Query, name: str) -> int:
    """Absent and empty mean 0."""
    value = query.get(name, "")
    if not value:
        return 0
    failed = f"Error decoding uint64 for '{name}': strconv.ParseUint: parsing {quote(value)}"
    number = read_digits(value, failed)
    if number >= UINT64_LIMIT:
        raise BadQuery(f"{failed}: value out of range")
    return number


def read_digits(digits: str, failed: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise BadQuery(f"{failed}: invalid syntax")
    if len(digits) > DIGITS_MAX:
        raise BadQuery(f"{failed}: value out of range")
    return int(digits)


def read_subscriptions(query: Query) -> tuple[bool, bool]:
    """`subs=detail` or a boolean: (list wanted, details wanted)."""
    if query.get("subs", "").lower() == "detail":
        return False, True
    return read_bool(query, "subs"), False


def quote(value: str) -> str:
    """In double quotes, everything unprintable escaped."""
    escaped = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in value.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


def page(offset: int, limit: int, count: int) -> slice:
    """The part of `count` things that is asked for."""
    start = min(max(offset, 0), count)
    return slice(start, min(start + limit, count))
