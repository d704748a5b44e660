"""What is on the disk beside the logs."""

import msgspec
import pytest

from tidelog.base.errors import StorageError
from tidelog.base.limits import DIRECTORY_NAME_SIZE
from tidelog.disk.memory import MemoryDisk
from tidelog.stream.catalog import META, Catalog, directory_name, read_document, write_document


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("ORDERS", "ORDERS"),
        ("$G", "$G"),
        ("a b", "a%20b"),
        ("..", "%2E%2E"),
        ("a/b\\c", "a%2Fb%5Cc"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("100%", "100%25"),
        ("nul\x00", "nul%00"),
    ],
)
def test_names_are_written_so_that_no_two_become_one(name: str, directory: str) -> None:
    assert directory_name(name) == directory


def test_a_name_that_gets_too_long_becomes_a_digest() -> None:
    assert directory_name("x" * DIRECTORY_NAME_SIZE) == "x" * DIRECTORY_NAME_SIZE
    long = {directory_name("x" * (DIRECTORY_NAME_SIZE + 1)), directory_name("ö" * 255)}
    assert all(len(name) == 42 and name.startswith("%-") for name in long)
    assert len(long) == 2


def test_a_document_replaces_the_one_before() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    assert read_document(disk, "d/x") is None
    write_document(disk, "d/x", b"one")
    disk.create("d/x.new").append([b"left over"])
    write_document(disk, "d/x", b"two")
    assert read_document(disk, "d/x") == b"two"
    assert disk.list("d") == ["x"]


def test_a_stream_exists_while_its_document_does() -> None:
    disk = MemoryDisk()
    catalog = Catalog(disk)
    path = catalog.begin("$G", "S")
    assert path == "$G/streams/S"
    assert catalog.read(path) is None
    catalog.write(path, "$G", "S", 7, b'{"name":"S"}')
    meta = catalog.read(path)
    assert meta is not None
    assert (meta.account, meta.name, meta.created_ns, msgspec.json.decode(meta.config)) == (
        "$G",
        "S",
        7,
        {"name": "S"},
    )
    assert list(catalog.directories()) == [path]
    again = catalog.begin("$G", "S")
    assert again == "$G/streams/S.2"
    catalog.forget(path)
    assert catalog.read(path) is None
    disk.make_directory(f"{path}/log/deep")
    disk.create(f"{path}/log/deep/file")
    catalog.sweep(path)
    catalog.sweep(path)
    assert list(catalog.directories()) == [again]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "cannot be read"),
        (b'{"version":1}', "missing required field"),
        (b'{"version":2,"account":"A","name":"S","created_ns":1,"config":{}}', "is of version 2"),
    ],
)
def test_a_document_that_makes_no_sense_is_told_and_left(data: bytes, message: str) -> None:
    disk = MemoryDisk()
    catalog = Catalog(disk)
    path = catalog.begin("$G", "S")
    disk.create(f"{path}/{META}").append([data])
    with pytest.raises(StorageError, match=message):
        catalog.read(path)
    assert read_document(disk, f"{path}/{META}") == data
