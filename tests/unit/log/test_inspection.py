"""What a file of a log shows, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.base.clock import ManualClock
from tidelog.base.errors import KeyUnavailable, StorageError
from tidelog.disk.memory import MemoryDisk
from tidelog.log.cursor import CursorStore
from tidelog.log.inspection import Document, inspect_file
from tidelog.log.key_ring import Key, KeyRing
from tidelog.log.packed import pack
from unit.log.log_files import FIRST, LAST, fill

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    fill(disk)
    return disk


def entries(disk: MemoryDisk, path: str, kind: str = "") -> list[Document]:
    return [entry for entry in inspect_file(disk, path).entries if kind in ("", entry["type"])]


def test_a_segment_shows_every_record(disk: MemoryDisk) -> None:
    found = inspect_file(disk, f"{LAST}.seg")
    assert (found.kind, found.problems) == ("segment", [])
    assert (found.header["base_seq"], found.header["messages"], found.header["last_seq"]) == (114, 7, 120)
    shown = list(found.entries)
    assert shown[0] == {
        "type": "message",
        "pos": 64,
        "size": 51,
        "seq": 114,
        "ts_ns": shown[0]["ts_ns"],
        "subject": b"orders.1",
        "header": b"",
        "payload": b"payload 113",
    }
    assert [entry["seq"] for entry in shown if entry["type"] == "message"] == list(range(114, 121))
    assert [entry["ranges"] for entry in shown if entry["type"] == "delete"] == [[(118, 1, 51)]]


def test_golden_segment_and_index_show_the_same_subjects() -> None:
    disk = MemoryDisk()
    for name in ("00000000000000000010.seg", "00000000000000000010.idx"):
        disk.files[name] = bytearray((GOLDEN / name).read_bytes())
    records = entries(disk, "00000000000000000010.seg")
    assert [entry["type"] for entry in records] == [
        "trim", "message", "message", "delete", "message", "skip", "message", "message",
    ]  # fmt: skip
    assert records[0]["first_seq"] == 10
    assert records[5]["next_seq"] == 18
    assert records[2]["expiry_ns"] == 5000
    rows = entries(disk, "00000000000000000010.idx")
    assert {row["subject"]: (row["messages"], row["first_seq"], row["last_seq"]) for row in rows} == {
        b"orders": (1, 18, 18),
        b"orders.eu": (3, 12, 19),
        b"orders.us": (1, 13, 13),
    }


@pytest.mark.parametrize(
    ("pos", "value", "why"),
    [
        (10, b"\xff", "the checksum does not match"),
        (4, b"\x01\x00\x00\x00", "a record of 1 bytes is impossible"),
        (4, b"\xff\xff\xff\x00", "cut short: "),
        (24, b"\x09", "kind 9 is not known"),
        (25, b"\x08", "flags 8 are not known"),
        (28, b"\xff\xff\x00\x00", "subject and headers do not fit into 51 bytes"),
        (0, bytes(51), "zeros, which are no record"),
        (0, b"again", "valid and out of order: message 114"),
    ],
)
def test_damage_is_shown_with_its_reason_and_what_follows_too(
    disk: MemoryDisk, pos: int, value: bytes, why: str
) -> None:
    data = disk.files[f"{LAST}.seg"]
    start = 64 + 51 + 51
    if value == b"again":
        data[start : start + 51] = data[64 : 64 + 51]
    else:
        data[start + pos : start + pos + len(value)] = value
    found = inspect_file(disk, f"{LAST}.seg")
    shown = list(found.entries)
    assert found.problems == [f"51 bytes at {start} are damaged"]
    assert [entry["type"] for entry in shown[:4]] == ["message", "message", "damage", "message"]
    assert (shown[2]["pos"], shown[2]["size"]) == (start, 51)
    assert shown[2]["reason"].startswith(why)
    assert shown[-1]["type"] == "delete"


def test_cut_anywhere_a_segment_shows_what_is_left(disk: MemoryDisk) -> None:
    whole = bytes(disk.files[f"{LAST}.seg"])
    count = len(entries(disk, f"{LAST}.seg"))
    for size in range(8, len(whole), 7):
        disk.files[f"{LAST}.seg"] = bytearray(whole[:size])
        shown = entries(disk, f"{LAST}.seg")
        kept = [entry for entry in shown if entry["type"] != "damage"]
        assert len(kept) < count
        assert sum(entry["size"] for entry in shown) == max(0, size - 64)


def test_a_segment_without_a_header_is_known_by_its_name(disk: MemoryDisk) -> None:
    disk.files[f"{LAST}.seg"][:64] = bytes(64)
    found = inspect_file(disk, f"{LAST}.seg")
    assert "is not a segment" in found.problems[0]
    assert [entry["seq"] for entry in found.entries if entry["type"] == "message"] == list(range(114, 121))


def test_a_packed_segment_shows_what_the_plain_one_does(disk: MemoryDisk) -> None:
    plain = entries(disk, f"{FIRST}.seg")
    key = Key("k1", bytes(32))
    disk.files[f"{FIRST}.seg"] = bytearray(pack(bytes(disk.files[f"{FIRST}.seg"]), "zstd", key, bytes(32)))
    found = inspect_file(disk, f"{FIRST}.seg", KeyRing((key,)))
    assert (found.header["compression"], found.header["cipher"], found.header["key_id"]) == (
        "zstd",
        "aes",
        "k1",
    )
    assert list(found.entries) == plain
    with pytest.raises(KeyUnavailable):
        inspect_file(disk, f"{FIRST}.seg")


def test_an_index_that_is_damaged_says_why(disk: MemoryDisk) -> None:
    disk.files[f"{FIRST}.idx"][-1] ^= 1
    found = inspect_file(disk, f"{FIRST}.idx")
    assert found.problems == ["checksum of the body"]
    assert found.header["base_seq"] == 1
    disk.files[f"{FIRST}.idx"] = bytearray(b"TIDEIDX1")
    assert inspect_file(disk, f"{FIRST}.idx").problems == ["cut short: 8 bytes"]


def test_a_snapshot_shows_segments_and_subjects(disk: MemoryDisk) -> None:
    found = inspect_file(disk, "log/snapshot")
    assert (found.header["messages"], found.header["first_seq"], found.header["subjects"]) == (114, 3, 7)
    shown = list(found.entries)
    assert [entry["base_seq"] for entry in shown if entry["type"] == "segment"] == [1, 39, 76, 114]
    assert sum(entry["messages"] for entry in shown if entry["type"] == "subject") == 114
    disk.files["log/snapshot"][50] ^= 1
    assert inspect_file(disk, "log/snapshot").problems == ["checksum"]


def test_cursors_and_ceiling(disk: MemoryDisk) -> None:
    store = CursorStore.open(disk, "log", ManualClock())
    for seq in (3, 5):
        store.set("a", seq)
        store.set("b", seq + 1)
        store.sync()
    store.close()
    found = inspect_file(disk, "log/cursors")
    assert (found.kind, found.header["cursors"], found.problems) == ("cursors", 2, [])
    assert [(entry["name"], entry["seq"]) for entry in found.entries] == [("a", 5), ("b", 6)]
    disk.files["log/cursors"][130] ^= 1
    found = inspect_file(disk, "log/cursors")
    assert found.problems == ["1 records are lost"]
    assert next(found.entries)["pos"] == 32 + 2 * 49
    fill(disk, close=False)
    found = inspect_file(disk, "log/ceiling")
    assert (found.kind, found.header["boot_id"]) == ("ceiling", "memory")
    disk.files["log/ceiling"][12] ^= 3
    assert inspect_file(disk, "log/ceiling").problems == ["the checksum does not match"]


def test_anything_else_is_refused(disk: MemoryDisk) -> None:
    disk.files["log/notes"] = bytearray(b"hello")
    with pytest.raises(StorageError, match="no file of a log"):
        inspect_file(disk, "log/notes")
