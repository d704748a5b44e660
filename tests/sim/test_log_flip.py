"""One bit turns, in every byte of every file of a small log: at most the message that it hit is lost; it is said."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.base.chance import Chance
from tidelog.base.clock import ManualClock
from tidelog.base.work import Inline
from tidelog.disk.memory import MemoryDisk
from tidelog.log.key_ring import SECRET_SIZE, Key, KeyRing
from tidelog.log.log import Log
from tidelog.log.packed import PackedFile, is_packed
from tidelog.log.policy import STRICT
from tidelog.log.read import Message
from tidelog.log.recover import Findings, open_log
from tidelog.log.settings import LogSettings

SETTINGS = LogSettings(policy=STRICT, segment_size=500, window_size=0)
KEYS = KeyRing((Key("one", b"1" * SECRET_SIZE),))


def opened(disk: MemoryDisk, settings: LogSettings = SETTINGS) -> tuple[Log, Findings]:
    return open_log(disk, "log", settings, ManualClock(), Inline())


def small_log(closed: bool) -> dict[str, bytes]:
    disk = MemoryDisk()
    log, _ = opened(disk)
    for number in range(24):
        log.append(
            b"s.%d" % (number % 3), b"message %d" % number, b"header", expiry_ns=0 if number % 4 else 1 << 62
        )
        log.commit()
    log.remove(5)
    log.remove(13, erase=True)
    log.commit()
    if closed:
        log.close()
    return {name: bytes(data) for name, data in disk.files.items()}


def messages(log: Log) -> dict[int, Message]:
    found: dict[int, Message] = {}
    reader = log.reader()
    while len(batch := reader.read()):
        found |= {message.seq: message for message in batch}
    return found


@pytest.mark.parametrize("closed", [False, True])
def test_one_bit_in_every_byte(closed: bool) -> None:
    files = small_log(closed)
    assert sum(name.endswith(".seg") for name in files) >= 3
    whole = messages(opened(disk_with(files))[0])
    deleted = {5, 13}
    assert set(whole) == set(range(1, 25)) - deleted
    costs = 0
    for name, data in files.items():
        for pos in range(len(data)):
            damaged = bytearray(data)
            damaged[pos] ^= 1 << pos % 8
            log, findings = opened(disk_with({**files, name: bytes(damaged)}))
            said = {seq for start_seq, end_seq in findings.lost for seq in range(start_seq, end_seq)}
            log.store.on_lost = lambda start_seq, end_seq, said=said: said.update(range(start_seq, end_seq))
            found = messages(log)
            lost = set(whole) - set(found)
            costs += len(lost)
            where = f"bit {pos % 8} of byte {pos} of {name}"
            assert all(found[seq] == whole[seq] for seq in set(found) - deleted), where
            # A delete that is damaged itself does not delete; what is erased does not come back even so.
            assert 13 not in found, where
            assert len(lost) <= 1, f"{where} has cost {lost}"
            assert not lost or name.endswith(".seg"), where
            assert lost <= said or findings.cut_size, f"nobody says that {where} has cost {lost}"
    assert costs > 100


def disk_with(files: dict[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("log")
    for name, data in files.items():
        disk.create(name).append([data])
    return disk


@pytest.mark.parametrize("seed", range(4))
def test_bits_anywhere_in_a_larger_log(seed: int) -> None:
    """`sim.log_life` does this at the end of every log, with all settings; this is the plain case, alone."""
    chance, disk = Chance(seed), MemoryDisk()
    settings = LogSettings(policy=STRICT, segment_size=20_000)
    log, _ = open_log(disk, "log", settings, ManualClock(), Inline())
    for number in range(600):
        log.append(b"s.%d" % (number % 50), b"x" * (number % 200))
    log.commit()
    files = {name: bytes(data) for name, data in disk.files.items()}
    names = sorted(files)
    for _ in range(60):
        name = names[chance.integer(len(names))]
        damaged = bytearray(files[name])
        pos = chance.integer(len(damaged))
        damaged[pos] ^= 1 << chance.integer(8)
        log, findings = open_log(
            disk_with({**files, name: bytes(damaged)}), "log", settings, ManualClock(), Inline()
        )
        count = len(messages(log))
        lost = sum(end_seq - start_seq for start_seq, end_seq in log.state().lost)
        assert count >= 599, f"byte {pos} of {name}"
        assert count == 600 or lost == 1 or findings.cut_size or findings.lost, f"byte {pos} of {name}"


@pytest.mark.parametrize(
    "method", [{"compression": "zstd"}, {"encrypt": True}, {"compression": "zstd", "encrypt": True}]
)
@pytest.mark.parametrize("closed", [False, True])
def test_one_bit_in_every_byte_of_packed_segments(method: dict[str, Any], closed: bool) -> None:
    """Nothing is lost by it, and it is said, but where no more than an index is made again."""
    settings = LogSettings(policy=STRICT, segment_size=1500, window_size=0, keys=KEYS, **method)
    disk = MemoryDisk()
    log, _ = opened(disk, settings)
    for number in range(60):
        log.append(b"s.%d" % (number % 3), b"message %d" % number, b"header")
        log.commit()
    log.remove(5)
    log.commit()
    if closed:
        log.close()
    files = {name: bytes(data) for name, data in disk.files.items()}
    packed = [name for name, data in files.items() if name.endswith(".seg") and is_packed(data)]
    assert len(packed) >= 2
    whole = messages(opened(disk_with(files), settings)[0])
    assert len(whole) == 59
    for name in packed:
        for pos in range(len(files[name])):
            damaged = bytearray(files[name])
            damaged[pos] ^= 1 << pos % 8
            log, findings = opened(disk_with({**files, name: bytes(damaged)}), settings)
            where = f"bit {pos % 8} of byte {pos} of {name}"
            assert messages(log) == whole, where
            block = PackedFile(disk_with({name: bytes(damaged)}).open(name), KEYS).damage == []
            log.tick()
            assert log.keeper.figures.repaired == block or findings.notes, where
