"""All streams of a server: made, found, changed, deleted, and there again after a restart."""

from typing import Any

import pytest

from sim.disk import SimDisk
from tidelog.base.work import Inline
from tidelog.disk.memory import MemoryDisk
from tidelog.log.policy import BALANCED, DURABLE, STRICT, THROUGHPUT, SyncPolicy
from tidelog.stream.engine import EngineSettings
from tidelog.stream.failure import ApiFailure
from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.surroundings import AccountLimits
from tidelog.subject.interest import Interest
from unit.stream.shore import Shore, contents


@pytest.fixture
def shore() -> Shore:
    return Shore()


@pytest.mark.parametrize("clean", [True, False])
def test_streams_are_there_after_a_restart(shore: Shore, clean: bool) -> None:
    """ENGINE-1"""
    shore.stream("A", max_msgs=5, metadata={"k": "v"})
    shore.stream("B C/1", subjects=["b"])
    made = shore.account.find("A")
    for number in range(7):
        shore.publish(b"A.%d" % number, b"payload")
    shore.publish(b"b")
    if clean:
        shore.restart()
    else:
        shore.crash()
    assert shore.recovery.streams == 2
    assert shore.account.names() == ["A", "B C/1"]
    found = shore.account.find("A")
    assert (found.config, found.created_ns) == (made.config, made.created_ns)
    assert contents(found) == [(seq, b"A.%d" % (seq - 1), b"payload") for seq in range(3, 8)]
    assert shore.publish(b"A.x")["seq"] == 8


def test_streams_in_memory_are_gone_after_a_restart(shore: Shore) -> None:
    shore.stream(storage="memory")
    assert shore.publish(b"S.a")["seq"] == 1
    shore.restart()
    assert shore.account.names() == []


def test_a_deleted_stream_is_gone_and_its_name_is_free(shore: Shore) -> None:
    shore.stream()
    shore.publish(b"S.a", b"old")
    shore.account.delete("S")
    assert shore.account.names() == []
    assert shore.account.post.publish(b"S.a", b"") == 0
    with pytest.raises(ApiFailure, match="stream not found"):
        shore.account.delete("S")
    shore.stream()
    assert shore.publish(b"S.a", b"new")["seq"] == 1
    shore.restart()
    assert contents(shore.account.find("S")) == [(1, b"S.a", b"new")]


def test_a_name_is_free_while_what_is_left_of_its_stream_is_being_removed() -> None:
    class Later(Inline):
        def __init__(self) -> None:
            self.jobs: list[tuple[Any, Any]] = []

        def submit(self, job: Any, done: Any) -> None:
            self.jobs.append((job, done))

        def work(self, count: int | None = None) -> None:
            while self.jobs and count != 0:
                super().submit(*self.jobs.pop(0))
                count = None if count is None else count - 1

    worker = Later()
    shore = Shore(worker=worker, settings=EngineSettings(policy=THROUGHPUT))
    shore.stream()
    worker.work()
    shore.publish(b"S.a", b"old")
    shore.account.delete("S")
    worker.work(1)
    shore.stream()
    removing = worker.jobs.pop(0)
    worker.work()
    shore.publish(b"S.a", b"new")
    worker.jobs.append(removing)
    worker.work()
    shore.crash()
    assert shore.disk.list("$G/streams") == ["S.2"]
    assert contents(shore.account.find("S")) == [(1, b"S.a", b"new")]


def test_what_was_never_finished_goes_away(shore: Shore) -> None:
    shore.engine.catalog.begin("$G", "HALF")
    shore.crash()
    assert shore.account.names() == []
    assert shore.disk.list("$G/streams") == []


def test_a_stream_that_cannot_be_opened_holds_up_no_other(shore: Shore) -> None:
    """ENGINE-2"""
    for name in ("BAD", "COPY", "GOOD", "WORSE"):
        shore.stream(name)
        shore.publish(b"%s.a" % name.encode())
    disk = shore.disk
    assert isinstance(disk, MemoryDisk)
    disk.files["$G/streams/BAD/meta.json"][:1] = b"x"
    disk.files["$G/streams/COPY/meta.json"][:] = disk.files["$G/streams/GOOD/meta.json"].replace(
        b'"COPY"', b'"GOOD"'
    )
    log = next(
        path for path in disk.files if path.startswith("$G/streams/WORSE/log") and path.endswith(".seg")
    )
    disk.files[log.replace("/0", "/1")] = bytearray(
        disk.files["$G/streams/GOOD/log/" + log.rpartition("/")[2]]
    )
    before = {path: bytes(data) for path, data in disk.files.items() if "/BAD/" in path}
    shore.crash()
    assert shore.account.names() == ["GOOD"]
    failures = shore.recovery.failures
    assert sorted(failures) == ["$G/streams/BAD", "$G/streams/GOOD", "$G/streams/WORSE"] or sorted(
        failures
    ) == ["$G/streams/BAD", "$G/streams/COPY", "$G/streams/WORSE"]
    assert "cannot be read" in failures["$G/streams/BAD"]
    assert "segments of 2 logs" in failures["$G/streams/WORSE"]
    assert {path: bytes(data) for path, data in disk.files.items() if "/BAD/" in path} == before
    assert len(shore.lines.of("error")) == 3


def test_streams_of_an_account_that_is_gone_are_left_alone(shore: Shore) -> None:
    other = shore.engine.open_account("OTHER", shore.interest)
    other.create(StreamConfig(name="S", subjects=["s"]))
    shore.restart()
    assert shore.recovery.failures == {"OTHER/streams/S": "there is no account 'OTHER' that may have streams"}
    assert shore.disk.exists("OTHER/streams/S/meta.json")


# ---- finding and changing ----


def test_streams_are_found_by_subject(shore: Shore) -> None:
    shore.stream("A", subjects=["a.*", "c"])
    shore.stream("B", subjects=["b.>"])
    names = shore.account.names
    assert names() == ["A", "B"]
    assert names("a.1") == names("a.>") == names("c") == ["A"]
    assert names(">") == ["A", "B"]
    assert names("d") == []
    with pytest.raises(ApiFailure, match="stream not found"):
        shore.account.find("C")


def test_the_same_stream_again_is_the_one_that_is_there(shore: Shore) -> None:
    stream = shore.stream()
    assert shore.stream() is stream
    with pytest.raises(ApiFailure, match="different configuration"):
        shore.stream(max_msgs=1)


def test_subjects_may_not_overlap(shore: Shore) -> None:
    shore.stream("A", subjects=["a.*", "b"])
    for subject in ("a.1", "a.>", "*", ">"):
        with pytest.raises(ApiFailure, match="subjects overlap"):
            shore.stream("B", subjects=["x", subject])
    shore.stream("B", subjects=["a", "a.1.2"])
    config = shore.account.find("B").config.copy()
    config.subjects = ["b"]
    with pytest.raises(ApiFailure, match="subjects overlap"):
        shore.account.update(config)


def test_an_update_holds_at_once_and_after_a_restart(shore: Shore) -> None:
    stream = shore.stream(subjects=["a", "b"])
    for _ in range(4):
        shore.publish(b"a")
    config = stream.config.copy()
    config.subjects = ["b", "c"]
    config.max_msgs = 2
    assert shore.account.update(config) is stream
    assert [seq for seq, _, _ in contents(stream)] == [3, 4]
    assert shore.account.post.publish(b"a", b"") == 0
    assert shore.publish(b"c")["seq"] == 5
    shore.crash()
    assert shore.account.find("S").config == config


def test_a_stream_may_begin_at_a_later_sequence(shore: Shore) -> None:
    stream = shore.stream(first_seq=100)
    assert (stream.log.state().first_seq, stream.log.state().last_seq) == (100, 99)
    assert shore.publish(b"S.a")["seq"] == 100
    shore.crash()
    assert shore.publish(b"S.a")["seq"] == 101


# ---- what an account may have ----


def test_so_many_streams_and_no_more() -> None:
    shore = Shore(limits=AccountLimits(max_streams=1))
    shore.stream("A")
    with pytest.raises(ApiFailure, match="maximum number of streams"):
        shore.stream("B")
    shore.stream("A")


@pytest.mark.parametrize(
    ("storage", "limits", "settings"),
    [
        ("file", {"max_storage": 100}, {}),
        ("memory", {"max_memory": 100}, {}),
        ("file", {}, {"max_file_size": 100}),
        ("memory", {}, {"max_memory_size": 100}),
    ],
)
def test_streams_may_reserve_so_much(storage: str, limits: dict[str, int], settings: dict[str, int]) -> None:
    shore = Shore(limits=AccountLimits(**limits), settings=EngineSettings(**settings))
    shore.stream("A", storage=storage, max_bytes=60)
    with pytest.raises(ApiFailure, match=r"insufficient (storage|memory) resources"):
        shore.stream("B", storage=storage, max_bytes=41)
    stream = shore.stream("B", storage=storage, max_bytes=40)
    assert shore.account.reserved_size(storage) == 100
    config = stream.config.copy()
    config.max_bytes = 41
    with pytest.raises(ApiFailure, match=r"insufficient (storage|memory) resources"):
        shore.account.update(config)


def test_a_stream_may_have_to_say_how_much_it_takes() -> None:
    shore = Shore(limits=AccountLimits(max_bytes_required=True, storage_max_stream_bytes=50))
    with pytest.raises(ApiFailure, match="max bytes"):
        shore.stream("A")
    with pytest.raises(ApiFailure, match="exceeds account limit"):
        shore.stream("A", max_bytes=51)
    shore.stream("A", max_bytes=50)


def test_what_is_stored_counts_for_the_account_and_the_server(shore: Shore) -> None:
    other = shore.engine.open_account("OTHER", Interest())
    shore.stream("A", storage="memory")
    stream = shore.stream("B")
    shore.publish(b"B.1", b"p" * 100)
    shore.publish(b"B.2", b"p" * 100)
    one = (30 + 3 + 100, 0)
    assert (shore.account.file.used, shore.account.memory.used) == (2 * one[0], 0)
    assert (shore.engine.file.used, other.file.used) == (2 * one[0], 0)
    stream.delete(1)
    shore.publish(b"A.1")
    assert (shore.account.file.used, shore.account.memory.used) == (one[0], 16 + 3)
    shore.restart()
    assert (shore.account.file.used, shore.account.memory.used) == one
    shore.account.delete("B")
    assert shore.account.file.used == shore.engine.file.used == 0


def test_more_than_the_account_or_the_server_may_have_is_refused() -> None:
    shore = Shore(limits=AccountLimits(max_storage=100), settings=EngineSettings(max_memory_size=100))
    shore.stream("A")
    shore.stream("M", storage="memory")
    assert shore.publish(b"A.1", b"p" * 65)["seq"] == 1
    assert shore.refused(b"A.1", b"") == (10002, "resource limits exceeded for account")
    assert shore.publish(b"M.1", b"p" * 65)["seq"] == 1
    assert shore.refused(b"M.1", b"") == (10023, "insufficient resources")
    shore.account.find("A").delete(1)
    assert shore.publish(b"A.1", b"p" * 65)["seq"] == 2
    shore.account.set_limits(AccountLimits(max_storage=200))
    assert shore.publish(b"A.1", b"p" * 65)["seq"] == 3
    assert shore.refused(b"A.1")[0] == 10002


# ---- when it is synced ----


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, DURABLE),
        ({"persist_mode": "async"}, THROUGHPUT),
        ({"storage": "memory", "metadata": {"tidelog.sync": "strict"}}, THROUGHPUT),
        ({"metadata": {"tidelog.sync": "strict"}}, STRICT),
        ({"metadata": {"tidelog.sync": "balanced"}, "persist_mode": "async"}, BALANCED),
        (
            {"metadata": {"tidelog.sync": '{"messages":7,"interval":"250ms"}'}},
            SyncPolicy(messages=7, interval_ns=250_000_000),
        ),
        ({"metadata": {"tidelog.sync": '{"on_commit":true}'}}, STRICT),
    ],
)
def test_the_configuration_says_when_it_is_synced(fields: dict[str, Any], policy: SyncPolicy) -> None:
    shore = Shore(settings=EngineSettings(policy=DURABLE))
    assert shore.stream(**fields).log.settings.policy == policy


@pytest.mark.parametrize(
    "text", ["often", '{"interval":"soon"}', '{"every":1}', '{"messages":-1}', '{"messages":"1"}']
)
def test_a_policy_that_makes_no_sense_is_refused(shore: Shore, text: str) -> None:
    with pytest.raises(ApiFailure, match="sync policy"):
        shore.stream(metadata={"tidelog.sync": text})
    assert shore.disk.list("") == []
    stream = shore.stream()
    config = stream.config.copy()
    config.metadata = {"tidelog.sync": text}
    with pytest.raises(ApiFailure, match="sync policy"):
        shore.account.update(config)


def test_an_idle_tail_is_synced_when_its_time_has_come() -> None:
    disk = SimDisk(1)
    shore = Shore(disk, settings=EngineSettings(policy=BALANCED))
    stream = shore.stream()
    shore.publish(b"S.a")
    assert stream.log.state().synced_seq == 0
    shore.advance(1.1)
    assert stream.log.state().synced_seq == 1


def test_the_operator_hears_of_a_full_disk_once() -> None:
    disk = SimDisk(1)
    shore = Shore(disk)
    shore.stream()
    disk.size_max = disk.machine.used_size()
    for _ in range(3):
        shore.send(b"S.a", b"payload")
        shore.engine.commit()
    (told,) = shore.lines.of("error")
    assert told.startswith("Stream $G > S takes no messages: the disk is full")
    disk.size_max = 1 << 62
    shore.advance(1)
    assert shore.lines.of("info")[-1] == "Stream $G > S takes messages again"
    assert shore.publish(b"S.a")["seq"] == 2


def test_the_operator_hears_now_and_then_that_streams_may_not_store_more() -> None:
    shore = Shore(settings=EngineSettings(max_memory_size=100))
    shore.stream(storage="memory")
    for _ in range(3):
        assert shore.refused(b"S.a", b"x" * 200)[0] == 10023
    assert shore.lines.of("warn") == ["JetStream memory resource limits exceeded for server"]
    shore.advance(11)
    shore.refused(b"S.a", b"x" * 200)
    assert len(shore.lines.of("warn")) == 2


def test_a_stream_that_fails_costs_the_others_nothing() -> None:
    class Broken:
        def commit(self) -> None:
            raise RuntimeError("a fault")

    shore = Shore()
    shore.stream()
    shore.engine.tick.touch(Broken())
    shore.send(b"S.a", b"payload")
    with pytest.raises(RuntimeError, match="a fault"):
        shore.engine.commit()
    assert shore.engine.unfinished
    assert not shore.heard
    shore.engine.commit()
    assert shore.heard == [(b"reply.1", b'{"stream":"S","seq":1}')]


def test_what_comes_in_one_tick_cannot_pass_the_limit_together() -> None:
    """Of two streams, in every way in which messages come; and what goes makes room at once."""
    shore = Shore(limits=AccountLimits(max_storage=1000))
    one, two = shore.stream("A", max_msgs=3), shore.stream("B", allow_atomic=True)
    for number in range(5):
        shore.send(b"A.1", bytes(100))
        shore.send(b"B.1", bytes(100), Nats_Msg_Id=str(number))
        shore.send(b"B.2", bytes(100), reply=None, Nats_Batch_Id="b", Nats_Batch_Sequence=str(number + 1))
    shore.send(b"B.2", bytes(100), Nats_Batch_Id="b", Nats_Batch_Sequence="6", Nats_Batch_Commit="1")
    shore.engine.commit()
    sizes = [stream.log.counted_size() for stream in (one, two)]
    assert sum(sizes) <= 1000 < sum(sizes) + 2 * 150
    assert shore.account.budget("file").used == sum(sizes)
    shore.account.delete("B")
    for _ in range(20):
        assert "error" not in shore.publish(b"A.1", bytes(200))
