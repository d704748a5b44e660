"""What is allowed in consumers. The peer is asked the same, with many more, in tests/conform/jetstream."""

from typing import Any

import pytest

from tidelog.base.limits import ASSET_NAME_SIZE, DESCRIPTION_SIZE, METADATA_SIZE
from tidelog.stream.consumer_check import (
    ACK_WAIT_NS,
    FLOW_CONTROL_HEARTBEAT_NS,
    MAX_ACK_PENDING,
    MAX_WAITING,
    PRIORITY_TIMEOUT_NS,
    SECOND_NS,
    SHORTEST_HEARTBEAT_NS,
    sample_percent,
)
from tidelog.stream.consumer_config import ConsumerConfig, CreateConsumerRequest
from tidelog.stream.failure import ApiFailure
from tidelog.stream.request_check import (
    INACTIVE_THRESHOLD_NS,
    ConsumerSubject,
    consumer_to_create,
    named_consumer,
)
from tidelog.stream.stream_config import ConsumerLimits, StreamConfig
from tidelog.stream.surroundings import AccountLimits, ServerLimits
from unit.stream.account_fake import PaperAccount

TIME = "2024-01-01T00:00:00Z"
PUSH = {"deliver_subject": "d"}


def judged(
    fields: dict[str, Any],
    stream: dict[str, Any] | None = None,
    consumers: dict[str, ConsumerConfig] | None = None,
    account: PaperAccount | None = None,
    *,
    bound: bool = False,
    **request: Any,
) -> ConsumerConfig:
    config = ConsumerConfig(**{"name": "c", "ack_policy": "explicit", **fields})
    asked = CreateConsumerRequest(stream_name="S", config=config, **request)
    settings = StreamConfig(**{"name": "S", "subjects": ["s.>"], "num_replicas": 1, **(stream or {})})
    return consumer_to_create(
        config.copy(), asked, settings, consumers or {}, account or PaperAccount(), lambda _: bound
    )


def test_defaults() -> None:
    config = judged({})
    assert (config.max_deliver, config.max_waiting, config.ack_wait) == (-1, MAX_WAITING, ACK_WAIT_NS)
    assert (config.max_ack_pending, config.inactive_threshold) == (MAX_ACK_PENDING, INACTIVE_THRESHOLD_NS)
    assert judged({"durable_name": "c"}).inactive_threshold == 0
    assert judged(PUSH).max_waiting == 0
    assert judged({"ack_policy": "none"}).max_ack_pending == 0
    assert judged({"backoff": [5, 6]}).ack_wait == 5
    pinned = {"priority_policy": "pinned_client", "priority_groups": ["g"]}
    assert judged(pinned).priority_timeout == PRIORITY_TIMEOUT_NS
    flow = judged({**PUSH, "ack_policy": "flow_control"})
    assert (flow.flow_control, flow.idle_heartbeat) == (True, FLOW_CONTROL_HEARTBEAT_NS)


def test_defaults_come_from_stream_account_and_server() -> None:
    limits = ConsumerLimits(max_ack_pending=7, inactive_threshold=9)
    inherited = judged({}, {"consumer_limits": limits})
    assert (inherited.max_ack_pending, inherited.inactive_threshold) == (7, 9)
    server = ServerLimits(max_memory=0, max_storage=0, max_ack_pending=60, max_request_batch=5)
    bounded = judged({}, account=PaperAccount(server=server, limits=AccountLimits(max_ack_pending=50)))
    assert (bounded.max_ack_pending, bounded.max_batch) == (50, 5)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"num_replicas": 2}, 10126, "replica count exceeds parent stream"),
        ({"num_replicas": -1}, 10133, "cannot be negative"),
        ({"backoff": [-1]}, 10184, "backoff needs to be positive"),
        ({"ack_wait": -1}, 10183, "ack wait needs to be positive"),
        ({"ack_policy": "flow_control"}, 10218, "requires a push based consumer"),
        ({**PUSH, "ack_policy": "flow_control", "max_ack_pending": -1}, 10220, "requires max ack pending"),
        ({**PUSH, "ack_policy": "flow_control", "ack_wait": 5}, 10221, "requires unset ack wait"),
        ({**PUSH, "ack_policy": "flow_control", "max_deliver": 5}, 10222, "requires unset max deliver"),
        ({"backoff": [1, 2], "max_deliver": 1}, 10116, "max deliver is required to be > length of backoff"),
        ({"deliver_subject": "d.*"}, 10079, "deliver subject has wildcards"),
        ({"deliver_subject": "d..e"}, 10112, "invalid push consumer deliver subject"),
        ({"deliver_subject": "s.x"}, 10081, "deliver subject forms a cycle"),
        ({**PUSH, "max_waiting": 5}, 10080, "push mode can not set max waiting"),
        ({**PUSH, "ack_policy": "none", "max_ack_pending": 5}, 10082, "requires ack policy for max ack pending"),
        ({**PUSH, "idle_heartbeat": SHORTEST_HEARTBEAT_NS - 1}, 10083, "idle heartbeat needs to be >= 100ms"),
        ({**PUSH, "flow_control": True}, 10108, "flow control also needs heartbeats"),
        ({"rate_limit_bps": 5}, 10086, "pull mode can not have rate limit set"),
        ({"idle_heartbeat": SECOND_NS}, 10088, "idle heartbeat requires a push based consumer"),
        ({"flow_control": True}, 10089, "flow control requires a push based consumer"),
        ({"max_expires": 999_999}, 10115, "max request expires needs to be >= 1ms"),
        ({"direct": True}, 10090, "direct requires a push based consumer"),
        ({**PUSH, "direct": True, "durable_name": "c"}, 10091, "direct requires an ephemeral consumer"),
        ({"filter_subject": "a", "filter_subjects": ["b"]}, 10136, "both FilterSubject and FilterSubjects"),
        ({"filter_subject": "a..b"}, 10052, "invalid subject"),
        ({"filter_subjects": [""]}, 10139, "filter in FilterSubjects cannot be empty"),
        ({"filter_subjects": ["a.*", "a.b"]}, 10138, "subject filters cannot overlap"),
        ({"opt_start_seq": 5}, 10094, "deliver all, but optional start sequence is also set"),
        ({"deliver_policy": "new", "opt_start_time": TIME}, 10094, "deliver new, but optional start time is also"),
        ({"deliver_policy": "last_per_subject"}, 10094, "last per subject, but optional filter subject is not set"),
        ({"deliver_policy": "by_start_sequence"}, 10094, "optional start sequence is not set"),
        ({"deliver_policy": "by_start_time"}, 10094, "optional start time is not set"),
        (
            {"deliver_policy": "by_start_time", "opt_start_time": TIME, "opt_start_seq": 5},
            10094,
            "optional start start sequence is also set",
        ),
        ({"sample_freq": "x"}, 10095, 'strconv.Atoi: parsing "x": invalid syntax'),
        ({"durable_name": "d"}, 10132, "have to be equal"),
        ({"priority_groups": ["g"]}, 10196, "can not have priority groups when policy is none"),
        ({"priority_timeout": 5}, 10197, "PinnedTTL cannot be set"),
        ({"priority_policy": "overflow"}, 10159, "requires at least one PriorityGroup"),
        ({"priority_policy": "overflow", "priority_groups": [""]}, 10161, "cannot be an empty string"),
        ({"priority_policy": "overflow", "priority_groups": ["x" * 17]}, 10162, "may not exceed 16 characters"),
        ({**PUSH, "priority_policy": "overflow", "priority_groups": ["g"]}, 10178, "can not be used with push"),
    ],
)  # fmt: skip
def test_refusals(fields: dict[str, Any], code: int, text: str) -> None:
    with pytest.raises(ApiFailure) as refused:
        judged(fields)
    assert refused.value.error.err_code == code
    assert text in refused.value.error.description


def test_bounds() -> None:
    name = "x" * (ASSET_NAME_SIZE + 1)
    assert judged({"name": name[1:], "durable_name": name[1:]})
    with pytest.raises(ApiFailure, match="consumer name is too long, maximum allowed is 255"):
        judged({"name": name, "durable_name": name})
    assert judged({"description": "x" * DESCRIPTION_SIZE})
    with pytest.raises(ApiFailure, match="description is too long, maximum allowed is 4096"):
        judged({"description": "x" * (DESCRIPTION_SIZE + 1)})
    full = {"k": "x" * (METADATA_SIZE - len("k_nats.req.level0"))}
    assert judged({"metadata": full})
    with pytest.raises(ApiFailure, match="metadata exceeds maximum size of 128KB"):
        judged({"metadata": {**full, "x": ""}})
    server = ServerLimits(max_memory=0, max_storage=0, max_request_batch=5)
    with pytest.raises(ApiFailure, match="max request batch exceeds server limit of 5"):
        judged({"max_batch": 6}, account=PaperAccount(server=server))
    with pytest.raises(ApiFailure, match="max ack pending exceeds system limit of 50"):
        judged({"max_ack_pending": 51}, account=PaperAccount(limits=AccountLimits(max_ack_pending=50)))
    limits = {"consumer_limits": ConsumerLimits(inactive_threshold=SECOND_NS)}
    with pytest.raises(ApiFailure, match="inactive threshold exceeds system limit of 1s"):
        judged({"inactive_threshold": SECOND_NS + 1}, limits)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_deliver": -5},
        {"max_waiting": -1},
        {"max_ack_pending": -5},
        {"max_batch": -1},
        {"priority_timeout": -1},
        {"backoff": [5]},
    ],
)
def test_pedantic_fills_in_nothing_that_was_said(fields: dict[str, Any]) -> None:
    assert judged(fields)
    with pytest.raises(ApiFailure, match="pedantic mode"):
        judged(fields, pedantic=True)


WORK = {"retention": "workqueue"}


def test_a_work_queue_gives_each_message_to_one() -> None:
    with pytest.raises(ApiFailure, match="workqueue stream requires explicit ack"):
        judged({"ack_policy": "all"}, WORK)
    with pytest.raises(ApiFailure, match="requires explicit ack policy on workqueue stream"):
        judged({"ack_policy": "none"}, WORK)
    with pytest.raises(ApiFailure, match="must be deliver all on workqueue stream"):
        judged({"deliver_policy": "new"}, WORK)
    others = {"d": ConsumerConfig(name="d", filter_subject="s.a")}
    with pytest.raises(ApiFailure, match="multiple non-filtered consumers"):
        judged({}, WORK, others)
    with pytest.raises(ApiFailure, match="filtered consumer not unique"):
        judged({"filter_subject": "s.*"}, WORK, others)
    assert judged({"filter_subject": "s.b"}, WORK, others)
    whole = {"d": ConsumerConfig(name="d")}
    with pytest.raises(ApiFailure, match="filtered consumer not unique"):
        judged({"filter_subject": "s.b"}, WORK, whole)


def test_room_for_one_more() -> None:
    others = {"d": ConsumerConfig(name="d"), "e": ConsumerConfig(name="e", direct=True)}
    assert judged({}, {"max_consumers": 2}, others)
    with pytest.raises(ApiFailure, match="maximum consumers limit reached"):
        judged({}, {"max_consumers": 1}, others)
    with pytest.raises(ApiFailure, match="maximum consumers limit reached"):
        judged({}, {"max_consumers": 5}, others, PaperAccount(limits=AccountLimits(max_consumers=1)))


def test_actions() -> None:
    durable = {"durable_name": "c"}
    existing = {"c": judged(durable)}
    assert judged(durable, consumers=existing, action="create") == existing["c"]
    changed = {**durable, "description": "x"}
    with pytest.raises(ApiFailure, match="consumer already exists"):
        judged(changed, consumers=existing, action="create")
    assert judged(changed, consumers=existing, action="update").description == "x"
    with pytest.raises(ApiFailure, match="consumer does not exist"):
        judged({}, action="update")


@pytest.mark.parametrize(
    ("before", "change", "text"),
    [
        ({}, {"deliver_policy": "new"}, "deliver policy can not be updated"),
        ({}, {"mem_storage": True}, "storage type can not be updated"),
        ({}, {"ack_policy": "all"}, "ack policy can not be updated"),
        ({}, {"replay_policy": "original"}, "replay policy can not be updated"),
        ({}, {"max_waiting": 5}, "max waiting can not be updated"),
        ({}, PUSH, "can not update pull consumer to push based"),
        (PUSH, {"deliver_subject": ""}, "can not update push consumer to pull based"),
        (PUSH, {"deliver_subject": "e"}, "consumer name already in use"),
        (PUSH, {"idle_heartbeat": SECOND_NS}, "heart beats can not be updated"),
        (
            {"deliver_policy": "by_start_time", "opt_start_time": TIME},
            {"opt_start_time": "2024-01-01T00:00:01Z"},
            "start time can not be updated",
        ),
    ],
)
def test_what_may_not_change(before: dict[str, Any], change: dict[str, Any], text: str) -> None:
    existing = {"c": judged(before)}
    with pytest.raises(ApiFailure, match=text):
        judged({**before, **change}, consumers=existing, bound=True)


def test_the_same_start_in_another_zone_is_the_same() -> None:
    before = {"deliver_policy": "by_start_time", "opt_start_time": TIME}
    other = {**before, "opt_start_time": "2024-01-01T01:00:00+01:00"}
    assert judged(other, consumers={"c": judged(before)}).opt_start_time == other["opt_start_time"]


def test_only_a_request_of_its_own_changes_whether_it_is_paused() -> None:
    existing = {"c": judged({"pause_until": TIME})}
    assert judged({"pause_until": "2030-01-01T00:00:00Z"}, consumers=existing).pause_until == TIME


@pytest.mark.parametrize(
    ("subject", "fields", "text"),
    [
        ("CREATE.S.c", {}, ""),
        ("CREATE.S", {}, ""),
        ("CREATE.S.c.s.a", {"filter_subject": "s.a"}, ""),
        ("DURABLE.CREATE.S.c", {"durable_name": "c"}, ""),
        ("DURABLE.CREATE.S", {}, "no durable name set in subject"),
        ("CREATE.T.c", {}, "stream name in subject does not match request"),
        ("CREATE.S.a/b", {}, "Consumer name can not contain path separators"),
        ("CREATE.S", {"durable_name": "c"}, "expected to be ephemeral but a durable name was set"),
        ("CREATE.S.c", {"durable_name": "d"}, "consumer name in subject does not match durable name"),
        ("DURABLE.CREATE.S.c", {}, "a durable name was not set"),
        ("CREATE.S.c.s.a", {"filter_subject": "s.b"}, "did not match filtered subject"),
        ("CREATE.S.c.s.a", {"filter_subjects": ["s.a"]}, "cannot use subject based API"),
        ("CREATE.S.c", {"num_replicas": 3}, "replicas > 1 not supported"),
    ],
)
def test_subject_and_body_agree(subject: str, fields: dict[str, Any], text: str) -> None:
    where = ConsumerSubject(f"$JS.API.CONSUMER.{subject}")
    request = CreateConsumerRequest(stream_name="S", config=ConsumerConfig(**fields))
    if text:
        with pytest.raises(ApiFailure, match=text):
            named_consumer(where, request)
    else:
        assert named_consumer(where, request).name == where.consumer


def test_sampling() -> None:
    assert sample_percent(ConsumerConfig()) == 0
    assert sample_percent(ConsumerConfig(sample_freq="50%")) == 50
    assert sample_percent(ConsumerConfig(sample_freq="7")) == 7
