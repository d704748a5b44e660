"""Says what is wrong with a document that is no JSON, and where, in the words of Go's decoder.

Only for documents that a decoder has refused: it walks through one byte by byte until the first that cannot be.
"""

import re

from tidelog.base.text import go_quote

_BLANKS = b" \t\r\n"
_ESCAPES = b'"\\/bfnrt'
_HEX = b"0123456789abcdefABCDEF"
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_DIGITS = re.compile(rb"[0-9]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
CUT_SHORT = "unexpected EOF"

OBJECT, ARRAY = b"}", b"]"


class _Fault(Exception):
    pass


def syntax_fault(document: bytes) -> str:
    """What is wrong with the first of the JSON values in `document`; empty if nothing is."""
    try:
        _Scan(document).values()
    except _Fault as fault:
        return str(fault)
    return ""


class _Scan:
    def __init__(self, document: bytes) -> None:
        self.document = document
        self.pos = 0

    def values(self) -> None:
        while self.skip_blanks():
            self.value()

    def skip_blanks(self) -> bytes:
        """The next byte that is not blank; none at the end."""
        document = self.document
        while document[self.pos : self.pos + 1] and document[self.pos] in _BLANKS:
            self.pos += 1
        return document[self.pos : self.pos + 1]

    def next(self) -> bytes:
        found = self.skip_blanks()
        if not found:
            raise _Fault(CUT_SHORT)
        return found

    def unexpected(self, where: str) -> _Fault:
        """The byte here cannot be."""
        rest = self.document[self.pos : self.pos + 4].decode("utf-8", "replace")
        if not rest:
            return _Fault(CUT_SHORT)
        shown = go_quote(rest[0].encode())[1:-1]
        shown = {"'": "\\'", '\\"': '"'}.get(shown, shown)
        return _Fault(f"invalid character '{shown}' {where} at offset {self.pos + len(rest[0].encode())}")

    def value(self) -> None:
        """One value; what it nests is kept in a list, not on the stack of calls."""
        open_ends: list[bytes] = []
        while True:
            byte = self.next()
            if byte == b"{":
                self.pos += 1
                if self.next() != OBJECT:
                    self.key()
                    open_ends.append(OBJECT)
                    continue
                self.pos += 1
            elif byte == b"[":
                self.pos += 1
                if self.next() != ARRAY:
                    open_ends.append(ARRAY)
                    continue
                self.pos += 1
            else:
                self.scalar(byte)
            if not self.close(open_ends):
                return

    def close(self, open_ends: list[bytes]) -> bool:
        """Behind a value: whether another one follows."""
        while open_ends:
            byte = self.next()
            if byte == b",":
                self.pos += 1
                if open_ends[-1] == OBJECT:
                    self.key()
                return True
            if byte != open_ends[-1]:
                after = "array element" if open_ends[-1] == ARRAY else "object key:value pair"
                raise self.unexpected(f"after {after}")
            self.pos += 1
            open_ends.pop()
        return False

    def key(self) -> None:
        if self.next() != b'"':
            raise self.unexpected("looking for beginning of object key string")
        self.string()
        if self.next() != b":":
            raise self.unexpected("after object key")
        self.pos += 1

    def scalar(self, byte: bytes) -> None:
        if byte == b'"':
            self.string()
        elif byte in _LITERALS:
            self.literal(_LITERALS[byte])
        elif byte == b"-" or byte.isdigit():
            self.number()
        else:
            raise self.unexpected("looking for beginning of value")

    def literal(self, word: bytes) -> None:
        for expected in word:
            if self.document[self.pos : self.pos + 1] != bytes([expected]):
                raise self.unexpected(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self.pos += 1

    def number(self) -> None:
        if self.document[self.pos : self.pos + 1] == b"-":
            self.pos += 1
        if self.document[self.pos : self.pos + 1] == b"0":
            self.pos += 1
        else:
            self.digits()
        if self.document[self.pos : self.pos + 1] == b".":
            self.pos += 1
            self.digits()
        if self.document[self.pos : self.pos + 1] in (b"e", b"E"):
            self.pos += 1
            if self.document[self.pos : self.pos + 1] in (b"+", b"-"):
                self.pos += 1
            self.digits()

    def digits(self) -> None:
        found = _DIGITS.match(self.document, self.pos)
        assert found is not None
        if not found[0]:
            raise self.unexpected("in numeric literal")
        self.pos = found.end()

    def string(self) -> None:
        self.pos += 1
        while True:
            plain = _PLAIN.match(self.document, self.pos)
            assert plain is not None
            self.pos = plain.end()
            byte = self.document[self.pos : self.pos + 1]
            if byte == b'"':
                self.pos += 1
                return
            if byte != b"\\":
                raise self.unexpected("in string")
            self.escape()

    def escape(self) -> None:
        shown = self.document[self.pos : self.pos + 2]
        if shown == b"\\u":
            shown = self.document[self.pos : self.pos + 6]
            good, size = all(byte in _HEX for byte in shown[2:]), 6
        else:
            good, size = all(byte in _ESCAPES for byte in shown[1:]), 2
        if not good:
            text = shown.decode("utf-8", "replace")
            raise _Fault(f"invalid escape sequence `{text}` in string at offset {self.pos + len(shown)}")
        if len(shown) < size:
            raise _Fault(CUT_SHORT)
        self.pos += size
