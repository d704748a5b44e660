"""Followers against a list: whoever waits hears of every message that they want, whatever else comes and goes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.clock import ManualClock
from tidelog.disk.memory import MemoryDisk
from tidelog.log.filter import Filter
from tidelog.log.log import Log
from tidelog.log.policy import STRICT
from tidelog.log.recover import open_log
from tidelog.log.settings import Limits, LogSettings
from unit.log.log_case import Later

SUBJECTS = (b"a", b"a.b", b"a.b.c", b"b.b", b"b.c", b"c", b"a..b", b".a")
PATTERNS = ((), (b">",), (b"a",), (b"a.*",), (b"a.>",), (b"*.b",), (b"b.b", b"c"), (b"x.y",), (b"a.*.b",))
STEP = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("append"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("follow"), st.sampled_from(PATTERNS)),
    st.tuples(st.sampled_from(["commit", "synced", "purge"]), st.none()),
    st.tuples(st.sampled_from(["wait", "rest", "end"]), st.integers(0, 5)),
)


class Watcher:
    """What a follower must hear: the first message that it wants and that is committed while it waits."""

    def __init__(self, log: Log, filter: Filter) -> None:
        self.log = log
        self.filter = filter
        self.waits = False
        self.seen_seq = 0
        self.calls = 0
        self.follower = log.follow(filter, self.call)

    def call(self) -> None:
        assert self.waits, "called, though it does not wait"
        self.waits = False
        self.calls += 1

    def wait(self) -> None:
        self.waits = True
        self.seen_seq = self.log.horizon.committed_seq
        self.follower.wait()


@given(st.lists(STEP, max_size=60))
def test_who_waits_hears_of_what_is_committed_and_wanted(steps: list[tuple[str, Any]]) -> None:
    """FOLLOW-1."""
    worker = Later()
    settings = LogSettings(policy=STRICT, limits=Limits(max_per_subject=2))
    log, _ = open_log(MemoryDisk(), "log", settings, ManualClock(), worker)
    subjects: list[bytes] = []
    watchers: list[Watcher] = []
    for action, value in steps:
        if action == "append":
            log.append(value, b"")
            subjects.append(value)
        elif action == "follow":
            watchers.append(Watcher(log, Filter(*value)))
        elif action == "commit":
            log.commit()
        elif action == "synced":
            worker.run_all()
        elif action == "purge":
            log.purge()
        elif value < len(watchers):
            watcher = watchers[value]
            if action == "wait":
                watcher.wait()
                continue
            watcher.waits = False
            if action == "rest":
                watcher.follower.rest()
            else:
                watcher.follower.end()
                watchers.remove(watcher)
        committed_seq = log.horizon.committed_seq
        for watcher in watchers:
            new = subjects[watcher.seen_seq : committed_seq]
            wanted = any(map(watcher.filter.accepts, new))
            assert not (watcher.waits and wanted), (watcher.filter, new)
    assert log.horizon.waiting() == sum(watcher.waits for watcher in watchers)
