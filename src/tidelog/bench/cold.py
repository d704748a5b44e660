"""Up and back: many small messages go to the cold tier, and are read again, byte for byte, forwards and backwards.

    python -m tidelog.bench.cold --messages 10000000 [--url s3://bucket/prefix]

starts a server, publishes, waits until all complete segments are in the object store and gone from the disk, and reads
everything again by batched Direct Get, forwards and backwards. Every payload, subject and sequence is compared with
what was sent. Prints what happened as a Markdown table; a difference is an error.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidelog.bench.case import Access
from tidelog.bench.fault import ServerFailed
from tidelog.bench.server import LISTENERS, Server
from tidelog.client import connect
from tidelog.client.jetstream import JetStream, Publisher, StreamReader

STREAM = "COLD"
SUBJECTS = 100
SETTLE_S = 1800.0
POLL_S = 0.5
WINDOW = 20_000
CONFIG: dict[str, Any] = {
    "name": STREAM,
    "subjects": ["cold.*"],
    "allow_direct": True,
    "duplicate_window": 100_000_000,
    # Segments of 4 MiB: a quarter of what stays here while messages come.
    "metadata": {"tidelog.local_bytes": "16M", "tidelog.sync": "balanced"},
}


def subject(seq: int) -> str:
    return f"cold.{seq % SUBJECTS}"


def payload(seq: int) -> bytes:
    """Different for every message, and of 8 to 39 bytes."""
    return b"%d:" % seq + b"x" * (seq * 7919 % 32)


class Differs(ServerFailed):
    """What came back is not what was sent."""


class Run:
    def __init__(self, js: JetStream, count: int) -> None:
        self.js = js
        self.count = count
        self.rows: list[tuple[str, float, str]] = []

    def timed(self, what: str, work: Callable[[], str]) -> None:
        begun = time.monotonic()
        note = work()
        self.rows.append((what, time.monotonic() - begun, note))
        print(f"{what}: {self.rows[-1][1]:.1f} s {note}", file=sys.stderr, flush=True)

    def publish(self) -> str:
        publisher = Publisher(self.js.connection, window=WINDOW)
        for seq in range(1, self.count + 1):
            publisher.publish(subject(seq), payload(seq))
        publisher.flush()
        if publisher.acked != self.count:
            raise Differs(f"{publisher.acked} messages were acknowledged")
        return ""

    def settle(self) -> str:
        """Until everything but the open segment is in the object store only."""
        self.js.update_stream({**CONFIG, "metadata": {"tidelog.local_bytes": "0"}})
        end = time.monotonic() + SETTLE_S
        while True:
            info = self.info()
            cold = info["cold"]
            if (
                info["segments"] > 1
                and not cold["lag_segments"]
                and cold["messages"] + 1 >= cold["archived_seq"]
            ):
                return f"{cold['messages']:,} messages in the store only, {cold['bytes']:,} bytes"
            if time.monotonic() > end:
                raise Differs(f"it does not come to rest: {cold}")
            time.sleep(POLL_S)

    def info(self) -> dict[str, Any]:
        answer = self.js.connection.request(f"$TIDELOG.API.STREAM.INFO.{STREAM}", b"")
        found: dict[str, Any] = json.loads(answer.payload)
        return found

    def backward(self) -> str:
        self.compare(self.count, -1, self.read(StreamReader(self.js, STREAM).backward()))
        return ""

    def forward(self) -> str:
        self.compare(1, 1, self.read(StreamReader(self.js, STREAM).forward()))
        return ""

    def read(self, messages: Any) -> Iterator[tuple[int, str, bytes]]:
        return ((one.seq, one.subject, one.payload) for one in messages)

    def compare(self, seq: int, step: int, messages: Iterator[tuple[int, str, bytes]]) -> None:
        left = self.count
        for message in messages:
            if message != (seq, subject(seq), payload(seq)):
                raise Differs(f"{seq} is {message!r}")
            seq += step
            left -= 1
        if left:
            raise Differs(f"{left} messages are missing")


def main() -> int:
    parser = argparse.ArgumentParser(description="Send messages to the cold tier, and read them again.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument(
        "--url", default="", help="Of the object store; a folder beside the streams without it."
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidelog-cold-"))
    url = options.url or (folder / "bucket").as_uri()
    config = folder / "server.conf"
    config.write_text(f'{LISTENERS}tidelog {{ cold {{ url: "{url}" }} }}\n')
    command = [sys.executable, "-m", "tidelog", "serve"]
    try:
        with (
            Server(command, config, folder, Access.OPEN, folder / "ca", streams=True) as server,
            connect(f"nats://{server.ports.host}:{server.ports.port}") as connection,
        ):
            js = JetStream(connection, timeout_s=60.0)
            js.create_stream(CONFIG)
            run = Run(js, options.messages)
            run.timed("publish", run.publish)
            run.timed("until all is in the store only", run.settle)
            run.timed("read forwards", run.forward)
            run.timed("read backwards", run.backward)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"| {options.messages:,} messages | seconds | messages/s | |\n|---|---:|---:|---|")
    for what, seconds, note in run.rows:
        print(f"| {what} | {seconds:.1f} | {options.messages / seconds:,.0f} | {note} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
