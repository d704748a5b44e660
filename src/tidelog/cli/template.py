"""What may stand in double braces in a body, to make every message another one.

    {{Count}} {{TimeStamp}} {{Time}} {{Unix}} {{UnixNano}} {{ID}} {{UUID}} {{Random 10 100}} {{Request}}
    {{.Request}}

They are the words of the `nats` command. Anything else in braces stays as it is.
"""

import re
import secrets
import string
import time
import uuid
from datetime import datetime

_WORD = re.compile(r"\{\{\s*\.?(\w+)((?:\s+\d+)*)\s*\}\}")
_LETTERS = string.ascii_letters + string.digits
_RANDOM_SIZE_MAX = 1024 * 1024


def fill(text: str, count: int, request: str = "") -> str:
    """`text` for the message with this number."""
    if "{{" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        found = _value(match[1], [int(number) for number in match[2].split()], count, request)
        return match[0] if found is None else found

    return _WORD.sub(value, text)


def _value(word: str, numbers: list[int], count: int, request: str) -> str | None:
    match word, numbers:
        case "Random", [low, high] if low <= high <= _RANDOM_SIZE_MAX:
            size = low + secrets.randbelow(high - low + 1)
            return "".join(secrets.choice(_LETTERS) for _ in range(size))
        case (("Count" | "Cnt"), []):
            return str(count)
        case "TimeStamp", []:
            return datetime.now().astimezone().isoformat(timespec="seconds")
        case "Time", []:
            return datetime.now().strftime("%H:%M:%S")
        case "Unix", []:
            return str(int(time.time()))
        case "UnixNano", []:
            return str(time.time_ns())
        case "ID", []:
            return secrets.token_hex(11)
        case "UUID", []:
            return str(uuid.uuid4())
        case "Request", []:
            return request
    return None
