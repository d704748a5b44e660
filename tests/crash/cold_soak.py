"""Kills a server while it sends segments to the cold tier: `PYTHONPATH=tests python -m crash.cold_soak --kills 200`.

One store with one stream: each process takes over what the one before has left, gets some messages, and is killed
(SIGKILL) some moments later, while segments are surveyed, sent, compared, reduced to husks and fetched. At the end the
archive has every message of what is complete, once and without a gap, its folder has one file for each entry, and the
stream has all that was acknowledged, read forwards and backwards.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tidelog.base.chance import Chance
from tidelog.base.errors import ClientError
from tidelog.client import Connection, connect
from tidelog.client.jetstream import JetStream, Publisher, StreamReader
from tidelog.client.jetstream.own import log_info
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import open_bucket
from tidelog.testing.peer import ServerProcess, tidelog_argv

STREAM = "COLD"
CONFIG: dict[str, Any] = {
    "name": STREAM,
    "subjects": ["cold.*"],
    "allow_direct": True,
    "duplicate_window": 100_000_000,
    "metadata": {"tidelog.local_bytes": "0"},
}
# A segment has 64 of them.
SIZE = 4096
PER_ROUND = 200
# How long after the last acknowledgement a server is killed: all of it can happen in this time.
LINGER_MOST_S = 0.25
SETTLE_S = 120.0


def payload(number: int) -> bytes:
    return (b"%09d" % number).ljust(SIZE, b"%d" % (number % 10))


class ColdSupervisor:
    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.chance = Chance(seed)
        self.next_number = 0
        self.acknowledged: dict[int, int] = {}  # sequence -> number
        self.figures: Counter[str] = Counter()
        config = "tidelog { cold: enabled }"
        self.server = ServerProcess(tidelog_argv(), config=config, flags=["-js", "-sd", str(root)])

    def run(self, kills: int) -> None:
        for _ in range(kills):
            self.server.start()
            try:
                with contextlib.closing(self.connection()) as connection:
                    self.use(JetStream(connection))
                    time.sleep(self.chance.integer(1000) / 1000 * LINGER_MOST_S)
            finally:
                self.kill()
        self.server.start()
        try:
            with contextlib.closing(self.connection()) as connection:
                self.check(JetStream(connection))
        finally:
            self.server.stop()

    def connection(self) -> Connection:
        return connect(self.server.url)

    def kill(self) -> None:
        self.server.signal(signal.SIGKILL)
        self.server.wait()
        self.server.stop()
        self.figures["kills"] += 1

    def use(self, js: JetStream) -> None:
        """Publish some, a part of which may not be acknowledged; and now and then read what has gone."""
        if not self.next_number:
            js.create_stream(CONFIG)
        if self.chance.integer(4) == 0 and self.acknowledged:
            seq = 1 + self.chance.integer(max(self.acknowledged))
            with contextlib.suppress(ClientError):
                for message in StreamReader(js, STREAM).forward(seq=seq, count=100):
                    self.compare(message.seq, message.payload)
        # The sequences of a burst are known, as nobody else publishes.
        first_seq = js.stream_info(STREAM).state.last_seq + 1
        publisher = Publisher(js.connection, window=256)
        for _ in range(PER_ROUND):
            publisher.publish(f"cold.{self.next_number % 7}", payload(self.next_number))
            self.next_number += 1
        publisher.flush()
        first = self.next_number - PER_ROUND
        self.acknowledged |= {first_seq + at: first + at for at in range(PER_ROUND)}

    def compare(self, seq: int, data: bytes) -> None:
        number = int(data[:9])
        assert data == payload(number), f"{seq} is damaged"
        assert self.acknowledged.get(seq, number) == number, f"{seq} is {number} now"
        self.figures["compared"] += 1

    # ---- the end ----

    def check(self, js: JetStream) -> None:
        end = time.monotonic() + SETTLE_S
        while (cold := log_info_document(js))["lag_segments"] or cold["messages"] < 0.9 * len(
            self.acknowledged
        ) - 128:
            assert time.monotonic() < end, f"it does not come to rest: {cold}"
            time.sleep(0.05)
        assert not cold["failing"], cold
        forward = [(one.seq, one.payload) for one in StreamReader(js, STREAM).forward()]
        for seq, data in forward:
            self.compare(seq, data)
        seqs = [seq for seq, _ in forward]
        assert seqs == list(range(1, len(seqs) + 1)), "a gap, or something twice"
        missing = self.acknowledged.keys() - set(seqs)
        assert not missing, f"acknowledged, and not there: {sorted(missing)[:10]}"
        backward = [(one.seq, one.payload) for one in StreamReader(js, STREAM).backward()]
        assert backward == forward[::-1]
        self.check_archive(js, dict(forward), cold["archived_seq"])
        self.figures["acknowledged"] = len(self.acknowledged)
        self.figures["cold"] = cold["messages"]

    def check_archive(self, js: JetStream, stored: dict[int, bytes], end_seq: int) -> None:
        info = log_info(js, STREAM)
        place = Place(info.account, STREAM, bytes.fromhex(info.log_id))
        archive = Archive(open_bucket(info.cold_url), place)
        entries = archive.manifest.entries
        assert (entries[0].start_seq, entries[-1].end_seq) == (1, end_seq)
        seqs: list[int] = []
        for entry in entries:
            table = archive.read(entry)
            seqs += table["seq"].to_pylist()
            payloads = table["payload"].to_pylist()
            assert payloads == [stored[seq] for seq in table["seq"].to_pylist()], (
                f"{entry.name} has other messages"
            )
        assert seqs == list(range(1, end_seq)), "a hole in the archive, or something twice"
        names = archive.bucket.names(f"{place.folder}/data")
        assert names == [entry.name for entry in entries], "files that nobody has named"
        self.figures["files"] = len(names)


def log_info_document(js: JetStream) -> dict[str, Any]:
    answer = js.connection.request(f"$TIDELOG.API.STREAM.INFO.{STREAM}", b"")
    found: dict[str, Any] = json.loads(answer.payload)["cold"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a server that sends history away, and compare.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tidelog-cold-crash-"))
    print(f"cold soak: seed {options.seed}, in {root}", flush=True)
    begun = time.monotonic()
    supervisor = ColdSupervisor(root, options.seed)
    supervisor.run(options.kills)
    shutil.rmtree(root)
    print(json.dumps({"seconds": round(time.monotonic() - begun, 1), **supervisor.figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
