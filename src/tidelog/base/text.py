"""Texts on the wire that must read as the peer writes them."""

_ESCAPES = {
    0x07: "\\a",
    0x08: "\\b",
    0x0C: "\\f",
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0x0B: "\\v",
    0x22: '\\"',
    0x5C: "\\\\",
}


def go_quote(data: bytes) -> str:
    """Quote bytes as Go's `%q` does, which clients parse subjects out of."""
    quoted = []
    for character in data.decode("utf-8", "surrogateescape"):
        point = ord(character)
        if point in _ESCAPES:
            quoted.append(_ESCAPES[point])
        elif 0xDC80 <= point <= 0xDCFF:
            quoted.append(f"\\x{point - 0xDC00:02x}")
        elif point < 0x20 or point == 0x7F:
            quoted.append(f"\\x{point:02x}")
        elif character.isprintable():
            quoted.append(character)
        else:
            quoted.append(f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}")
    return '"' + "".join(quoted) + '"'
