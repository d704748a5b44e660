"""Nothing in a new segment is acknowledged before the segment's name is on the medium."""

from tidelog.base.clock import ManualClock
from tidelog.disk.memory import MemoryDisk
from tidelog.log.policy import STRICT, THROUGHPUT
from tidelog.log.recover import open_log
from tidelog.log.settings import LogSettings
from unit.log.log_case import Later


class Names(MemoryDisk):
    """Notes when the directory's names are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def sync_directory(self, path: str) -> None:
        self.events.append("names")
        super().sync_directory(path)


def test_the_sync_that_covers_a_new_segment_covers_its_name() -> None:
    disk, worker = Names(), Later()
    log, _ = open_log(disk, "log", LogSettings(policy=STRICT, segment_size=256), ManualClock(), worker)
    log.append(b"s", b"p" * 150)
    log.commit()
    worker.run_all()
    disk.events.clear()
    log.append(b"s", b"p" * 150)
    log.commit()
    assert len(log.store.segments) == 2
    log.wait(2, lambda _: disk.events.append("acknowledged"))
    worker.run_all()
    assert disk.events[0] == "names"
    assert "acknowledged" in disk.events


def test_a_segment_that_was_begun_and_not_written_to_makes_nothing_lost() -> None:
    disk, worker = MemoryDisk(), Later()
    settings = LogSettings(policy=THROUGHPUT, segment_size=512)
    log, _ = open_log(disk, "log", settings, ManualClock(), worker)
    log.append(b"s", b"p" * 100)
    log.commit()
    # The end comes before these are written; the files of two more segments are there already.
    for _ in range(8):
        log.append(b"s", b"p" * 100)
    assert len([path for path in disk.files if path.endswith(".seg")]) == 3
    log, findings = open_log(disk, "log", settings, ManualClock(), worker)
    assert (findings.lost, log.state().messages, log.state().lost) == ([], 1, ())
    assert log.append(b"s", b"p" * 100) == 2
    log.commit()
    assert log.reader().read().sequences() == [1, 2]


def test_sequences_that_were_skipped_stay_skipped_without_the_segment_that_follows() -> None:
    disk, worker = MemoryDisk(), Later()
    settings = LogSettings(policy=THROUGHPUT)
    log, _ = open_log(disk, "log", settings, ManualClock(), worker)
    log.skip_to(1000)
    log.commit()
    assert len([path for path in disk.files if path.endswith(".seg")]) == 1
    log, findings = open_log(disk, "log", settings, ManualClock(), worker)
    assert findings.lost == []
    assert log.append(b"s", b"p") == 1000


def test_after_a_leap_the_next_message_begins_a_segment_also_when_the_log_was_opened_between() -> None:
    disk, worker = MemoryDisk(), Later()
    settings = LogSettings(policy=THROUGHPUT)
    log, _ = open_log(disk, "log", settings, ManualClock(), worker)
    log.append(b"s", b"p")
    log.skip_to(1 << 40)
    log.commit()
    log, _ = open_log(disk, "log", settings, ManualClock(), worker)
    assert log.append(b"s", b"p") == 1 << 40
    log.commit()
    log, findings = open_log(disk, "log", settings, ManualClock(), worker)
    assert (findings.lost, log.reader().read().sequences()) == ([], [1, 1 << 40])
