"""Times to live and the markers that are left in the place of the last message of a subject."""

import pytest

from sim.disk import SimDisk
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import RePublish
from unit.stream.shore import Shore, block, contents

SECOND = 1_000_000_000
MARKER = block("Nats-Marker-Reason: MaxAge", "Nats-TTL: 10s", "Nats-Rollup: sub")


@pytest.fixture
def shore() -> Shore:
    return Shore()


def marked(shore: Shore, **fields: object) -> Stream:
    """A stream that leaves markers for ten seconds."""
    wanted = {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "subject_delete_marker_ttl": 10 * SECOND}
    return shore.stream(**wanted | fields)


def headers(stream: Stream) -> list[bytes]:
    reader = stream.log.reader()
    return [message.header for message in reader.read(100)]


def test_the_last_message_of_a_subject_leaves_a_marker_that_goes_in_turn(shore: Shore) -> None:
    stream = marked(shore, max_age=20 * SECOND)
    shore.publish(b"S.a", b"one")
    shore.publish(b"S.a", b"two")
    shore.publish(b"S.b", b"three")
    shore.advance(21.1)
    assert contents(stream) == [(4, b"S.a", b""), (5, b"S.b", b"")]
    assert headers(stream) == [MARKER, MARKER]
    shore.advance(12)
    assert contents(stream) == []


def test_a_time_to_live_that_is_over_leaves_a_marker(shore: Shore) -> None:
    stream = marked(shore)
    shore.publish(b"S.a", b"old", Nats_TTL="60s")
    shore.publish(b"S.b", b"one", Nats_TTL="60s")
    shore.publish(b"S.b", b"two")
    shore.advance(61.1)
    assert contents(stream) == [(3, b"S.b", b"two"), (4, b"S.a", b"")]


@pytest.mark.parametrize(
    ("header", "left"), [({"KV_Operation": "PURGE"}, 0), ({"KV_Operation": "DEL"}, 1), ({}, 1)]
)
def test_what_ends_a_subject_itself_leaves_none(shore: Shore, header: dict[str, str], left: int) -> None:
    stream = marked(shore)
    shore.publish(b"S.a", Nats_TTL="20s", **header)
    shore.advance(21.1)
    assert len(contents(stream)) == left


def test_markers_are_left_after_a_restart(shore: Shore) -> None:
    marked(shore, max_age=20 * SECOND)
    shore.publish(b"S.a", b"one")
    shore.crash()
    shore.advance(21.1)
    assert headers(shore.account.find("S")) == [MARKER]


def test_markers_are_published_again_as_other_messages_are(shore: Shore) -> None:
    marked(shore, republish=RePublish(src="S.>", dest="again.>"))
    again = shore.stream("AGAIN", subjects=["again.>"], allow_msg_ttl=True, allow_rollup_hdrs=True)
    shore.publish(b"S.a", b"one", Nats_TTL="20s")
    shore.advance(21.1)
    assert [(seq, subject) for seq, subject, _ in contents(again)] == [(2, b"again.a")]
    assert headers(again)[0].startswith(MARKER[:-2])


def test_a_time_to_live_is_not_shorter_than_that_of_a_marker(shore: Shore) -> None:
    stream = marked(shore)
    shore.publish(b"S.a", Nats_TTL="1s", X="1")
    shore.publish(b"S.a", Nats_TTL="11s")
    assert headers(stream) == [block("X: 1", "Nats-TTL: 10"), block("Nats-TTL: 11s")]
    alone = marked(shore, name="T", subjects=["T.>"], max_msgs_per_subject=1)
    shore.publish(b"T.a", Nats_TTL="1s")
    assert headers(alone) == [block("Nats-TTL: 1s")]


def test_age_passes_what_is_kept_for_ever(shore: Shore) -> None:
    stream = shore.stream(max_age=10 * SECOND, allow_msg_ttl=True)
    for number in range(3):
        shore.publish(b"S.%d" % number, Nats_TTL="never")
        shore.publish(b"S.x")
    shore.advance(11)
    assert [seq for seq, _, _ in contents(stream)] == [1, 3, 5]
    shore.publish(b"S.y")
    shore.crash()
    stream = shore.account.find("S")
    shore.advance(11)
    assert [seq for seq, _, _ in contents(stream)] == [1, 3, 5]


def test_a_full_disk_keeps_what_no_marker_can_be_left_for() -> None:
    disk = SimDisk(1)
    shore = Shore(disk)
    stream = marked(shore)
    shore.publish(b"S.a", b"one", Nats_TTL="20s")
    disk.size_max = disk.machine.used_size()
    shore.send(b"S.b", b"x" * 100_000)
    shore.engine.commit()
    shore.advance(25)
    assert stream.log.refusal is not None
    assert [seq for seq, _, _ in contents(stream)] == [1]
    disk.size_max = 1 << 40
    shore.advance(10)
    assert contents(stream)[-1] == (3, b"S.a", b"")
