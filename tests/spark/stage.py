"""A server with JetStream, and what the tests do with its streams by another way than the connector's.

`held` asks for one message after the other through the API, so it shares nothing with how the connector reads.
"""

import base64
import itertools
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tidelog.base.errors import ApiError, ClientError
from tidelog.client import Connection, connect
from tidelog.client.jetstream import JetStream, Outgoing, Publisher
from tidelog.testing.peer import ServerProcess, nats_server_path, tidelog_argv

KINDS = ("nats-server", "tidelog")
# A machine that does much else starts a server late.
READY_S = 60.0
_names = itertools.count(1)


class Held(NamedTuple):
    seq: int
    subject: str
    value: bytes


def argv_of(kind: str) -> list[str]:
    if kind == "tidelog":
        return tidelog_argv()
    try:
        return [str(nats_server_path())]
    except FileNotFoundError as error:
        pytest.skip(str(error))


class Stage:
    """`kill` ends the server as a crash would; `start` brings it back at the same address with what it had stored."""

    def __init__(self, argv: Sequence[str], directory: Path, config: str = "", tls_ca: str = "") -> None:
        self.argv = list(argv)
        self._directory = directory
        self._config = config
        self._tls_ca = tls_ca
        self._server: ServerProcess | None = None
        self._flags: list[str] = []
        self.connection: Connection | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        flags = ["-js", "-sd", str(self._directory), *self._flags]
        config = self._config or None
        self._server = ServerProcess(
            self.argv, config=config, flags=flags, monitor=False, ready_s=READY_S
        ).start()
        # The next one listens at the same place.
        self._flags = ["-p", str(self._server.port)]
        self.url = self._server.url

    def stop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self._server is not None:
            self._server.stop()
            self._server = None

    def kill(self) -> None:
        assert self._server is not None
        self._server.signal(signal.SIGKILL)
        self._server.wait()
        self.stop()

    @property
    def js(self) -> JetStream:
        if self.connection is not None:
            try:
                # A server ends connections that are silent for as long as some tests take.
                self.connection.flush()
            except ClientError:
                self.connection.close()
                self.connection = None
        self.connection = self.connection or connect(self.url, tls_ca=self._tls_ca)
        return JetStream(self.connection)

    def new_stream(self, name: str = "", **config: Any) -> str:
        """A name of its own, taking `<name>.>`."""
        name = name or f"S{next(_names)}"
        self.js.create_stream(
            {
                "name": name,
                "subjects": [f"{name}.>"],
                "storage": "file",
                "allow_direct": True,
                "num_replicas": 1,
            }
            | config
        )
        return name

    def publish(self, messages: Sequence[Outgoing]) -> None:
        publisher = Publisher(self.js.connection)
        for message in messages:
            publisher.publish(
                message.subject, message.payload, headers=message.headers, msg_id=message.msg_id
            )
        publisher.flush()

    def fill(
        self, stream: str, count: int, *, start: int = 0, subjects: Sequence[str] = ("a", "b.c", "b.d")
    ) -> None:
        self.publish(
            [
                Outgoing(f"{stream}.{subjects[number % len(subjects)]}", b"%d" % number)
                for number in range(start, start + count)
            ]
        )

    def held(self, stream: str) -> list[Held]:
        """All that the server has, in order."""
        state = self.js.stream_info(stream).state
        found = []
        for seq in range(state.first_seq, state.last_seq + 1):
            try:
                answer = self.js.ask_document(f"STREAM.MSG.GET.{stream}", {"seq": seq})["message"]
            except ApiError:
                continue
            found.append(Held(seq, answer["subject"], base64.b64decode(answer.get("data", ""))))
        return found
