"""Plays a script against a server and writes down, per connection, what came back.

Two transcripts that are equal mean: the two servers gave the same answers. A wait that was in vain does not
end a script; it is noted in the transcript, so that the difference shows where it is.
"""

import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from conform.protocol import frame
from conform.protocol.identity import public_nkey, signature
from conform.protocol.link import Link, masked
from conform.protocol.script import Script, ScriptError, Step, unescape
from tidelog.testing.peer import ServerProcess

HTTP_SHOWN = re.compile(r"(upgrade|connection|sec-websocket-[a-z]+|nats-[a-z-]+|x-s[a-z-]+):")
RELOAD_ANSWERS = ("Reloaded server configuration", "Failed to reload server configuration")
VARIABLE = re.compile(r"\\\((.+?)\)")


@dataclass
class Transcript:
    """`lines` by connection; `late` are the steps that waited in vain."""

    lines: dict[str, list[str]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def text(self) -> str:
        body = "".join(
            f"{name}: {line}\n" for name, lines in self.lines.items() for line in [*lines, "(end)"]
        )
        return body + "".join(f"in vain: {step}\n" for step in self.late)


def play(script: Script, server: ServerProcess, certificates: Path, patience_s: float) -> Transcript:
    return _Player(script, server, certificates, patience_s).play()


def configured(config: str, certificates: Path) -> str:
    """A script's configuration with its variables filled in."""
    return VARIABLE.sub(lambda match: _constant(match[1], certificates), config)


class _Player:
    def __init__(self, script: Script, server: ServerProcess, certificates: Path, patience_s: float) -> None:
        self.script = script
        self.server = server
        self.certificates = certificates
        self.patience_s = patience_s
        self.links: dict[str, Link] = {}
        self.marks: set[tuple[str, str]] = set()
        self.pool: tuple[str, ...] = ()
        self.late: list[str] = []

    def play(self) -> Transcript:
        try:
            for step in self.script.steps:
                self._take(step)
            self._finish()
            return self._transcript()
        finally:
            for link in self.links.values():
                link.abandon()

    # Steps

    def _take(self, step: Step) -> None:
        if step.verb != "send":
            for link in self.links.values():
                link.flush()
        elif step.names[0] in self.links:
            for name, link in self.links.items():
                if name != step.names[0]:
                    link.flush()
        action: Callable[[Step], bool] = getattr(self, f"_do_{step.verb}")
        if not action(step):
            self.late.append(f"line {step.line}: {step.verb} {' '.join(step.names)} {step.text}".rstrip())

    def _do_open(self, step: Step) -> bool:
        link = self._connect(step)
        return link.speaks != "nats" or link.wait_for(lambda: link.count(b"INFO ") > 0)

    def _do_raw(self, step: Step) -> bool:
        self._connect(step).speaks = "raw"
        return True

    def _connect(self, step: Step) -> Link:
        listener = step.text or "nats"
        speaks = "raw" if listener == "websocket" else "nats"
        link = Link(self.server.port_of(listener), speaks, self.patience_s)
        if step.names[0] in self.links:
            raise ScriptError(f"{self.script.name}: {step.names[0]} is open already")
        self.links[step.names[0]] = link
        return link

    def _do_login(self, step: Step) -> bool:
        opened = self._do_open(Step("open", step.names, "", step.line))
        self._link(step).send(self._bytes(step) + b"\r\n")
        return self._sync(step.names) and opened

    def _do_send(self, step: Step) -> bool:
        self._link(step).send(self._bytes(step))
        return True

    def _do_boundary(self, step: Step) -> bool:
        return self._link(step).wait_until_read()

    def _do_sync(self, step: Step) -> bool:
        return self._sync(step.names)

    def _sync(self, names: tuple[str, ...]) -> bool:
        answered = True
        for name in names:
            link = self.links[name]
            pongs = link.count(b"PONG")
            link.send(b"PING\r\n")
            link.flush()
            answered &= link.wait_for(lambda link=link, n=pongs: link.closed or link.count(b"PONG") > n)  # type: ignore[misc]
        return answered

    def _do_await(self, step: Step) -> bool:
        link, start = self._link(step), self._bytes(step)

        def has_come() -> bool:
            for position in range(link.awaited, len(link.frames)):
                if link.frames[position].startswith(start):
                    link.awaited = position + 1
                    return True
            return False

        return link.wait_for(has_come)

    def _do_closed(self, step: Step) -> bool:
        return self._link(step).wait_for_close()

    def _do_upgrade(self, step: Step) -> bool:
        link = self._link(step)
        if not link.upgrade_to_websocket(self._bytes(step).decode()):
            return False
        return link.wait_for(lambda: link.count(b"INFO ") > 0)

    def _do_frame(self, step: Step) -> bool:
        kind, _, text = step.text.partition(" ")
        payload = unescape(text, lambda name: self._variable(step, name))
        if kind.endswith("u"):
            data = bytes([int(kind[:-1], 16), len(payload)]) + payload
        else:
            data = masked(int(kind, 16), payload)
        self._link(step).send_now(data)
        return True

    def _do_tls(self, step: Step) -> bool:
        return self._link(step).upgrade_to_tls()

    def _do_first(self, step: Step) -> bool:
        link = self._link(step)
        link.speaks = "nats"
        return link.upgrade_to_tls() and link.wait_for(lambda: link.count(b"INFO ") > 0)

    def _do_answered(self, step: Step) -> bool:
        link = self._link(step)
        return link.wait_for(lambda: b"\r\n\r\n" in link.rest)

    def _do_quit(self, step: Step) -> bool:
        return self._link(step).quit()

    def _mark(self, step: Step) -> bool:
        self.marks.add((step.verb, step.names[0]))
        return True

    _do_leave = _do_greeting = _do_hasty = _do_blind = _mark

    def _do_pool(self, step: Step) -> bool:
        self.pool = step.names
        return True

    def _do_elapse(self, step: Step) -> bool:
        time.sleep(float(step.text))
        return True

    def _do_signal(self, step: Step) -> bool:
        self.server.signal(signal.Signals[f"SIG{step.text}"])
        return True

    def _do_reload(self, step: Step) -> bool:
        answers = self._reload_answers()
        self.server.write_config(configured(step.text, self.certificates))
        self.server.signal(signal.SIGHUP)
        deadline = time.monotonic() + self.patience_s
        while self._reload_answers() == answers:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def _reload_answers(self) -> int:
        log = self.server.log
        return sum(log.count(answer) for answer in RELOAD_ANSWERS)

    def _do_fresh(self, step: Step) -> bool:  # noqa: ARG002  # the one who starts servers has seen to it
        return True

    _do_flags = _do_differs = _do_fresh

    # The end

    def _finish(self) -> None:
        for link in self.links.values():
            link.flush()
        living = tuple(
            name
            for name, link in self.links.items()
            if ("leave", name) not in self.marks
            and link.speaks != "raw"
            and not link.closed
            and not link.given_up
        )
        for _ in range(2):
            if not self._sync(living):
                self.late.append("PING at the end")
        for name, link in self.links.items():
            if not link.quit():
                self.late.append(f"closing {name}")

    def _transcript(self) -> Transcript:
        transcript = Transcript(late=self.late)
        pooled = list[str]()
        for name, link in self.links.items():
            transcript.lines[name] = _counted(self._lines(name, link))
            if name in self.pool:
                pooled += [frame.show(one) for one in map(frame.without_sid, link.frames) if one]
        if self.pool:
            transcript.lines["+".join(self.pool)] = _counted(sorted(pooled))
        return transcript

    def _lines(self, name: str, link: Link) -> list[str]:
        end = ["closed by the server"] if link.closed and not link.given_up else []
        if ("blind", name) in self.marks:
            return end
        frames, controls = list(link.frames), link.controls
        if ("greeting", name) not in self.marks and frames and frames[0].startswith(b"INFO "):
            del frames[0]
        if name in self.pool:
            frames = [one for one in frames if frame.without_sid(one) is None]
        if ("hasty", name) in self.marks:
            frames = [one for one in frames if not one.startswith(b"-ERR")]
            controls = [one for one in controls if not one.startswith("websocket close")]
        shown = [frame.show(one, link.port) for one in frame.in_order(frames)]
        return [*_handshake(link), *shown, *controls, *_remainder(link), *end]

    # Texts

    def _link(self, step: Step) -> Link:
        link = self.links.get(step.names[0])
        if link is None:
            raise ScriptError(f"{self.script.name}: line {step.line}: {step.names[0]} is not open")
        return link

    def _bytes(self, step: Step) -> bytes:
        return unescape(step.text, lambda name: self._variable(step, name))

    def _variable(self, step: Step, name: str) -> str:
        if name.startswith("sig:"):
            info = json.loads(self._link(step).info[5:])
            return signature(name[4:], info.get("nonce", ""))
        return _constant(name, self.certificates)


def _constant(name: str, certificates: Path) -> str:
    if name.startswith("pub:"):
        return public_nkey(name[4:])
    if name == "tls":
        return str(certificates)
    raise ScriptError(f"unknown variable {name!r}")


def _counted(lines: list[str]) -> list[str]:
    """Runs of the same line as one."""
    runs = [(line, len(list(run))) for line, run in groupby(lines)]
    return [line if times == 1 else f"{line} ({times} times)" for line, times in runs]


def _handshake(link: Link) -> list[str]:
    """Status code of an HTTP answer, and if it is a websocket the headers that mean something for one."""
    head = link.handshake or (link.rest if link.rest.startswith(b"HTTP/") else b"")
    if not head:
        return []
    status, *headers = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    lowered = [f"{name.lower()}:{value}" for name, _, value in (line.partition(":") for line in headers)]
    code = status.split(" ")[1]
    return [f"HTTP {code}", *sorted(line for line in lowered if code == "101" and HTTP_SHOWN.match(line))]


def _remainder(link: Link) -> list[str]:
    if not link.rest or link.rest.startswith(b"HTTP/"):
        return []
    return [f"rest {frame.printable(link.rest)}"]
