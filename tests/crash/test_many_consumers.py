"""As many consumers of one stream as there are clients elsewhere: what each costs, waiting and not, and after a kill.

TIDELOG_CONSUMERS=10000 pytest tests/crash/test_many_consumers.py -s      prints the figures of docs/benchmarks
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from conform.jetstream.api import Api
from crash.bystander import Bystander
from crash.conftest import StartServer
from tidelog.testing.peer import ServerProcess

COUNT = int(os.environ.get("TIDELOG_CONSUMERS", "1000"))
SUBJECTS = 100
UNDER_WAY = 64  # requests, and messages
MESSAGES = 5_000
# Beyond this a consumer is not what it was.
SIZE_MOST = 16 * 1024
IDLE_S = 1.0


def resident(server: ServerProcess) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_s(server: ServerProcess) -> float:
    """What the process has used of processors."""
    ticks = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def make_consumers(api: Api) -> None:
    """As many at a time as are under way."""
    sent = 0
    for answered in range(COUNT):
        while sent < min(COUNT, answered + UNDER_WAY):
            config = {
                "durable_name": f"c{sent}",
                "ack_policy": "explicit",
                "filter_subject": f"s.{sent % SUBJECTS}",
            }
            body = json.dumps({"stream_name": "S", "config": config}).encode()
            api.socket.sendall(
                b"PUB $JS.API.CONSUMER.CREATE.S.c%d _I.x %d\r\n%b\r\n" % (sent, len(body), body)
            )
            sent += 1
        answer: dict[str, Any] = json.loads(api.next())
        assert "error" not in answer, answer


def publish(api: Api, count: int, subject: bytes) -> float:
    """Messages a second."""
    begun = time.monotonic()
    sent = 0
    for answered in range(count):
        while sent < min(count, answered + UNDER_WAY):
            api.socket.sendall(b"PUB %b _I.x 1\r\nx\r\n" % subject)
            sent += 1
        assert b'"seq":' in api.next()
    return count / (time.monotonic() - begun)


def let_wait(waiting: Api) -> None:
    """A request for a message at every consumer."""
    waiting.socket.sendall(
        b"".join(
            b'PUB $JS.API.CONSUMER.MSG.NEXT.S.c%d %b.%d 25\r\n{"expires":3600000000000}\r\n'
            % (number, waiting.inbox, number)
            for number in range(COUNT)
        )
    )
    waiting.ask("INFO")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("storage", ["memory", "file"])
def test_many_consumers(start: StartServer, tmp_path: Path, storage: str) -> None:
    """CONSUMER-7, CONSUMER-8"""
    flags = ["-js", "-sd", str(tmp_path)]
    server = start(flags=flags)
    with Bystander(server, delay_s=10.0), Api(server.port) as api, Api(server.port, "_W") as waiting:
        stream = {"name": "S", "subjects": ["s.>"], "storage": storage}
        assert "error" not in api.ask("STREAM.CREATE.S", stream)
        before = resident(server)
        begun = time.monotonic()
        make_consumers(api)
        rate = COUNT / (time.monotonic() - begun)
        size = (resident(server) - before) / COUNT
        alone = publish(api, MESSAGES, b"s.nobody")
        let_wait(waiting)
        used_s = processor_s(server)
        time.sleep(IDLE_S)
        idle = (processor_s(server) - used_s) / IDLE_S
        beside = publish(api, MESSAGES, b"s.nobody")
        print(
            f"\n{COUNT} consumers of a stream in {storage}: {rate:.0f}/s, {size / 1024:.1f} KiB each, "
            f"idle {idle:.1%} of a processor; messages that none of them wants {alone:.0f}/s, "
            f"while all wait {beside:.0f}/s"
        )
        assert size < SIZE_MOST
        for number in range(SUBJECTS):
            publish(api, 1, b"s.%d" % number)
        assert {waiting.next() for _ in range(COUNT)} == {b"x"}
        assert api.ask("CONSUMER.NAMES.S")["total"] == COUNT
        if storage == "memory":
            assert api.ask("STREAM.DELETE.S")["success"]
            return
    server.signal(signal.SIGKILL)
    server.wait()
    begun = time.monotonic()
    server = start(flags=flags)
    with Api(server.port) as api:
        assert api.ask("CONSUMER.NAMES.S")["total"] == COUNT
        print(f"after a kill there again in {time.monotonic() - begun:.1f} s")
        last = api.ask(f"CONSUMER.INFO.S.c{COUNT - 1}")
        # Delivered and not acknowledged, or, in the last moment, not known to be delivered.
        assert last["num_ack_pending"] + last["num_pending"] == 1
