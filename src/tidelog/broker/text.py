"""What a broker sees of JSON text without decoding it into anything."""

import msgspec

from tidelog.base.text import go_quote

__all__ = ["go_quote", "is_json_object"]


def is_json_object(document: bytes) -> bool:
    """Whether this is a JSON object, whatever is in it."""
    try:
        return isinstance(msgspec.json.decode(document), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
