"""A server is killed while atomic batches come in: each is there as a whole or not at all, and so it is elsewhere."""

import contextlib
import re
import signal
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conform.jetstream.api import Api
from crash.conftest import StartServer
from crash.raw import Raw
from tidelog.testing.peer import ServerProcess

KILLS = 4
STREAMS: tuple[dict[str, Any], ...] = (
    {"name": "S", "subjects": ["s.>"], "storage": "file", "allow_atomic": True},
    {"name": "MIRROR", "storage": "file", "mirror": {"name": "S"}},
    {"name": "ALL", "storage": "file", "sources": [{"name": "S"}]},
)


def message(subject: str, reply: str, headers: list[str], payload: bytes) -> bytes:
    block = "\r\n".join(["NATS/1.0", *headers, "", ""]).encode()
    line = f"HPUB {subject} {reply} {len(block)} {len(block) + len(payload)}\r\n"
    return line.encode() + block + payload + b"\r\n"


def batch(number: int, count: int, chance: Random) -> bytes:
    """Messages whose subject says how many there are of it."""
    parts = []
    for at in range(1, count + 1):
        headers = [f"Nats-Batch-Id: b{number}", f"Nats-Batch-Sequence: {at}"]
        if at == count:
            headers.append("Nats-Batch-Commit: 1")
        subject = f"s.{number}.{count}"
        parts.append(message(subject, "_I" if at == count else "", headers, b"x" * chance.randrange(2000)))
    return b"".join(parts)


def publish_until_dead(
    server: ServerProcess, numbers: list[int], acknowledged: set[int], chance: Random
) -> None:
    with Raw(server.port) as raw:
        raw.info()
        raw.send(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _I 1\r\n')

        def listen() -> None:
            with contextlib.suppress(OSError, ValueError):
                while line := raw.line():
                    if found := re.search(rb'"batch":"b(\d+)"', line):
                        acknowledged.add(int(found[1]))

        listener = threading.Thread(target=listen)
        listener.start()
        end_s = time.monotonic() + chance.uniform(0.2, 0.5)
        with contextlib.suppress(OSError):
            while time.monotonic() < end_s:
                numbers.append(len(numbers))
                raw.send(batch(numbers[-1], chance.randrange(2, 200), chance))
        server.signal(signal.SIGKILL)
        server.wait()
        listener.join()


@pytest.mark.timeout(60)
def test_batches_mirrors_and_sources_are_whole_after_kills(start: StartServer, tmp_path: Path) -> None:
    """BATCH-1, FEED-1"""
    chance = Random(5)
    numbers: list[int] = []
    acknowledged: set[int] = set()
    for kill in range(KILLS):
        server = start(flags=["-js", "-sd", str(tmp_path)])
        if kill == 0:
            with Api(server.port) as api:
                for config in STREAMS:
                    api.ask(f"STREAM.CREATE.{config['name']}", config)
        publish_until_dead(server, numbers, acknowledged, chance)
    server = start(flags=["-js", "-sd", str(tmp_path)])
    with Api(server.port) as api:
        stored = subjects(api, "S")
        assert all(count == int(subject.rpartition(".")[2]) for subject, count in stored.items())
        assert acknowledged
        assert acknowledged <= {int(subject.split(".")[1]) for subject in stored}
        deadline_s = time.monotonic() + 20
        while (subjects(api, "MIRROR"), subjects(api, "ALL")) != (stored, stored):
            assert time.monotonic() < deadline_s, "mirror and sources have not got everything"


def subjects(api: Api, stream: str) -> dict[str, int]:
    found: dict[str, int] = api.ask(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})["state"]["subjects"]
    return found
