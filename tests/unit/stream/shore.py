"""Streams of one account inside a test: messages go in by hand, and answers come out where they are listened for."""

from typing import Any

import msgspec

from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.timer import Timers
from tidelog.base.work import Inline, Worker
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.stream.account import AccountStreams
from tidelog.stream.engine import Engine, EngineSettings, Recovery
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.surroundings import AccountLimits
from tidelog.subject.interest import Interest
from tidelog.subject.route import Callback, Subscription
from unit.broker.house import Lines


class Shore:
    """One server's streams. `restart` is a clean one, `crash` is not."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        worker: Worker | None = None,
        state_worker: Worker | None = None,
        settings: EngineSettings | None = None,
        limits: AccountLimits | None = None,
    ) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        self.clock = ManualClock()
        self.worker = worker if worker is not None else Inline()
        self.state_worker = state_worker
        self.settings = settings if settings is not None else EngineSettings()
        self.limits = limits
        self.heard: list[tuple[bytes, bytes]] = []
        self.recovery = self.open()

    def open(self) -> Recovery:
        self.timers = Timers()
        self.lines = Lines()
        self.interest = Interest()
        self.engine = Engine(
            self.disk,
            self.clock,
            self.worker,
            self.timers,
            Chance(1),
            self.lines,
            self.settings,
            self.state_worker,
        )
        self.account: AccountStreams = self.engine.open_account("$G", self.interest, self.limits)
        self.listen(b"reply.>")
        return self.engine.recover()

    def listen(self, subject: bytes) -> None:
        def hear(heard: bytes, _reply: bytes | None, payload: bytes, _origin: object) -> None:
            self.heard.append((heard, payload))

        self.interest.insert(Subscription(subject, b"", b"", Callback(hear)))

    def restart(self) -> None:
        self.engine.close()
        self.recovery = self.open()

    def crash(self) -> None:
        self.recovery = self.open()

    # ---- what clients do ----

    def stream(self, name: str = "S", **fields: Any) -> Stream:
        """A stream, by default in a file and on its name with anything behind."""
        defaults: dict[str, Any] = {
            "subjects": [f"{name}.>"],
            "max_msg_size": -1,
            "duplicate_window": 120_000_000_000,
        }
        return self.account.create(StreamConfig(name=name, **defaults | fields))

    def send(
        self, subject: bytes, payload: bytes = b"", reply: bytes | None = b"reply.1", **headers: str
    ) -> None:
        """Publish; the tick goes on. Header names are written with `_` for `-`."""
        header = b""
        if headers:
            header = block(*(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()))
        self.account.post.publish(subject, payload, header=header, reply=reply)

    def publish(self, subject: bytes, payload: bytes = b"", **headers: str) -> dict[str, Any]:
        """Publish, end the tick, and return the answer."""
        self.heard.clear()
        self.send(subject, payload, **headers)
        self.engine.commit()
        assert len(self.heard) == 1, self.heard
        answer: dict[str, Any] = msgspec.json.decode(self.heard[0][1])
        return answer

    def refused(self, subject: bytes, payload: bytes = b"", **headers: str) -> tuple[int, str]:
        """Publish what is refused: code and text."""
        answer = self.publish(subject, payload, **headers)
        assert answer["seq"] == 0
        return answer["error"]["err_code"], answer["error"]["description"]

    def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end_ns = self.clock.ns + int(seconds * 1e9)
        while (due_ns := self.timers.next_due_ns()) is not None and due_ns <= end_ns:
            self.clock.ns = max(self.clock.ns, due_ns)
            self.timers.run(self.clock.ns)
        self.clock.ns = end_ns
        self.engine.commit()


def block(*lines: str, version: str = "NATS/1.0") -> bytes:
    """A header block."""
    return "\r\n".join([version, *lines, "", ""]).encode()


def contents(stream: Stream) -> list[tuple[int, bytes, bytes]]:
    """What a reader sees: sequence, subject, payload."""
    reader, found = stream.log.reader(), []
    while len(batch := reader.read(100)):
        found += [(message.seq, message.subject, message.payload) for message in batch]
    return found
