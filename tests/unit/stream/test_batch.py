"""Atomic batches: all of it or nothing."""

from typing import Any

import msgspec
import pytest

from sim.disk import SimDisk
from sim.worker import SimWorker
from tidelog.base import limits
from tidelog.stream.batch import mend
from tidelog.stream.stream import Stream
from unit.stream.shore import Shore, block, contents

SECOND = 1_000_000_000


@pytest.fixture
def shore() -> Shore:
    return Shore()


def stage(shore: Shore, number: int, subject: bytes = b"S.a", payload: bytes = b"", **headers: str) -> None:
    shore.send(subject, payload, Nats_Batch_Id="b", Nats_Batch_Sequence=str(number), **headers)


def answers(shore: Shore) -> list[Any]:
    shore.engine.commit()
    heard = [msgspec.json.decode(payload) if payload else None for _, payload in shore.heard]
    shore.heard.clear()
    return heard


def code(answer: Any) -> tuple[int, str]:
    return answer["error"]["err_code"], answer["error"]["description"]


def header_of(stream: Stream, seq: int) -> bytes:
    message = stream.get(seq)
    assert message is not None
    return message.header


def test_nothing_is_there_before_the_commit_and_all_of_it_after(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    stage(shore, 1, b"S.a", b"one")
    stage(shore, 2, b"S.b", b"two")
    assert answers(shore) == [None, None]
    assert contents(stream) == []
    stage(shore, 3, b"S.c", b"three", Nats_Batch_Commit="1")
    assert answers(shore) == [{"stream": "S", "seq": 3, "batch": "b", "count": 3}]
    assert contents(stream) == [(1, b"S.a", b"one"), (2, b"S.b", b"two"), (3, b"S.c", b"three")]
    assert header_of(stream, 3) == block("Nats-Batch-Id: b", "Nats-Batch-Sequence: 3", "Nats-Batch-Commit: 1")


def test_an_end_of_batch_commits_what_is_before_it(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    stage(shore, 1, payload=b"one")
    stage(shore, 2, payload=b"not stored", Nats_Batch_Commit="eob")
    assert answers(shore)[-1] == {"stream": "S", "seq": 1, "batch": "b", "count": 1}
    assert contents(stream) == [(1, b"S.a", b"one")]
    assert header_of(stream, 1) == block("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1")


def test_what_is_wrong_with_a_batch_is_told_as_the_peer_does(shore: Shore) -> None:
    shore.stream("OFF")
    assert shore.refused(b"OFF.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1")[0] == 10174
    shore.stream(allow_atomic=True)
    assert shore.refused(b"S.a", Nats_Batch_Id="b" * 65, Nats_Batch_Sequence="1")[0] == 10179
    assert shore.refused(b"S.a", Nats_Batch_Id="b")[0] == 10175
    assert shore.refused(b"S.a", Nats_Batch_Id="b", Nats_Batch_Sequence="2")[0] == 10176
    assert (
        shore.refused(b"S.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1", Nats_Batch_Commit="2")[0] == 10200
    )
    assert (
        shore.refused(b"S.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1", Nats_Batch_Commit="eob")[0] == 10176
    )
    assert (
        shore.refused(b"S.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1", Nats_Required_Api_Level="99")[0]
        == 10185
    )
    most = limits.ATOMIC_BATCH_MESSAGES
    assert shore.refused(b"S.a", Nats_Batch_Id="c", Nats_Batch_Sequence=str(most + 1)) == (
        10199,
        f"atomic publish batch is too large: {most}",
    )


def test_a_gap_ends_a_batch_and_an_advisory_says_so(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    shore.listen(b"$JS.EVENT.ADVISORY.>")
    stage(shore, 1)
    stage(shore, 3)
    shore.engine.commit()
    told = {subject: payload for subject, payload in shore.heard if payload}
    assert code(msgspec.json.decode(told[b"reply.1"])) == (10176, "atomic publish batch is incomplete")
    advisory = msgspec.json.decode(told[b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"])
    assert len(advisory.pop("id")) == 22
    assert advisory.pop("timestamp")
    assert advisory == {
        "type": "io.nats.jetstream.advisory.v1.stream_batch_abandoned",
        "stream": "S",
        "batch": "b",
        "reason": "incomplete",
    }
    assert contents(stream) == []


def test_a_batch_may_have_a_thousand_messages(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    most = limits.ATOMIC_BATCH_MESSAGES
    for number in range(1, most + 1):
        stage(shore, number)
    stage(shore, most + 1, Nats_Batch_Commit="eob")
    assert answers(shore)[-1]["count"] == most
    for number in range(1, most + 2):
        stage(shore, number)
    assert code(answers(shore)[-1])[0] == 10199
    assert len(contents(stream)) == most


def test_a_batch_in_which_nothing_comes_is_given_up(shore: Shore) -> None:
    shore.stream(allow_atomic=True)
    shore.listen(b"$JS.EVENT.ADVISORY.>")
    stage(shore, 1)
    shore.advance(9.9)
    stage(shore, 2)
    shore.heard.clear()
    shore.advance(9.9)
    assert shore.heard == []
    shore.advance(0.2)
    assert b'"reason":"timeout"' in shore.heard[0][1]
    shore.heard.clear()
    stage(shore, 3, Nats_Batch_Commit="1")
    assert code(answers(shore)[0])[0] == 10176


def test_batches_that_wait_are_bounded(shore: Shore, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = shore.stream(allow_atomic=True)
    for number in range(limits.ATOMIC_BATCHES_PER_STREAM):
        shore.send(b"S.a", Nats_Batch_Id=str(number), Nats_Batch_Sequence="1")
    assert shore.engine.staged.batches == limits.ATOMIC_BATCHES_PER_STREAM
    shore.engine.commit()
    assert shore.refused(b"S.a", Nats_Batch_Id="more", Nats_Batch_Sequence="1")[0] == 10210
    monkeypatch.setattr(limits, "ATOMIC_BATCHES_PER_SERVER", limits.ATOMIC_BATCHES_PER_STREAM)
    shore.stream("T", allow_atomic=True)
    assert shore.refused(b"T.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1")[0] == 10210
    shore.engine.staged.most = shore.engine.staged.size + 10
    assert shore.refused(b"S.a", b"p" * 100, Nats_Batch_Id="0", Nats_Batch_Sequence="2")[0] == 10210
    config = stream.config.copy()
    config.allow_atomic = False
    shore.account.update(config)
    assert (shore.engine.staged.batches, shore.engine.staged.size) == (0, 0)


# ---- what the messages of a batch ask for ----


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        ({"Nats_Msg_Id": "x"}, {"Nats_Msg_Id": "x"}, 10201),
        ({"Nats_Msg_Id": "seen"}, {}, 10201),
        ({}, {"Nats_Expected_Last_Msg_Id": "x"}, 10177),
        ({}, {"Nats_Expected_Last_Subject_Sequence": "1"}, 10164),
        ({"Nats_Expected_Last_Sequence": "1"}, {"Nats_Expected_Last_Sequence": "2"}, 10164),
        ({"Nats_Expected_Last_Sequence": "0"}, {}, 10071),
        ({}, {"Nats_Rollup": "sub"}, 10111),
        ({}, {"Nats_Rollup": "all"}, 10111),
        ({"Nats_Expected_Stream": "T"}, {}, 10060),
        ({"Nats_TTL": "10s"}, {}, 10166),
        ({"Nats_Incr": "1"}, {}, 10168),
    ],
)
def test_one_bad_message_refuses_them_all(
    shore: Shore, one: dict[str, str], two: dict[str, str], told: int
) -> None:
    """BATCH-1"""
    stream = shore.stream(allow_atomic=True, allow_rollup_hdrs=True)
    shore.publish(b"S.a", Nats_Msg_Id="seen")
    shore.heard.clear()
    stage(shore, 1, **one)
    stage(shore, 2, **two, Nats_Batch_Commit="1")
    assert code(answers(shore)[-1])[0] == told
    assert len(contents(stream)) == 1
    assert shore.engine.staged.batches == 0


def test_a_batch_may_roll_up_and_expect_what_was_before_it(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True, allow_rollup_hdrs=True)
    shore.publish(b"S.a")
    shore.publish(b"S.b")
    shore.heard.clear()
    stage(shore, 1, b"S.a", Nats_Rollup="sub", Nats_Expected_Last_Sequence="2")
    stage(shore, 2, b"S.b", Nats_Expected_Last_Subject_Sequence="2", Nats_Msg_Id="x", Nats_Batch_Commit="1")
    assert answers(shore)[-1]["seq"] == 4
    assert [seq for seq, _, _ in contents(stream)] == [2, 3, 4]
    assert shore.publish(b"S.b", Nats_Msg_Id="x")["duplicate"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_msgs": 2}, "maximum messages exceeded"),
        ({"max_bytes": 200}, "maximum bytes exceeded"),
        (
            {"max_msgs_per_subject": 2, "discard_new_per_subject": True},
            "maximum messages per subject exceeded",
        ),
    ],
)
def test_what_would_not_fit_is_refused_as_a_whole(shore: Shore, fields: dict[str, Any], text: str) -> None:
    stream = shore.stream(allow_atomic=True, discard="new", **fields)
    shore.publish(b"S.a")
    shore.heard.clear()
    stage(shore, 1)
    stage(shore, 2, Nats_Batch_Commit="1")
    assert code(answers(shore)[-1]) == (10077, text)
    assert len(contents(stream)) == 1


def test_subjects_are_transformed_and_nobodys_messages_are_passed_over(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True, retention="interest")
    stage(shore, 1)
    stage(shore, 2, Nats_Batch_Commit="1")
    assert answers(shore)[-1]["seq"] == 2
    assert contents(stream) == []
    shore.crash()
    assert shore.publish(b"S.a")["seq"] == 3


# ---- crashes ----


def test_what_a_crash_left_of_a_batch_is_gone() -> None:
    """BATCH-1"""
    seen = set()
    for seed in range(60):
        disk = SimDisk(seed)
        shore = Shore(disk)
        shore.stream(allow_atomic=True)
        shore.publish(b"S.before", b"p" * 50)
        for number in range(1, 6):
            stage(
                shore,
                number,
                b"S.%d" % number,
                b"p" * 50,
                **({"Nats_Batch_Commit": "1"} if number == 5 else {}),
            )
        path = "$G/streams/S/log/00000000000000000001.seg"
        size = disk.open(path).size
        shore.engine.commit()
        whole = disk.open(path).size
        # The process is killed while it writes: the file has some of it.
        disk.kill()
        disk = disk.reopen()
        cut = size + (whole - size) * seed // 59
        disk.open(path).truncate(cut)
        shore = Shore(disk)
        stream = shore.account.find("S")
        found = [subject for _, subject, _ in contents(stream)]
        seen.add(len(found))
        assert found in ([b"S.before"], [b"S.before", *(b"S.%d" % number for number in range(1, 6))])
        assert shore.publish(b"S.after")["seq"] > len(found)
        shore.crash()
        assert [subject for _, subject, _ in contents(shore.account.find("S"))] == [*found, b"S.after"]
    assert seen == {1, 6}


def test_a_batch_whose_last_message_was_deleted_is_left_alone(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    stage(shore, 1)
    stage(shore, 2, Nats_Batch_Commit="1")
    shore.engine.commit()
    assert mend(stream) == 0
    stream.delete(2)
    shore.engine.commit()
    shore.crash()
    assert len(contents(shore.account.find("S"))) == 1


def test_a_batch_is_whole_or_gone_after_the_power_went() -> None:
    """BATCH-1"""
    seen = set()
    for seed in range(150):
        worker, disk = SimWorker(), SimDisk(seed)
        shore = Shore(disk, worker=worker)
        shore.stream(allow_atomic=True)
        worker.run_all()
        shore.send(b"S.before", b"p" * 50)
        shore.engine.commit()
        worker.run_all()
        last = {"Nats_Batch_Commit": "1"}
        for number in range(1, 9):
            stage(shore, number, b"S.%d" % number, b"p" * 3000, **(last if number == 8 else {}))
        # Written, and not synced yet.
        shore.engine.commit()
        disk.power_cut()
        shore = Shore(disk.reopen())
        found = [subject for _, subject, _ in contents(shore.account.find("S"))]
        seen.add(len(found))
        assert found in ([b"S.before"], [b"S.before", *(b"S.%d" % number for number in range(1, 9))])
    assert seen == {1, 9}


# ---- batches that ask for nothing else, which are kept as they come ----


def silent(shore: Shore, number: int, batch: str = "b", payload: bytes = b"p", **headers: str) -> None:
    """A message that nobody wants an answer to."""
    fields = {"Nats_Batch_Id": batch, "Nats_Batch_Sequence": str(number), **headers}
    shore.send(b"S.%d" % number, payload, reply=None, **fields)


@pytest.mark.parametrize("end", ["1", "eob"])
def test_a_plain_batch_is_stored_as_it_came(shore: Shore, end: str) -> None:
    """BATCH-1"""
    stream = shore.stream(allow_atomic=True)
    for number in range(1, 6):
        silent(shore, number, payload=b"%d" % number)
    shore.engine.commit()
    assert contents(stream) == []
    stage(shore, 6, b"S.6", Nats_Batch_Commit=end)
    assert answers(shore)[-1] == {
        "stream": "S",
        "seq": 6 if end == "1" else 5,
        "batch": "b",
        "count": 6 if end == "1" else 5,
    }
    assert contents(stream)[:5] == [(seq, b"S.%d" % seq, b"%d" % seq) for seq in range(1, 6)]
    assert header_of(stream, 3) == block("Nats-Batch-Id: b", "Nats-Batch-Sequence: 3")
    assert shore.engine.staged.size == 0


def test_two_plain_batches_at_a_time_stay_apart(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    for number in range(1, 4):
        silent(shore, number, "b", b"b%d" % number)
        silent(shore, number, "c", b"c%d" % number)
    silent(shore, 4, "c", b"c4")
    silent(shore, 4, Nats_Batch_Commit="1")
    silent(shore, 5, "c", Nats_Batch_Commit="1")
    shore.engine.commit()
    assert [payload[:1] for _, _, payload in contents(stream)[:3]] == [b"b"] * 3
    assert [payload for _, _, payload in contents(stream)[4:8]] == [b"c1", b"c2", b"c3", b"c4"]


def test_a_gap_in_a_plain_batch_ends_it(shore: Shore) -> None:
    stream = shore.stream(allow_atomic=True)
    silent(shore, 1)
    silent(shore, 2)
    silent(shore, 4)
    stage(shore, 3, Nats_Batch_Commit="1")
    assert code(answers(shore)[-1])[0] == 10176
    assert contents(stream) == []
    assert shore.engine.staged.size == 0


def test_a_plain_batch_lives_on_while_something_comes(shore: Shore) -> None:
    shore.stream(allow_atomic=True)
    silent(shore, 1)
    for number in range(2, 6):
        shore.advance(9.9)
        shore.send(b"S.other", reply=None)
        silent(shore, number)
    stage(shore, 6, Nats_Batch_Commit="1")
    assert answers(shore)[-1]["count"] == 6


def test_a_plain_batch_of_which_one_is_refused_leaves_nothing(shore: Shore) -> None:
    """BATCH-1: the log has no room for messages so large."""
    stream = shore.stream(allow_atomic=True, discard="old", max_bytes=4000)
    silent(shore, 1)
    silent(shore, 2, payload=bytes(8000))
    silent(shore, 3)
    stage(shore, 4, Nats_Batch_Commit="1")
    told = answers(shore)[-1]
    assert ("error" in told) == (contents(stream) == [])
