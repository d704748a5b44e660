"""A broker with streams inside a test: requests go to the API over a wire, and answers come back as documents."""

from typing import Any

import msgspec

from tidelog.base.work import Inline, Worker
from tidelog.broker.desk.desk import Desk, DeskSettings
from tidelog.broker.settings import BrokerSettings
from tidelog.disk.disk import Disk
from tidelog.disk.memory import MemoryDisk
from tidelog.stream.engine import Engine, EngineSettings
from tidelog.stream.surroundings import AccountLimits
from tidelog.wire.header import HeadersLike, encode
from unit.broker.house import Client, House

Document = dict[str, Any]


class Reply:
    """A message that a client got."""

    def __init__(self, subject: str, header: bytes, payload: bytes) -> None:
        self.subject = subject
        self.header = header
        self.payload = payload

    @property
    def document(self) -> Document:
        found: Document = msgspec.json.decode(self.payload)
        return found


class Harbor:
    def __init__(
        self,
        *,
        disk: Disk | None = None,
        limits: dict[str, AccountLimits | None] | None = None,
        engine: EngineSettings | None = None,
        desk: DeskSettings | None = None,
        settings: BrokerSettings | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.house = House(settings)
        broker = self.house.broker
        self.disk = disk if disk is not None else MemoryDisk()
        self.engine = Engine(
            self.disk,
            self.house.clock,
            worker if worker is not None else Inline(),
            broker.timers,
            broker.chance,
            self.house.log,
            engine,
        )
        self.desk = Desk(self.engine, self.house.clock, desk or DeskSettings(server_name="here"))
        allowed = limits if limits is not None else {"$G": AccountLimits()}
        for account in broker.accounts():
            is_system = account.name == broker.settings.system_account
            self.desk.open(account, allowed.get(account.name), is_system=is_system)
        self.engine.recover()
        self.client = self.arrive()

    def arrive(self, **fields: object) -> Client:
        client = self.house.client(headers=True, no_responders=True, **fields)
        client.send(b"SUB _R.> 1\r\n")
        return client

    def tick(self) -> None:
        self.engine.commit()

    def send(
        self,
        subject: str,
        payload: bytes = b"",
        headers: HeadersLike | None = None,
        *,
        reply: str = "_R.1",
        client: Client | None = None,
    ) -> list[Reply]:
        """Publish, end the tick, and take what has come meanwhile."""
        client = client or self.client
        if headers is None:
            client.send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
        else:
            block = encode(headers)
            sizes = f"{len(block)} {len(block) + len(payload)}"
            client.send(f"HPUB {subject} {reply} {sizes}\r\n".encode() + block + payload + b"\r\n")
        self.tick()
        return replies(client.read())

    def ask(self, subject: str, body: object = None, headers: HeadersLike | None = None) -> Document:
        """A request to the API, and its answer."""
        text = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        heard = self.send(f"$JS.API.{subject}", text, headers)
        assert len(heard) == 1, heard
        return heard[0].document

    def refused(self, subject: str, body: object = None) -> tuple[int, int, str]:
        """A request that is refused: code, err_code and text."""
        error = self.ask(subject, body)["error"]
        return error["code"], error["err_code"], error["description"]

    def publish(self, subject: str, payload: bytes = b"", **headers: str) -> Document:
        """Publish to a stream; the acknowledgement. Header names are written with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        heard = self.send(subject, payload, named or None)
        assert len(heard) == 1, heard
        return heard[0].document

    def stream(self, name: str = "S", **fields: object) -> Document:
        """A stream, by default on its name with anything behind."""
        return self.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **fields})


def replies(data: bytes) -> list[Reply]:
    """The messages in what a client has received."""
    found: list[Reply] = []
    while data:
        line, _, data = data.partition(b"\r\n")
        words = line.split()
        if words[0] == b"MSG":
            header_size, size = 0, int(words[-1])
        elif words[0] == b"HMSG":
            header_size, size = int(words[-2]), int(words[-1])
        else:
            continue
        found.append(Reply(words[1].decode(), data[:header_size], data[header_size:size]))
        data = data[size + 2 :]
    return found
