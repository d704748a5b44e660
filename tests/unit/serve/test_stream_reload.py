"""Streams and a configuration that changes: switched on and off, by account, and with more room."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidelog.base.errors import NoResponders
from tidelog.client import Connection, connect
from tidelog.serve import flag
from tidelog.serve.log import LogSettings, open_log
from tidelog.serve.reloader import Reloader, ReloadReport
from tidelog.serve.server import Server

ACCOUNTS = """accounts {{
    A {{ users: [{{user: a, password: p}}], jetstream: {a} }}
    B {{ users: [{{user: b, password: p}}], jetstream: {b} }}
}}"""


class Running:
    """A server in this thread's loop, asked from another thread; its configuration is written again and read again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "server.conf"

    def write(self, text: str) -> None:
        store = self.directory / "store"
        self.file.write_text(f"listen: '127.0.0.1:-1'\nstore_dir: '{store}'\nlog_file: '/dev/null'\n{text}\n")

    def play(self, text: str, script: Callable[["Running"], None]) -> None:
        self.write(text)
        asyncio.run(self.run(script))

    async def run(self, script: Callable[["Running"], None]) -> None:
        invocation = flag.parse_arguments(["-c", str(self.file)])
        self.server = Server(flag.load(invocation, {}), open_log(LogSettings(file="/dev/null")))
        await self.server.start()
        self.reloader = Reloader(self.server, invocation)
        try:
            await asyncio.to_thread(script, self)
        finally:
            await self.server.stop()

    # ---- from the other thread ----

    def reload(self, text: str) -> ReloadReport:
        self.write(text)

        async def act() -> ReloadReport:
            return self.reloader.reload()

        return asyncio.run_coroutine_threadsafe(act(), self.server.loop).result(10)

    def connect(self, user: str = "") -> Connection:
        identity = {"user": user, "password": "p"} if user else {}
        return connect(f"nats://127.0.0.1:{self.server.port}", **identity)

    def ask(self, subject: str, body: bytes = b"", user: str = "") -> dict[str, Any]:
        with self.connect(user) as connection:
            found: dict[str, Any] = msgspec.json.decode(connection.request(subject, body).payload)
            return found


def test_streams_are_switched_off_and_on_again(tmp_path: Path) -> None:
    def script(running: Running) -> None:
        running.ask("$JS.API.STREAM.CREATE.S", b'{"name": "S"}')
        running.ask("S", b"payload")
        assert running.reload("jetstream: disabled").good
        for subject in ("$JS.API.INFO", "S"):
            with pytest.raises(NoResponders):
                running.ask(subject)
        with running.connect() as connection:
            assert "jetstream" not in connection.info
        assert running.reload("jetstream: enabled").good
        with running.connect() as connection:
            assert connection.info["jetstream"]
        assert running.ask("S") == {"stream": "S", "seq": 2}

    Running(tmp_path).play("jetstream: enabled", script)


def test_accounts_gain_and_lose_streams(tmp_path: Path) -> None:
    def script(running: Running) -> None:
        running.ask("$JS.API.STREAM.CREATE.S", b'{"name": "S"}', "a")
        running.ask("S", b"", "a")
        assert running.reload(
            "jetstream: enabled\n" + ACCOUNTS.format(a="disabled", b="{max_streams: 7}")
        ).good
        assert running.ask("$JS.API.STREAM.INFO.S", b"", "a")["error"]["err_code"] == 10039
        assert running.ask("$JS.API.INFO", b"", "b")["limits"]["max_streams"] == 7
        assert running.reload(
            "jetstream: enabled\n" + ACCOUNTS.format(a="{max_streams: 2}", b="enabled")
        ).good
        found = running.ask("$JS.API.INFO", b"", "a")
        assert (found["limits"]["max_streams"], found["streams"]) == (2, 1)
        assert running.ask("S", b"", "a")["seq"] == 2
        assert running.reload("jetstream: enabled\n" + ACCOUNTS.format(a="enabled", b="enabled")).good
        assert running.ask("$JS.API.INFO", b"", "a")["limits"]["max_streams"] == -1

    text = "jetstream: enabled\n" + ACCOUNTS.format(a="{max_streams: 1}", b="disabled")
    Running(tmp_path).play(text, script)


def test_room_may_grow(tmp_path: Path) -> None:
    def script(running: Running) -> None:
        body = b'{"name": "S", "max_bytes": 1500000}'
        assert running.ask("$JS.API.STREAM.CREATE.S", body)["error"]["err_code"] == 10047
        report = running.reload("jetstream { max_file: 2M, limits { duplicate_window: '1m' } }")
        assert report.good
        made = running.ask("$JS.API.STREAM.CREATE.S", body)
        assert made["did_create"]
        assert made["config"]["duplicate_window"] == 60 * 10**9

    Running(tmp_path).play("jetstream { max_file: 1M }", script)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "jetstream { max_file: 1M }",
            "config reload not supported for JetStreamMaxStore: old=2000000, new=1000000",
        ),
        ("jetstream: enabled", "config reload not supported for JetStreamMaxStore: old=2000000, new=-1"),
        (
            "jetstream { max_file: 2M, domain: x }",
            "config reload not supported for JetStreamDomain: old=, new=x",
        ),
        ("jetstream { max_file: 2M, sync: always }", "config reload not supported for SyncAlways"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, refusal: str) -> None:
    def script(running: Running) -> None:
        report = running.reload(text)
        assert report.refused[0].startswith(refusal)

    Running(tmp_path).play("jetstream { max_file: 2M }", script)


def test_what_cannot_be_opened_changes_nothing(tmp_path: Path) -> None:
    def script(running: Running) -> None:
        report = running.reload("jetstream: enabled")
        assert report.error == "Can't start JetStream: storage directory is not a directory"
        with running.connect() as connection:
            assert "jetstream" not in connection.info

    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "jetstream").write_text("")
    Running(tmp_path).play("jetstream: disabled", script)
