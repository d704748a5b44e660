"""What a server sent, cut into frames and written so that two servers can be compared.

A frame is a protocol line, with its payload if it is MSG or HMSG. Masked are values that differ by nature:
ids, keys, nonces, versions and the listener's own port in INFO. Everything else stays as it came, byte for
byte, keys of INFO in their order. Messages that are one and the same publication to several subscriptions of
one connection have no order between them: such a run is sorted by subscription id.
"""

import json
import re
from itertools import groupby

# Who built the server and with what, and what belongs to features beyond these scripts (JetStream's API
# level, auth callout's encryption key): a server may send them or not.
INFO_LEFT_OUT = frozenset({"git_commit", "go", "api_lvl", "xkey"})
INFO_MASKED = frozenset({"server_id", "version", "client_id", "nonce"})
INFO_URLS = frozenset({"connect_urls", "ws_connect_urls"})


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames in `data`, and what is left of a frame that has not come to its end."""
    frames = list[bytes]()
    start = 0
    while (line_end := data.find(b"\r\n", start)) >= 0:
        end = line_end + 2
        words = data[start:line_end].split(b" ")
        if words[0] in (b"MSG", b"HMSG") and words[-1].isdigit():
            end += int(words[-1]) + 2
        if end > len(data):
            break
        frames.append(data[start:end])
        start = end
    return frames, data[start:]


def show(frame: bytes, port: int = 0) -> str:
    """A frame as a line of a transcript; `port` is where it came from."""
    if frame.startswith(b"INFO {"):
        return _show_info(frame, port)
    head, _, body = frame.removesuffix(b"\r\n").partition(b"\r\n")
    return printable(head) + (f" | {printable(body)}" if _has_payload(head) else "")


def printable(data: bytes) -> str:
    text = repr(data)[2:-1].replace("\\'", "'")
    return re.sub(r"((.)\2{40,})", lambda run: f"[{run[2]}*{len(run[1])}]", text)


def in_order(frames: list[bytes]) -> list[bytes]:
    """The same frames; runs of one publication sorted by subscription id."""
    ordered = list[bytes]()
    for publication, group in groupby(frames, without_sid):
        run = list(group)
        ordered += run if publication is None else sorted(run)
    return ordered


def without_sid(frame: bytes) -> bytes | None:
    """A message frame with its subscription id taken out; None for any other frame."""
    head, _, body = frame.partition(b"\r\n")
    if not _has_payload(head):
        return None
    words = head.split(b" ")
    return b" ".join([*words[:2], *words[3:]]) + b"\r\n" + body


def _has_payload(head: bytes) -> bool:
    return head.startswith((b"MSG ", b"HMSG "))


def _show_info(frame: bytes, port: int) -> str:
    info = json.loads(frame[5:])
    shown = dict[str, object]()
    for key, value in info.items():
        if key in INFO_LEFT_OUT:
            continue
        if key in INFO_MASKED:
            shown[key] = f"<{key}>"
        elif key == "port" and value == port:
            shown[key] = "<port>"
        elif key == "server_name" and value == info.get("server_id"):
            shown[key] = "<server_id>"
        elif key in INFO_URLS:
            shown[key] = [re.sub(r":\d+$", ":<port>", url) for url in value]
        else:
            shown[key] = value
    return "INFO " + json.dumps(shown, separators=(",", ":"))
