"""An object store as the cold tier needs it."""

from pathlib import Path

import pytest

from tidelog.base.errors import ColdError, ColdMissing, ConfigError
from tidelog.cold.bucket import Bucket, open_bucket


@pytest.fixture(params=["file", "memory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return open_bucket(f"file://{tmp_path}/cold store" if request.param == "file" else "memory:///")


def test_what_was_put_is_there(bucket: Bucket) -> None:
    assert bucket.put_new("a/b/one", b"1")
    assert bucket.put_new("a/two", b"")
    assert (bucket.get("a/b/one"), bucket.get("a/two")) == (b"1", b"")
    assert bucket.names("a") == ["a/b/one", "a/two"]
    assert bucket.names("a/b") == ["a/b/one"]
    assert bucket.names("nothing") == []


def test_the_first_of_a_name_stays(bucket: Bucket) -> None:
    """COLD-1"""
    assert bucket.put_new("a", b"first")
    assert not bucket.put_new("a", b"second")
    assert bucket.get("a") == b"first"
    bucket.replace("a", b"third")
    assert bucket.get("a") == b"third"


def test_what_was_removed_is_gone(bucket: Bucket) -> None:
    bucket.put_new("a", b"1")
    bucket.remove("a")
    bucket.remove("a")
    assert bucket.names("") == []
    with pytest.raises(ColdMissing, match="there is no a in "):
        bucket.get("a")
    assert bucket.put_new("a", b"2")


def test_a_failure_says_what_was_tried(tmp_path: Path) -> None:
    bucket = open_bucket(f"file://{tmp_path}")
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(ColdError, match=f"cannot create a/b in file://{tmp_path}: "):
        bucket.put_new("a/b", b"1")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("/var/cold", "is no object store: it begins with file://, s3://"),
        ("ftp://x/y", "is no object store"),
        ("file://var/cold", "names no folder"),
        ("file:///", "names no folder"),
        ("s3://key:secret@bucket/x", "keys of an object store stand in the environment"),
    ],
)
def test_what_cannot_be_a_bucket(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        open_bucket(url)
    assert "secret" not in str(caught.value)
