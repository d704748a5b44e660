"""An export that is killed anywhere, and run again until it ends: every message once."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.client.jetstream import JetStream, Publisher
from tidelog.cold.archive import Archive
from tidelog.cold.bucket import open_bucket
from tidelog.cold.history import find_history
from tidelog.testing import Server

KILLS = int(os.environ.get("TIDELOG_EXPORT_KILLS", "3"))
# Several blocks for each kill.
COUNT = 5_000 * KILLS


@pytest.mark.parametrize("kind", ["cold", "parquet"])
@pytest.mark.timeout(240)
def test_exports_that_are_killed(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    with Server(flags=["-js", "-sd", str(tmp_path / "store")]) as server:
        js = JetStream(server.connect())
        js.create_stream({"name": "S", "subjects": ["s"], "storage": "memory"})
        publisher = Publisher(js.connection)
        for number in range(COUNT):
            publisher.publish("s", b"%06d" % number * 100)
        publisher.flush()
        command = [sys.executable, "-m", "tidelog", "export", "S", str(tmp_path / "out"), "--format", kind]
        command += ["--file-size", "1K", "-s", server.url]
        killed = files = 0
        while True:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            # Not before there is something new to be in the middle of.
            while killed < KILLS and process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.01)
                there = len(list(tmp_path.rglob("out/**/*.parquet")))
                if there > files and chance.random() < 0.5:
                    process.send_signal(signal.SIGKILL)
                    killed, files = killed + 1, there
            if process.wait() == 0:
                break
        assert killed
        if kind == "cold":
            bucket = open_bucket(f"file://{tmp_path}/out")
            archive = Archive(bucket, find_history(bucket, "S").place)
            tables = [archive.read(entry) for entry in archive.manifest.entries]
            assert [entry.name for entry in archive.manifest.entries] == bucket.names(
                f"{archive.place.folder}/data"
            )
        else:
            tables = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
        table = pa.concat_tables(tables)
    assert table["seq"].to_pylist() == list(range(1, COUNT + 1))
    assert table["payload"].to_pylist() == [b"%06d" % number * 100 for number in range(COUNT)]
