"""The same over S3's protocol: a real server from a package, and moto, started on free ports of this machine."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tidelog.base.errors import ColdError, ColdMissing
from tidelog.cold.archive import Archive
from tidelog.cold.bucket import open_bucket
from tidelog.cold.compaction import Compaction
from tidelog.cold.history import find_history, places
from tidelog.cold.scan import groups
from unit.cold.test_archive import PLACE, add, payloads

WEED = Path(sys.executable).parent / "weed"
MOTO = Path(__file__).parents[3] / "build" / "moto" / "bin" / "moto_server"
START_S = 40.0
# The S3 server derives a second port from each of its ports, by adding 10,000.
PORT_MOST = 50_000
BUCKET = "cold"
numbers = count()


def free_port() -> int:
    while True:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
        if port < PORT_MOST:
            return port


@pytest.fixture(scope="module", params=["seaweedfs", "moto"])
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("s3")
    if request.param == "moto" and not MOTO.exists():
        pytest.skip("moto lives in an environment of its own, which `make test` makes")
    ports = [free_port() for _ in range(4)]
    with (folder / "log").open("wb") as log:
        if request.param == "moto":
            ports = ports[:1]
            words = [str(MOTO), "-H", "127.0.0.1", "-p", str(ports[0])]
        else:
            names = ("-master.port", "-volume.port", "-filer.port", "-s3.port")
            options = [f"{name}={port}" for name, port in zip(names, ports, strict=True)]
            where = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
            words = [str(WEED), "server", *where, "-s3", "-volume.max=5", *options]
        server = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            wait_for(ports, server, folder / "log")
            url = f"http://127.0.0.1:{ports[-1]}"
            make_bucket(url)
            yield url
        finally:
            server.kill()
            server.wait()
    shutil.rmtree(folder, ignore_errors=True)


def wait_for(ports: list[int], server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    for port in ports:
        while True:
            assert server.poll() is None, log.read_text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < end, log.read_text()
                threading.Event().wait(0.05)


def make_bucket(endpoint: str) -> None:
    """The server is up before there is room in it."""
    request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
    urllib.request.urlopen(request, timeout=20).close()
    end = time.monotonic() + START_S
    while True:
        try:
            put = urllib.request.Request(f"{endpoint}/{BUCKET}/ready", data=b"1", method="PUT")
            urllib.request.urlopen(put, timeout=20).close()
            return
        except urllib.error.HTTPError:
            assert time.monotonic() < end
            threading.Event().wait(0.1)


@pytest.fixture
def url(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/history/{next(numbers)}"


def test_what_was_put_is_there(url: str) -> None:
    bucket = open_bucket(url)
    assert bucket.put_new("a/b/one", b"1")
    assert bucket.put_new("a/two", b"2")
    assert bucket.names("a") == ["a/b/one", "a/two"]
    assert bucket.get("a/two") == b"2"
    bucket.replace("a/two", b"3")
    assert bucket.get("a/two") == b"3"
    bucket.remove("a/two")
    bucket.remove("a/two")
    with pytest.raises(ColdMissing):
        bucket.get("a/two")


def test_of_many_at_a_time_one_is_first(url: str) -> None:
    """COLD-1"""
    bucket = open_bucket(url)
    for name in ("a", "b"):
        first: list[int] = []

        def attempt(number: int, name: str = name, first: list[int] = first) -> None:
            if bucket.put_new(name, b"%d" % number):
                first.append(number)

        threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(first) == 1
        assert bucket.get(name) == b"%d" % first[0]


def test_an_archive(url: str) -> None:
    """COLD-5, COLD-6"""
    one, two = Archive(open_bucket(url), PLACE), Archive(open_bucket(url), PLACE)
    for number in range(4):
        for archive in (one, two) if number % 2 else (two, one):
            add(archive, number)
    one.trim(15)
    again = Archive(open_bucket(url), PLACE)
    assert payloads(again) == [b"payload %d" % seq for seq in range(11, 41)]


def test_files_are_found_scanned_and_merged(url: str) -> None:
    """COLD-11, and reading by ranges: of a large object only what is asked for crosses the wire."""
    bucket = open_bucket(url)
    archive = Archive(bucket, PLACE)
    for number in range(4):
        add(archive, number)
    before = payloads(archive)
    assert places(bucket) == [PLACE]
    assert Compaction(bucket, PLACE).run().merged == 4
    history = find_history(bucket, PLACE.stream)
    (entry,) = history.manifest.entries
    found = [
        payload
        for group in groups(bucket, entry, 5, 35)
        for batch in group.batches(["seq", "payload"])
        for payload in batch.column("payload").to_pylist()
    ]
    assert found == before[4:34]
    bucket.remove(entry.name)
    with pytest.raises(ColdMissing):
        list(groups(bucket, entry, 5, 35))


def test_a_store_that_is_not_there_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    bucket = open_bucket(url, retry_s=0.2)
    with pytest.raises(ColdError, match=r"cannot create a in s3://cold/history/\d+: "):
        bucket.put_new("a", b"1")


def test_keys_come_from_the_environment_and_are_not_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ColdError) as caught:
        open_bucket(url, retry_s=0.2).names("")
    assert "very-secret" not in str(caught.value)
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "very-secret"
