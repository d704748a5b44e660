"""Schedules: messages that say when another one is published."""

import pytest

from tidelog.base import limits
from tidelog.base.instant import timestamp
from tidelog.stream.stream import Stream
from unit.stream.shore import Shore, block, contents

SECOND = 1_000_000_000


@pytest.fixture
def shore() -> Shore:
    return Shore()


def scheduling(shore: Shore, **fields: object) -> Stream:
    return shore.stream(allow_msg_schedules=True, allow_rollup_hdrs=True, allow_msg_ttl=True, **fields)


def at(shore: Shore, seconds: float) -> str:
    return "@at " + timestamp(shore.clock.ns + int(seconds * SECOND))


def header_of(stream: Stream, seq: int) -> bytes:
    message = stream.log.get(seq)
    assert message is not None
    return message.header


def test_a_message_is_published_when_it_is_due_and_its_schedule_goes(shore: Shore) -> None:
    stream = scheduling(shore)
    shore.publish(
        b"S.plan", b"payload", Nats_Schedule=at(shore, 10), Nats_Schedule_Target="S.out", Nats_Schedule_TTL="5m",
        X="1", Nats_Msg_Id="id", Nats_Expected_Last_Sequence="0", Nats_Schedule_Rollup="sub",
    )  # fmt: skip
    assert b"\r\nNats-Rollup: sub\r\n" in header_of(stream, 1)
    shore.advance(9)
    assert [subject for _, subject, _ in contents(stream)] == [b"S.plan"]
    shore.advance(1.1)
    assert contents(stream) == [(2, b"S.out", b"payload")]
    assert header_of(stream, 2) == block(
        "X: 1", "Nats-Scheduler: S.plan", "Nats-Schedule-Next: purge", "Nats-TTL: 5m", "Nats-Rollup: sub"
    )
    shore.advance(60)
    assert len(contents(stream)) == 1


def test_an_interval_comes_again_and_again(shore: Shore) -> None:
    stream = scheduling(shore)
    shore.publish(b"S.plan", b"p", Nats_Schedule="@every 10s", Nats_Schedule_Target="S.out")
    shore.advance(31)
    assert [subject for _, subject, _ in contents(stream)] == [b"S.plan", b"S.out", b"S.out", b"S.out"]
    start = shore.clock.ns - 31 * SECOND
    assert f"Nats-Schedule-Next: {timestamp(start + 40 * SECOND)}".encode() in header_of(stream, 4)


def test_a_later_message_stands_for_a_schedule_and_a_deleted_one_does_not_come(shore: Shore) -> None:
    stream = scheduling(shore)
    for seconds in (5, 20):
        shore.publish(
            b"S.plan", b"%d" % seconds, Nats_Schedule=at(shore, seconds), Nats_Schedule_Target="S.out"
        )
    shore.publish(b"S.other", Nats_Schedule=at(shore, 5), Nats_Schedule_Target="S.out")
    stream.delete(3)
    shore.advance(10)
    assert [payload for _, _, payload in contents(stream)] == [b"20"]
    shore.advance(11)
    assert [(subject, payload) for _, subject, payload in contents(stream)] == [(b"S.out", b"20")]


def test_cron_has_names_and_zones(shore: Shore) -> None:
    stream = scheduling(shore)
    shore.publish(b"S.plan", Nats_Schedule="@hourly", Nats_Schedule_Target="S.out")
    shore.publish(
        b"S.other",
        Nats_Schedule="0 0 * * * *",
        Nats_Schedule_Time_Zone="Asia/Kolkata",
        Nats_Schedule_Target="S.in",
    )
    shore.advance(3600)
    assert [subject for _, subject, _ in contents(stream)][2:] in ([b"S.out", b"S.in"], [b"S.in", b"S.out"])


def test_content_may_come_from_another_subject(shore: Shore) -> None:
    stream = scheduling(shore)
    shore.publish(b"S.data", b"newest", X="2")
    shore.publish(
        b"S.plan",
        b"own",
        Nats_Schedule=at(shore, 1),
        Nats_Schedule_Target="S.out",
        Nats_Schedule_Source="S.data",
    )
    shore.advance(2)
    assert contents(stream)[-1] == (3, b"S.out", b"newest")
    assert b"X: 2" in header_of(stream, 3)


@pytest.mark.parametrize("clean", [True, False])
def test_schedules_are_found_after_a_restart(shore: Shore, clean: bool) -> None:
    """STREAM-5"""
    scheduling(shore)
    shore.publish(b"S.once", b"once", Nats_Schedule=at(shore, 100), Nats_Schedule_Target="S.out")
    shore.publish(b"S.often", b"often", Nats_Schedule="@every 40s", Nats_Schedule_Target="S.out")
    shore.advance(50)
    if clean:
        shore.restart()
        shore.publish(b"S.third", b"third", Nats_Schedule=at(shore, 60), Nats_Schedule_Target="S.out")
    shore.crash()
    stream = shore.account.find("S")
    shore.advance(71)
    found = [payload for _, subject, payload in contents(stream) if subject == b"S.out"]
    assert found == [b"often", b"often", b"once", *([b"third"] if clean else []), b"often"]


def test_what_is_overdue_comes_once(shore: Shore) -> None:
    """STREAM-5"""
    scheduling(shore)
    shore.publish(b"S.often", Nats_Schedule="@every 10s", Nats_Schedule_Target="S.out")
    shore.publish(b"S.once", Nats_Schedule=at(shore, 10), Nats_Schedule_Target="S.out")
    shore.engine.close()
    shore.clock.advance(seconds=1000)
    shore.open()
    shore.advance(0.1)
    assert len([seq for seq, subject, _ in contents(shore.account.find("S")) if subject == b"S.out"]) == 2


def test_many_changes_are_written_down(shore: Shore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.stream.schedule.SCHEDULES_UNSAID", 3)
    scheduling(shore)
    for number in range(5):
        shore.publish(b"S.%d" % number, Nats_Schedule=at(shore, 10), Nats_Schedule_Target="S.out")
    assert shore.disk.exists("$G/streams/S/schedules.json")
    shore.crash()
    stream = shore.account.find("S")
    assert stream.schedules is not None
    assert len(stream.schedules.dues) == 5
    assert limits.SCHEDULES_UNSAID > 3


def test_they_are_written_down_when_much_has_come_since(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.stream.schedule.SCHEDULES_UNREAD", 5)
    scheduling(shore)
    shore.publish(b"S.plan", Nats_Schedule=at(shore, 3600), Nats_Schedule_Target="S.out")
    for _ in range(6):
        shore.publish(b"S.x")
    assert not shore.disk.exists("$G/streams/S/schedules.json")
    shore.advance(61)
    assert shore.disk.exists("$G/streams/S/schedules.json")
    assert limits.SCHEDULES_UNREAD > 5


def test_a_wall_clock_that_is_set_is_noticed(shore: Shore) -> None:
    class TwoClocks(type(shore.clock)):  # type: ignore[misc]
        ahead_ns = 0

        def now_ns(self) -> int:
            return self.ns + self.ahead_ns

    clock = TwoClocks(shore.clock.ns)
    shore.clock = clock
    shore.crash()
    stream = scheduling(shore)
    shore.publish(b"S.plan", Nats_Schedule=at(shore, 3600), Nats_Schedule_Target="S.out")
    clock.ahead_ns = 3600 * SECOND
    shore.advance(61)
    assert [subject for _, subject, _ in contents(stream)] == [b"S.out"]


def test_a_client_may_end_a_schedule(shore: Shore) -> None:
    stream = scheduling(shore)
    shore.publish(b"S.plan", Nats_Schedule=at(shore, 10), Nats_Schedule_Target="S.out")
    shore.publish(b"S.done", Nats_Scheduler="S.plan", Nats_Schedule_Next="purge")
    shore.advance(20)
    assert [subject for _, subject, _ in contents(stream)] == [b"S.done"]
    assert shore.refused(b"S.x", Nats_Scheduler="S.done", Nats_Schedule_Next="purge")[0] == 10212
    assert shore.publish(b"S.x", Nats_Scheduler="S.none", Nats_Schedule_Next="purge")["seq"] == 3


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"Nats_Schedule": "@at tomorrow"}, 10189),
        ({"Nats_Schedule": "@every 10ms"}, 10189),
        ({"Nats_Schedule": "* * *"}, 10189),
        ({"Nats_Schedule": "@every 1s", "Nats_Schedule_Time_Zone": "Europe/Berlin"}, 10189),
        ({"Nats_Schedule": "@hourly", "Nats_Schedule_Time_Zone": "Europe/Atlantis"}, 10223),
        ({"Nats_Schedule_Target": ""}, 10190),
        ({"Nats_Schedule_Target": "S.*"}, 10190),
        ({"Nats_Schedule_Target": "S.plan"}, 10190),
        ({"Nats_Schedule_Target": "T.x"}, 10190),
        ({"Nats_Schedule_TTL": "x"}, 10191),
        ({"Nats_Schedule_Rollup": "all"}, 10192),
        ({"Nats_Rollup": "all"}, 10192),
        ({"Nats_Schedule_Source": "S.out"}, 10203),
        ({"Nats_Schedule_Source": "T.x"}, 10203),
    ],
)
def test_what_is_no_schedule_is_refused(shore: Shore, headers: dict[str, str], told: int) -> None:
    scheduling(shore)
    good = {"Nats_Schedule": "@every 5s", "Nats_Schedule_Target": "S.out"}
    assert shore.refused(b"S.plan", **good | headers)[0] == told
    assert shore.publish(b"S.plan", **good)["seq"] == 1


def test_schedules_must_be_allowed(shore: Shore) -> None:
    shore.stream()
    headers = {"Nats_Schedule": "@every 5s", "Nats_Schedule_Target": "S.out"}
    assert shore.refused(b"S.plan", **headers)[0] == 10188
    assert shore.refused(b"S.plan", Nats_Scheduler="S.x", Nats_Schedule_Next="purge")[0] == 10188
    shore.stream("T", allow_msg_schedules=True, allow_rollup_hdrs=True)
    headers["Nats_Schedule_Target"] = "T.out"
    assert shore.refused(b"T.plan", **headers, Nats_Schedule_TTL="5s")[0] == 10166
