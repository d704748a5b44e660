"""The same over S3's protocol: a real server from a package, started on free ports of this machine."""

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
from unit.cold.test_archive import PLACE, add, payloads

WEED = Path(sys.executable).parent / "weed"
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


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("s3")
    ports = [free_port() for _ in range(4)]
    names = ("-master.port", "-volume.port", "-filer.port", "-s3.port")
    options = [f"{name}={port}" for name, port in zip(names, ports, strict=True)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                WEED,
                "server",
                f"-dir={folder}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-s3",
                "-volume.max=5",
                *options,
            ],
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(ports, server, folder / "log")
            url = f"http://127.0.0.1:{ports[3]}"
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
