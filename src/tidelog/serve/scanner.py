"""The small words of the `.conf` grammar: white space, comments, strings, numbers; and where they stand.

`serve.conf` builds the grammar's structure on it and documents the whole. A `Scanner` holds one text and a
position in it; each method reads one thing from there and leaves the position behind it, or raises
ConfigError. The texts of the errors and the line they name are those of nats-server, which counts a newline
as passed once it was read.
"""

from bisect import bisect_left

from tidelog.base.errors import ConfigError

INT64_MAX = 2**63 - 1
INT64_DIGITS = 20  # with a sign

# The end of the text. A NUL byte within a file ends it just so.
EOF = "\0"
BLANK = "\t "
NEWLINE = "\n\r"
LATIN_SPACE = " \t\n\v\f\r\x85\xa0"
# What ends a bare string, and a bare number: in a list that wants a blank before the bracket, as in the peer.
STRING_END = NEWLINE + EOF + ";,]}" + BLANK
NUMBER_END = NEWLINE + EOF + ";,}" + BLANK
UNIT_START = "kKmMgGtTpPeE"
UNIT_REST = "bBiI"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
HEX_DIGITS = "0123456789abcdefABCDEF"
BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
UNITS = {"": 1}
for exponent, letter in enumerate("kmgtpe", 1):
    UNITS[letter] = 1000**exponent
    UNITS[letter + "b"] = UNITS[letter + "i"] = UNITS[letter + "ib"] = 1024**exponent
ZULU_SHAPE = "00-00T00:00:00Z"  # after "YYYY-"


class Zulu:
    """A date and time, as in 2026-11-18T12:00:00Z. No option takes one."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zulu) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


Scalar = str | int | float | bool | Zulu


class Scanner:
    """A text and the position that is to be read next."""

    def __init__(self, text: str, path: str) -> None:
        self.size = len(text)
        self.text = text + EOF
        self.pos = 0
        self.path = path
        self.newlines = [pos for pos, char in enumerate(text) if char == "\n"]

    # -- where we are --

    def line_at(self, pos: int) -> int:
        return bisect_left(self.newlines, pos) + 1

    def column_at(self, pos: int) -> int:
        line = bisect_left(self.newlines, pos)
        return pos - (self.newlines[line - 1] if line else -1)

    def fault(self, reason: str, *, passed: bool = False) -> ConfigError:
        """An error at the current character; `passed`: it has been read, and when it is a newline, counts."""
        line = self.line_at(min(self.pos + passed, self.size))
        text = f"Parse error on line {line}: '{reason}'"
        return ConfigError(
            text, self.path, line, 1 if line > self.line_at(self.pos) else self.column_at(self.pos)
        )

    def wrong(self, reason: str, start: int) -> ConfigError:
        """An error about a value that began at `start`."""
        return ConfigError(reason, self.path, self.line_at(start), self.column_at(start))

    def unexpected(self, expected: str) -> ConfigError:
        return self.fault(f"{expected}, but got '{self.shown()}' instead.", passed=True)

    def shown(self) -> str:
        """The current character, as messages show it."""
        char = self.text[self.pos]
        return "\\n" if char == "\n" else "" if char == EOF else char

    # -- white space and comments --

    def skip_space(self) -> None:
        while is_space(self.text[self.pos]):
            self.pos += 1

    def skip_blank(self) -> None:
        while self.text[self.pos] in BLANK:
            self.pos += 1

    def skip_digits(self) -> None:
        while self.text[self.pos].isdecimal():
            self.pos += 1

    def at_comment(self) -> bool:
        char = self.text[self.pos]
        return char == "#" or (char == "/" and self.text[self.pos + 1] == "/")

    def skip_comment(self) -> None:
        while self.text[self.pos] not in "\n\r\0":
            self.pos += 1

    def skip_blank_and_comment(self) -> None:
        self.skip_blank()
        while self.at_comment():
            self.skip_comment()
            self.skip_blank()

    # -- strings --

    def raw_string(self) -> str:
        start = self.pos + 1
        end = self.text.find("'", start)
        if end < 0:
            self.pos = self.size
            raise self.fault("Unexpected EOF.")
        self.pos = end + 1
        return self.text[start:end]

    def escaped_string(self) -> str:
        start = self.pos = self.pos + 1
        parts: list[str] = []
        while True:
            char = self.text[self.pos]
            if char == '"':
                parts.append(self.text[start : self.pos])
                self.pos += 1
                return joined(parts)
            if char == EOF:
                raise self.fault("Unexpected EOF.")
            if char == "\\":
                parts.append(self.text[start : self.pos])
                parts.append(self.escape())
                start = self.pos
            else:
                self.pos += 1

    def bare_string(self, start: int) -> tuple[str, bool]:
        """A string without quotes that began at `start`, and whether it may be a boolean or a variable."""
        parts: list[str] = []
        part = start
        while True:
            char = self.text[self.pos]
            if char == "\\":
                parts.append(self.text[part : self.pos])
                parts.append(self.escape())
                part = self.pos
            elif char in STRING_END or char == "'":
                parts.append(self.text[part : self.pos])
                self.pos += char == "'"
                return joined(parts), len(parts) == 1 and char != "'"
            else:
                self.pos += 1

    def block_string(self) -> str:
        """Text up to a `)` on a line of its own, everything in between as it stands."""
        start = self.pos + 1
        end = self.text.find("\n)", start)
        while end >= 0 and self.text[end + 2] not in "\n\0":
            end = self.text.find("\n)", end + 1)
        if end < 0:
            self.pos = self.size
            raise self.fault("Unexpected EOF processing block.")
        self.pos = end + 2
        # The peer keeps the closing parenthesis when the file ends right behind it.
        return self.text[start : end + 2 if self.pos == self.size else end + 1]

    def escape(self) -> str:
        """What a backslash and the characters behind it stand for."""
        self.pos += 1
        char = self.text[self.pos]
        if char == "x":
            return self.hex_escape()
        if char not in ESCAPES:
            allowed = 'Only the following escape characters are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.'
            raise self.fault(f"Invalid escape character '{self.shown()}'. {allowed}", passed=True)
        self.pos += 1
        return ESCAPES[char]

    def hex_escape(self) -> str:
        self.pos += 1
        digits = self.text[self.pos : self.pos + 2]
        if "\n" in digits or "\r" in digits:
            self.pos += digits[0] not in NEWLINE
            raise self.fault("Expected two hexadecimal digits after '\\x', but hit end of line", passed=True)
        if len(digits) != 2 or digits[0] not in HEX_DIGITS or digits[1] not in HEX_DIGITS:
            found = digits.rstrip(EOF)
            raise self.fault(f"Expected two hexadecimal digits after '\\x', but got '{found}'", passed=True)
        self.pos += 2
        code = int(digits, 16)
        # A byte, not a character: several may make up one character of UTF-8, or none (`joined`).
        return chr(code) if code < 128 else chr(0xDC00 + code)

    # -- numbers, and the strings that begin like numbers --

    def number(self) -> Scalar:
        start = self.pos
        negative = self.text[start] == "-"
        self.pos += negative
        if not self.text[self.pos].isdecimal():
            if self.text[self.pos] == ".":
                raise self.fault("Floats must start with a digit, not '.'.", passed=True)
            raise self.fault(f"Expected a digit but got '{self.shown()}'.", passed=True)
        self.skip_digits()
        char = self.text[self.pos]
        if char == "-" and not negative:
            return self.zulu(start)
        if char == ".":
            return self.fraction(start)
        if char in UNIT_START:
            self.pos += 1
            while self.text[self.pos] in UNIT_REST:
                self.pos += 1
            if self.text[self.pos] not in NUMBER_END:
                return self.bare_string(start)[0]
        elif not negative and char not in NUMBER_END:
            self.pos += 1
            return self.bare_string(start)[0]
        return self.integer(start)

    def integer(self, start: int) -> int:
        text = self.text[start : self.pos]
        digits = text.rstrip(UNIT_REST + UNIT_START)
        unit = UNITS.get(text[len(digits) :].lower())
        if unit is None or not digits.isascii():
            raise self.wrong(f"expected integer, but got '{text}'", start)
        # Digits are counted first: what cannot fit is not worth to be converted.
        number = int(digits) * unit if len(digits) <= INT64_DIGITS else INT64_MAX + 1
        if not -INT64_MAX - 1 <= number <= INT64_MAX:
            raise self.wrong(f"integer '{text}' is out of the range", start)
        return number

    def fraction(self, start: int) -> float | str:
        self.pos += 1
        if not self.text[self.pos].isdecimal():
            raise self.unexpected("Floats must have a digit after the '.'")
        self.skip_digits()
        if self.text[self.pos] == ".":  # an address, such as 127.0.0.1:4222
            while self.text[self.pos].isdecimal() or self.text[self.pos] in ".:-":
                self.pos += 1
            return self.text[start : self.pos]
        text = self.text[start : self.pos]
        if not text.isascii():
            raise self.wrong(f"expected float, but got '{text}'", start)
        number = float(text)
        if abs(number) == float("inf"):
            raise self.wrong(f"float '{text}' is out of the range", start)
        return number

    def zulu(self, start: int) -> Zulu:
        if self.pos - start != 4:
            raise self.fault("All ISO8601 dates must be in full Zulu form.", passed=True)
        self.pos += 1
        for wanted in ZULU_SHAPE:
            char = self.text[self.pos]
            if wanted == "0" and not char.isdecimal():
                reason = f"Expected digit in ISO8601 datetime, but found '{self.shown()}' instead."
                raise self.fault(reason, passed=True)
            if wanted not in ("0", char):
                reason = f"Expected '{wanted}' in ISO8601 datetime, but found '{self.shown()}' instead."
                raise self.fault(reason, passed=True)
            self.pos += 1
        text = self.text[start : self.pos]
        if not is_moment(text):
            raise self.wrong(f"expected Zulu formatted DateTime, but got '{text}'", start)
        return Zulu(text)


def is_space(char: str) -> bool:
    return char in LATIN_SPACE if char < "\u0100" else char.isspace()


def joined(parts: list[str]) -> str:
    """The parts of an escaped string; bytes written as `\\xHH` are read as UTF-8 with their neighbours."""
    text = "".join(parts)
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def is_moment(text: str) -> bool:
    """Whether YYYY-MM-DDTHH:MM:SSZ is on the calendar."""
    if not text.isascii():
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return 1 <= day <= days and int(text[11:13]) < 24 and int(text[14:16]) < 60 and int(text[17:19]) < 60
