"""What came from a server, written so that two servers can be compared.

Masked are times that are about now, durations that have passed, ids, and what a server says of itself. Everything
else stays, keys of JSON in their order.
"""

import base64
import datetime
import json
import re
import time
from typing import Any

from conform.protocol.frame import printable

# A time is exact to what Go writes: no zeros at the end of the fraction.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z")
NEAR_S = 3600.0
# The time in the reply subject of a delivered message, and what flow control counts with.
ACK_TIME = re.compile(r"(\$JS\.ACK(?:\.[^. ]+){2}\.\d+\.\d+\.\d+)\.\d{19}\b")
FLOW = re.compile(r"(\$JS\.FC\.[^. ]+\.[^. ]+)\.\S+")
RESTORE = re.compile(r"(\$JS\.SNAPSHOT\.(?:RESTORE|ACK)\.[^. ]+)\.\S+")
HEADER_TIME = re.compile(rf"\b{TIME.pattern}")
# What a message came from; the original has put one more word behind it since 2.15.
SOURCE = re.compile(r"(Nats-Stream-Source: \S+ \d+ \S+ \S+ [^ \\]+) \w{8}(?=\\r)")
NUID = re.compile(r"[0-9A-Za-z]{22}")
# Names that a server makes up: of an ephemeral consumer, for a snapshot.
NAME = re.compile(r"[0-9A-Za-z]{8}")
# Numbers of nanoseconds that have passed, by key.
PASSED = frozenset({"pause_remaining", "active", "elapsed", "rtt", "ack_time", "inflight", "id"})
# What a server says of itself and of others.
ITSELF = frozenset({"server", "server_id", "server_name", "ver", "host", "leader"})
LEVELS = frozenset({"_nats.ver", "_nats.level"})
LEFT_OUT = frozenset({"cluster", "api"})


def subject(text: str) -> str:
    """A subject, or a reply subject."""
    return RESTORE.sub(r"\1.<id>", FLOW.sub(r"\1.<id>", ACK_TIME.sub(r"\1.<time>", text)))


def header(block: bytes) -> str:
    shown = printable(block.removesuffix(b"\r\n\r\n"))
    shown = SOURCE.sub(r"\1", shown)
    shown = re.sub(r"(Nats-Pin-Id: ?)\w{22}", r"\1<id>", shown)
    shown = re.sub(r"(Nats-Consumer-Stalled: ?)(\S+)", lambda found: found[1] + subject(found[2]), shown)
    return HEADER_TIME.sub(lambda found: near(found[0]), shown)


def payload(data: bytes, loose: frozenset[str] = frozenset()) -> str:
    """A payload; of JSON without the values of the keys in `loose`."""
    if data.startswith(b"{"):
        try:
            return json.dumps(masked("", json.loads(data), loose), separators=(",", ":"), ensure_ascii=False)
        except ValueError:
            pass
    return printable(data)


def stored_header(block: str) -> str:
    """Headers of a stored message, as they are in JSON."""
    return SOURCE.sub(r"\1", printable(base64.b64decode(block)))


def masked(key: str, value: Any, loose: frozenset[str]) -> Any:
    """A value of JSON that stands at `key`."""
    if (key in PASSED and isinstance(value, int) and value > 0) or key in ITSELF | LEVELS | loose:
        return f"<{key}>"
    if isinstance(value, dict):
        return {name: masked(name, one, loose) for name, one in value.items() if not left_out(key, name, one)}
    if isinstance(value, list):
        return [masked(key, one, loose) for one in ordered(key, value)]
    return text(key, value) if isinstance(value, str) else value


def left_out(key: str, name: str, value: Any) -> bool:
    """Whether one of them may not have it. `seq` of a source came with 2.15."""
    return (name in LEFT_OUT and isinstance(value, dict)) or (key == "sources" and name == "seq")


def ordered(key: str, value: list[Any]) -> list[Any]:
    """The original keeps sources in no order."""
    if key == "sources" and all(isinstance(one, dict) for one in value):
        return sorted(value, key=lambda one: str(one.get("name")))
    return value


def text(key: str, value: str) -> str:
    if key == "hdrs":
        return stored_header(value)
    if key in ("request", "response") and value.startswith("{"):
        return payload(value.encode())
    if key in ("id", "pinned_client_id", "pinned_id") and NUID.fullmatch(value):
        return "<id>"
    if key in ("name", "consumer") and NAME.fullmatch(value):
        return "<name>"
    return near(subject(value))


def near(value: str) -> str:
    """A time that is about now is `<time>`; another one stays."""
    if not TIME.fullmatch(value):
        return value
    then = datetime.datetime.fromisoformat(value[:19] + "+00:00").timestamp()
    return "<time>" if abs(then - time.time()) < NEAR_S else value
