"""The JSON of configurations is the peer's, field for field."""

import msgspec

from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.stream_config import StreamConfig, StreamConfigRequest
from tidelog.stream.strict import decode


def test_a_stream_that_asks_for_nothing() -> None:
    assert msgspec.json.encode(StreamConfig(name="S")) == (
        b'{"name":"S","retention":"limits","max_consumers":0,"max_msgs":0,"max_bytes":0,"max_age":0,'
        b'"max_msgs_per_subject":0,"discard":"old","storage":"file","num_replicas":0,"compression":"none",'
        b'"allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,'
        b'"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false}'
    )


def test_a_consumer_that_asks_for_nothing() -> None:
    assert msgspec.json.encode(ConsumerConfig()) == (
        b'{"deliver_policy":"all","ack_policy":"none","replay_policy":"instant","num_replicas":0}'
    )


def test_what_is_kept_names_the_level_it_needs_and_what_is_shown_the_server() -> None:
    document = b'{"name":"S","allow_msg_ttl":true,"metadata":{"z":"1","_nats.ver":"9","_nats.level":"9"}}'
    config = decode(document, StreamConfigRequest).config()
    assert config.metadata == {"z": "1", "_nats.req.level": "1"}
    assert list(config.shown().metadata) == ["_nats.level", "_nats.req.level", "_nats.ver", "z"]
    assert config.metadata == {"z": "1", "_nats.req.level": "1"}


def test_levels() -> None:
    assert StreamConfig().required_level() == 0
    assert StreamConfig(subject_delete_marker_ttl=1).required_level() == 1
    assert StreamConfig(allow_msg_counter=True).required_level() == 2
    assert StreamConfig(persist_mode="async").required_level() == 2
    assert StreamConfig(allow_batched=True).required_level() == 4
    assert ConsumerConfig().required_level() == 0
    assert ConsumerConfig(pause_until="0001-01-01T00:00:00Z").required_level() == 0
    assert ConsumerConfig(pause_until="2030-01-01T00:00:00Z").required_level() == 1
    assert ConsumerConfig(priority_groups=["a"]).required_level() == 1
    assert ConsumerConfig(ack_policy="flow_control").required_level() == 4


def test_a_copy_shares_nothing() -> None:
    config = StreamConfig(subjects=["a"], metadata={"a": "b"})
    other = config.copy()
    other.subjects.append("b")
    other.metadata["a"] = "c"
    other.consumer_limits.max_ack_pending = 5
    assert config == StreamConfig(subjects=["a"], metadata={"a": "b"})
    consumer = ConsumerConfig(filter_subjects=["a"])
    assert consumer.copy() == consumer


def test_filters_of_a_consumer() -> None:
    assert ConsumerConfig().filters() == []
    assert ConsumerConfig(filter_subject="a").filters() == ["a"]
    assert ConsumerConfig(filter_subjects=["a", "b"]).filters() == ["a", "b"]
