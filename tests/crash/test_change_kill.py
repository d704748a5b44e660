"""Servers are killed while streams and consumers are made and deleted: what was answered is so afterwards."""

import json
import random
import select
import signal
import time
from pathlib import Path

import pytest

from conform.jetstream.api import Api
from crash.conftest import StartServer

ROUNDS = 5
STREAMS = 40
# A kill comes at some moment of the work of a round.
WORK_S = 0.25


class Wish:
    """What is asked for, and becomes of it: `gone` or `there` when it was answered so, and unknown between."""

    def __init__(self, subject: str, body: str, name: str, wanted: str) -> None:
        self.subject = subject
        self.body = body
        self.name = name
        self.wanted = wanted


def wishes(chance: random.Random, known: dict[str, str]) -> list[Wish]:
    """For streams `S<n>`, and for a consumer `c` in each."""
    found = []
    for number in chance.sample(range(STREAMS), STREAMS):
        name = f"S{number}"
        if known.get(name) != "there":
            config = {"name": name, "subjects": [f"{name}.>"], "storage": "file"}
            found.append(Wish(f"STREAM.CREATE.{name}", json.dumps(config), name, "there"))
            consumer = {"stream_name": name, "config": {"durable_name": "c", "ack_policy": "explicit"}}
            found.append(Wish(f"CONSUMER.CREATE.{name}.c", json.dumps(consumer), f"{name}.c", "there"))
        elif known.get(f"{name}.c") == "there" and chance.random() < 0.5:
            found.append(Wish(f"CONSUMER.DELETE.{name}.c", "", f"{name}.c", "gone"))
        else:
            found.append(Wish(f"STREAM.DELETE.{name}", "", name, "gone"))
    return found


def ask_all(api: Api, asked: list[Wish], until: float) -> None:
    for number, wish in enumerate(asked):
        api.socket.sendall(
            b"PUB $JS.API.%b _I.%d %d\r\n%b\r\n"
            % (wish.subject.encode(), number, len(wish.body), wish.body.encode())
        )
    # The kill comes in the middle; what was answered by then is in the socket.
    while (left := until - time.monotonic()) > 0:
        select.select([], [], [], left)


def answered(api: Api, asked: list[Wish], known: dict[str, str]) -> int:
    """Take in what was said."""
    count = 0
    data = b""
    api.socket.settimeout(2)
    try:
        while part := api.input.read1(1 << 20):
            data += part
    except (OSError, TimeoutError):
        pass
    while b"\r\n" in data:
        line, _, data = data.partition(b"\r\n")
        if not line.startswith(b"MSG"):
            continue
        words = line.split()
        size = int(words[-1])
        if len(data) < size + 2:
            break
        answer, data = json.loads(data[:size]), data[size + 2 :]
        wish = asked[int(words[1].rpartition(b".")[2])]
        if "error" not in answer:
            known[wish.name] = wish.wanted
            count += 1
            if wish.wanted == "gone" and "." not in wish.name:
                known[f"{wish.name}.c"] = "gone"
    return count


@pytest.mark.timeout(120)
def test_what_was_answered_is_so_after_a_kill(start: StartServer, tmp_path: Path) -> None:
    """ENGINE-1, CONSUMER-8"""
    chance = random.Random(1)
    known: dict[str, str] = {}
    flags = ["-js", "-sd", str(tmp_path)]
    total = 0
    for _ in range(ROUNDS):
        server = start(flags=flags)
        asked = wishes(chance, known)
        # Nobody knows what becomes of that until it is answered.
        for wish in asked:
            known.pop(wish.name, None)
        with Api(server.port) as api:
            ask_all(api, asked, time.monotonic() + chance.random() * WORK_S)
            server.signal(signal.SIGKILL)
            server.wait()
            total += answered(api, asked, known)
        server = start(flags=flags)
        with Api(server.port) as api:
            names = set(api.ask("STREAM.NAMES")["streams"] or ())
            for name, state in known.items():
                stream, _, consumer = name.partition(".")
                if not consumer:
                    assert (stream in names) == (state == "there"), name
                elif stream in names:
                    there = "error" not in api.ask(f"CONSUMER.INFO.{stream}.c")
                    assert there == (state == "there"), name
            # From here on it is known what became of the rest.
            for wish in asked:
                if "." not in wish.name:
                    known[wish.name] = "there" if wish.name in names else "gone"
            for name in names:
                found = api.ask(f"CONSUMER.INFO.{name}.c")
                known[f"{name}.c"] = "gone" if "error" in found else "there"
        server.signal(signal.SIGKILL)
        server.wait()
        assert "is not opened" not in server.log
    assert total > STREAMS // 2
