"""What a stream says of the cold tier, beside what the server says."""

from __future__ import annotations

import pytest

from tidelog.base.errors import ConfigError
from tidelog.base.limits import SEGMENT_SIZE_LEAST
from tidelog.log.depot import Depot, Tiering
from tidelog.log.policy import STRICT
from tidelog.stream.storage import log_settings
from tidelog.stream.stream_config import StreamConfig, StreamSource
from tidelog.stream.tiering import TieringPlan, read_keep, read_size, read_span, tiering_of
from unit.log.shed import Shed

HOUR = 3_600_000_000_000


class Sheds:
    def __init__(self) -> None:
        self.shed = Shed()
        self.asked: list[tuple[str, str]] = []

    def depot(self, account: str, stream: str) -> Depot:
        self.asked.append((account, stream))
        return self.shed


def config(**metadata: str) -> StreamConfig:
    said = {f"tidelog.{key}": value for key, value in metadata.items()}
    return StreamConfig(name="S", storage="file", metadata=said, duplicate_window=5)


def tiering(stream: StreamConfig, **plan: object) -> Tiering:
    found = tiering_of(stream, "A", TieringPlan(Sheds(), **plan))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("10K", 10 << 10), ("5MB", 5 << 20), ("2g", 2 << 30), (" 1T ", 1 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5G", "1X", "10 G", "B"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        read_size(text)


def test_spans() -> None:
    assert read_span("36h") == 36 * HOUR
    assert read_span("2d") == 48 * HOUR
    assert read_keep("stream") == 0
    assert read_keep("forever") is None
    assert read_keep("1d") == 24 * HOUR
    for text in ("-1h", "d", "soon", "-3d", ""):
        with pytest.raises(ValueError):  # noqa: PT011  the words are those of durations
            read_span(text)


def test_a_stream_says_more_than_the_server() -> None:
    found = tiering(config(), local_size=10, local_age_ns=20, keep_ns=30)
    assert (found.sends, found.local_size, found.local_age_ns, found.keep_ns) == (True, 10, 20, 30)
    assert found.least_age_ns == 5
    found = tiering(config(local_bytes="1K", local_age="1h", cold_keep="forever"), local_size=10, keep_ns=30)
    assert (found.local_size, found.local_age_ns, found.keep_ns) == (1024, HOUR, None)
    assert not tiering(config(cold="off")).sends
    assert not tiering(config(), streams=False).sends
    assert tiering(config(cold="on"), streams=False).sends


def test_the_depot_is_that_of_the_stream() -> None:
    sheds = Sheds()
    tiering_of(config(), "A", TieringPlan(sheds))
    assert sheds.asked == [("A", "S")]


def test_streams_that_have_to_stay() -> None:
    stays = [
        StreamConfig(name="S", storage="file", allow_msg_schedules=True),
        StreamConfig(name="S", storage="file", allow_msg_counter=True),
        StreamConfig(name="S", storage="file", subject_delete_marker_ttl=1),
        StreamConfig(name="S", storage="file", sources=[StreamSource(name="T")]),
    ]
    for stream in stays:
        assert not tiering(stream).sends
        stream.metadata = {"tidelog.cold": "on"}
        with pytest.raises(ConfigError, match="all of it has to be here"):
            tiering(stream)
    memory = StreamConfig(name="S", storage="memory")
    assert tiering_of(memory, "A", TieringPlan(Sheds())) is None


def test_segments_are_a_quarter_of_what_stays() -> None:
    plan = TieringPlan(Sheds())
    assert log_settings(config(local_bytes="40M"), STRICT, "A", plan).segment_size == 10 << 20
    assert log_settings(config(local_bytes="0"), STRICT, "A", plan).segment_size == SEGMENT_SIZE_LEAST
    whole = log_settings(config(), STRICT, "A", plan).segment_size
    assert log_settings(config(local_bytes="40M", cold="off"), STRICT, "A", plan).segment_size == whole
    assert log_settings(config(local_bytes="40M"), STRICT).segment_size == whole
