"""What is allowed in streams. The peer is asked the same, with many more, in tests/conform/jetstream."""

import random
from typing import Any

import pytest

from tidelog.base.limits import ASSET_NAME_SIZE, DESCRIPTION_SIZE, METADATA_SIZE, STREAM_REPLICAS
from tidelog.stream.failure import ApiFailure
from tidelog.stream.request_check import stream_to_create, stream_to_update
from tidelog.stream.stream_check import (
    DUPLICATE_WINDOW_NS,
    SECOND_NS,
    SHORTEST_NS,
    check_limits,
    check_overlap,
    check_stream,
    check_stream_count,
)
from tidelog.stream.stream_config import (
    ConsumerLimits,
    External,
    Placement,
    RePublish,
    StreamConfig,
    StreamConfigRequest,
    StreamSource,
    SubjectTransform,
)
from tidelog.stream.surroundings import AccountLimits, ServerLimits
from tidelog.subject.pattern import overlaps
from unit.stream.account_fake import ROOMY, PaperAccount

ORIGIN = StreamConfig(name="O", subjects=["o.>"], max_msg_size=100, allow_direct=True, max_bytes=-1)


def made(**fields: Any) -> StreamConfig:
    return check_stream(StreamConfig(name="S", **fields), PaperAccount(ORIGIN))


def test_defaults() -> None:
    config = made()
    assert config.subjects == ["S"]
    assert config.num_replicas == 1
    assert (config.max_msgs, config.max_bytes, config.max_msg_size, config.max_consumers) == (-1, -1, -1, -1)
    assert config.max_msgs_per_subject == -1
    assert config.duplicate_window == DUPLICATE_WINDOW_NS
    assert made(max_age=SECOND_NS).duplicate_window == SECOND_NS
    assert made(mirror=StreamSource(name="X")).duplicate_window == 0
    assert made(mirror=StreamSource(name="O")).mirror_direct
    assert made(placement=Placement()).placement is None
    marked = made(subject_delete_marker_ttl=SECOND_NS, deny_purge=True)
    assert (marked.allow_msg_ttl, marked.allow_rollup_hdrs, marked.deny_purge) == (True, True, False)


def test_what_was_asked_for_is_left_alone() -> None:
    asked = StreamConfig(name="S", republish=RePublish(dest="r.>"))
    config = check_stream(asked, PaperAccount())
    assert config.republish == RePublish(src=">", dest="r.>")
    assert asked == StreamConfig(name="S", republish=RePublish(dest="r.>"))


def test_bounds() -> None:
    assert check_stream(StreamConfig(name="x" * ASSET_NAME_SIZE), PaperAccount())
    with pytest.raises(ApiFailure, match="maximum allowed is 255"):
        check_stream(StreamConfig(name="x" * (ASSET_NAME_SIZE + 1)), PaperAccount())
    assert made(description="x" * DESCRIPTION_SIZE)
    with pytest.raises(ApiFailure, match="maximum allowed is 4096"):
        made(description="x" * (DESCRIPTION_SIZE + 1))
    assert made(metadata={"k": "x" * (METADATA_SIZE - 1)})
    with pytest.raises(ApiFailure, match="maximum size of 131072 bytes"):
        made(metadata={"k": "x" * METADATA_SIZE})
    assert made(num_replicas=STREAM_REPLICAS)
    with pytest.raises(ApiFailure, match="maximum replicas is 5"):
        made(num_replicas=STREAM_REPLICAS + 1)
    assert made(max_age=SHORTEST_NS)
    with pytest.raises(ApiFailure, match="max age needs to be >= 100ms"):
        made(max_age=SHORTEST_NS - 1)
    with pytest.raises(ApiFailure, match="duplicates window needs to be >= 100ms"):
        made(duplicate_window=SHORTEST_NS - 1)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"num_replicas": -1}, 10133, "replicas count cannot be negative"),
        ({"max_age": -1}, 10052, "max age can not be negative"),
        ({"duplicate_window": -1}, 10052, "duplicates window can not be negative"),
        ({"max_age": SECOND_NS, "duplicate_window": SECOND_NS + 1}, 10052, "larger then max age"),
        ({"deny_purge": True, "allow_rollup_hdrs": True}, 10052, "roll-ups require the purge permission"),
        ({"allow_msg_counter": True, "discard": "new"}, 10052, "counter stream cannot use discard new"),
        ({"allow_msg_counter": True, "allow_msg_ttl": True}, 10052, "cannot use message TTLs"),
        ({"allow_msg_counter": True, "allow_msg_schedules": True}, 10052, "cannot use message schedules"),
        ({"allow_msg_counter": True, "retention": "interest"}, 10052, "can only use limits retention"),
        ({"discard_new_per_subject": True}, 10052, "requires discard new policy"),
        ({"discard_new_per_subject": True, "discard": "new"}, 10052, "requires max msgs per subject > 0"),
        ({"subject_delete_marker_ttl": -1}, 10052, "must not be negative"),
        ({"subject_delete_marker_ttl": 1}, 10052, "must be at least 1 second"),
        ({"allow_msg_schedules": True, "discard": "new"}, 10052, "scheduling cannot use discard new"),
        ({"persist_mode": "async", "storage": "memory"}, 10052, "only supported on file storage"),
        ({"persist_mode": "async", "num_replicas": 3}, 10052, "not supported on replicated streams"),
        ({"persist_mode": "async", "allow_atomic": True}, 10052, "not supported with atomic batch publish"),
        ({"subjects": ["a..b"]}, 10052, "invalid subject"),
        ({"subjects": ["a.*", "a.b"]}, 10052, 'subject "a.*" overlaps with "a.b"'),
        ({"subjects": [">"]}, 10052, "capturing all subjects requires no-ack to be true"),
        ({"subjects": [">"], "no_ack": True, "num_replicas": 3}, 10052, "requires replicas of 1"),
        ({"subjects": ["$JS.API.>"]}, 10052, "overlap with jetstream api require no-ack"),
        ({"subjects": ["$SYS.x"]}, 10052, "overlap with system api require no-ack"),
        ({"mirror": StreamSource(name="O"), "first_seq": 1}, 10143, "first sequence"),
        ({"mirror": StreamSource(name="O"), "subjects": ["a"]}, 10034, "can not contain subjects"),
        ({"mirror": StreamSource(name="O"), "sources": [StreamSource(name="O")]}, 10031, "other sources"),
        ({"mirror": StreamSource(name="O"), "max_msg_size": 10}, 10030, "max message size >= source"),
        ({"mirror": StreamSource(name="a b")}, 10142, "mirrored stream name is invalid"),
        ({"mirror": StreamSource(name="S")}, 10052, "detected cycle"),
        ({"mirror": StreamSource(name="X", external=External(api="$JS.API"))}, 10021, "must not overlap"),
        ({"sources": [StreamSource(name="O"), StreamSource(name="O")]}, 10140, "duplicate source"),
        ({"sources": [StreamSource(name="")]}, 10141, "sourced stream name is invalid"),
        ({"sources": [StreamSource(name="S")]}, 10052, "detected cycle"),
        ({"republish": RePublish(src=">", dest="S")}, 10052, "republish destination forms a cycle"),
        ({"republish": RePublish(src="a.*", dest="b.$2")}, 10052, "from 'a.*' to 'b.$2' not valid"),
        ({"subject_transform": SubjectTransform("a b", "c")}, 10155, "stream transform source: invalid subject"),
        ({"subject_transform": SubjectTransform("a", "b..c")}, 10156, "invalid transform"),
        ({"placement": Placement(preferred="x")}, 10052, "preferred server not permitted"),
    ],
)  # fmt: skip
def test_refusals(fields: dict[str, Any], code: int, text: str) -> None:
    with pytest.raises(ApiFailure) as refused:
        made(**fields)
    assert refused.value.error.err_code == code
    assert text in refused.value.error.description


def test_subjects_of_the_server_may_be_taken_without_acknowledgements() -> None:
    assert made(subjects=["$JS.>", "$SYS.>"], no_ack=True)
    assert made(subjects=["$JS.EVENT.>", "$SYS.ACCOUNT.>"])


def test_everything_under_its_new_subject_is_no_cycle() -> None:
    config = made(
        subjects=["in.>"],
        subject_transform=SubjectTransform("in.>", "out.>"),
        republish=RePublish(">", ">"),
    )
    assert config.republish == RePublish("out.>", "out.>")


@pytest.mark.parametrize(
    "fields",
    [
        {"max_msgs": -5},
        {"max_age": SECOND_NS},
        {"republish": RePublish(dest="r.>")},
        {"mirror": StreamSource(name="O")},
    ],
)
def test_pedantic_fills_in_nothing_that_was_said(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiFailure, match="pedantic mode") as refused:
        check_stream(StreamConfig(name="S", **fields), PaperAccount(ORIGIN), pedantic=True)
    assert refused.value.error.err_code == 10157
    assert check_stream(StreamConfig(name="S"), PaperAccount(), pedantic=True)


def test_the_server_may_bound_the_duplicate_window() -> None:
    server = ServerLimits(max_memory=0, max_storage=0, duplicate_window=SECOND_NS)
    assert check_stream(StreamConfig(name="S"), PaperAccount(server=server)).duplicate_window == SECOND_NS
    with pytest.raises(ApiFailure, match="larger then server limit of 1s"):
        check_stream(StreamConfig(name="S", duplicate_window=2 * SECOND_NS), PaperAccount(server=server))


def test_the_account_may_want_bounds_on_bytes() -> None:
    account = PaperAccount(limits=AccountLimits(max_bytes_required=True, storage_max_stream_bytes=100))
    with pytest.raises(ApiFailure, match="requires a stream config to have max bytes set"):
        check_stream(StreamConfig(name="S"), account)
    assert check_stream(StreamConfig(name="S", max_bytes=100), account)
    with pytest.raises(ApiFailure, match="exceeds account limit max stream bytes"):
        check_stream(StreamConfig(name="S", max_bytes=101), account)


def test_what_others_have_been_promised_is_not_promised_again() -> None:
    other = StreamConfig(name="T", max_bytes=60)
    account = PaperAccount(other, limits=AccountLimits(max_storage=100))
    check_limits(StreamConfig(name="S", max_bytes=40), account)
    with pytest.raises(ApiFailure, match="insufficient storage resources available"):
        check_limits(StreamConfig(name="S", max_bytes=41), account)
    check_limits(StreamConfig(name="S", max_bytes=41, storage="memory"), account)
    check_limits(StreamConfig(name="T", max_bytes=100), account, before=other)
    with pytest.raises(ApiFailure, match="storage resources"):
        check_limits(StreamConfig(name="T", max_bytes=101), account, before=other)
    full = PaperAccount(other, server=ServerLimits(max_memory=10, max_storage=60))
    with pytest.raises(ApiFailure, match="insufficient storage resources available"):
        check_limits(StreamConfig(name="S", max_bytes=1), full)
    with pytest.raises(ApiFailure, match="insufficient memory resources available"):
        check_limits(StreamConfig(name="S", max_bytes=11, storage="memory"), full)
    check_limits(StreamConfig(name="T", max_bytes=50), full, before=other)


def test_an_account_may_bound_streams_and_their_consumers() -> None:
    account = PaperAccount(ORIGIN, limits=AccountLimits(max_streams=1, max_consumers=3))
    check_stream_count(account, "O")
    with pytest.raises(ApiFailure, match="maximum number of streams reached"):
        check_stream_count(account, "S")
    check_limits(StreamConfig(name="S", max_consumers=3), account)
    with pytest.raises(ApiFailure, match="maximum consumers limit reached"):
        check_limits(StreamConfig(name="S", max_consumers=4), account)


@pytest.mark.parametrize(
    ("subjects", "free"),
    [(["a"], True), (["o"], True), (["o.x"], False), (["*.x"], False), ([">"], False), (["a", "o.>"], False)],
)
def test_a_subject_belongs_to_one_stream(subjects: list[str], free: bool) -> None:
    config = StreamConfig(name="S", subjects=subjects)
    check_overlap(config, PaperAccount(StreamConfig(name="S", subjects=[">"])))
    if free:
        check_overlap(config, PaperAccount(ORIGIN))
    else:
        with pytest.raises(ApiFailure, match="subjects overlap with an existing stream"):
            check_overlap(config, PaperAccount(ORIGIN))
    assert ROOMY.bytes_of("memory") == ROOMY.max_memory


def request(**fields: Any) -> StreamConfigRequest:
    return StreamConfigRequest(name="S", **fields)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (StreamConfigRequest(name="T"), "stream name in subject does not match request"),
        (request(sealed=True), "stream configuration for create can not be sealed"),
        (request(mirror_direct=True), "stream has no mirror but does have mirror direct"),
        (request(num_replicas=3), "replicas > 1 not supported in non-clustered mode"),
        (request(subjects=["o.x"]), "subjects overlap with an existing stream"),
        (
            request(mirror=StreamSource(name="O", filter_subject="a..b")),
            "subject filter 'a..b' for the mirror invalid",
        ),
        (request(sources=[StreamSource(name="O", filter_subject="a..b")]), "for the source: invalid subject"),
    ],
)
def test_what_may_not_be_created(asked: StreamConfigRequest, text: str) -> None:
    with pytest.raises(ApiFailure) as refused:
        stream_to_create("S", asked, PaperAccount(ORIGIN))
    assert text in refused.value.error.description


def test_a_name_with_a_separator() -> None:
    with pytest.raises(ApiFailure, match="Stream name can not contain path separators"):
        stream_to_create("a/b", StreamConfigRequest(name="a/b"), PaperAccount())


def test_the_same_stream_may_be_created_again() -> None:
    config = stream_to_create("S", request(), PaperAccount())
    assert config.metadata == {"_nats.req.level": "0"}
    account = PaperAccount(config)
    assert stream_to_create("S", request(metadata={"_nats.ver": "x"}), account) == config
    with pytest.raises(ApiFailure, match="already in use with a different configuration"):
        stream_to_create("S", request(max_msgs=5), account)


@pytest.mark.parametrize(
    ("before", "change", "text"),
    [
        ({}, {"storage": "memory"}, "can not change storage type"),
        ({}, {"retention": "workqueue"}, "can not change retention policy to/from workqueue"),
        ({"retention": "workqueue"}, {"retention": "limits"}, "can not change retention policy"),
        ({"sealed": True}, {"sealed": False}, "can not unseal a sealed stream"),
        ({"deny_delete": True}, {"deny_delete": False}, "can not cancel deny message deletes"),
        ({"deny_purge": True}, {"deny_purge": False}, "can not cancel deny purge"),
        ({}, {"mirror": StreamSource(name="O"), "subjects": []}, "mirror configuration can not be updated"),
        ({"allow_msg_ttl": True}, {"allow_msg_ttl": False}, "message TTL status can not be disabled"),
        ({}, {"allow_msg_counter": True}, "can not change message counter setting"),
        ({"allow_msg_schedules": True}, {"allow_msg_schedules": False}, "schedules can not be disabled"),
        ({}, {"persist_mode": "async"}, "can not change persist mode"),
        ({}, {"num_replicas": 3}, "replicas > 1 not supported"),
        ({}, {"subjects": ["o.x"]}, "subjects overlap"),
    ],
)
def test_what_may_not_change(before: dict[str, Any], change: dict[str, Any], text: str) -> None:
    existing = check_stream(StreamConfig(name="S", subjects=["s"], **before), PaperAccount())
    asked = request(**{"subjects": ["s"], **before, **change})
    with pytest.raises(ApiFailure) as refused:
        stream_to_update("S", asked, PaperAccount(ORIGIN, existing), lambda _: {})
    assert text in refused.value.error.description


def test_a_stream_is_changed() -> None:
    existing = stream_to_create("S", request(), PaperAccount())
    account = PaperAccount(existing)
    changed = stream_to_update("S", request(max_msgs=5, allow_msg_ttl=True), account, lambda _: {})
    assert (changed.max_msgs, changed.metadata) == (5, {"_nats.req.level": "1"})
    sealed = stream_to_update("S", request(sealed=True, max_age=SECOND_NS), account, lambda _: {})
    assert (sealed.max_age, sealed.discard, sealed.deny_delete, sealed.deny_purge) == (0, "new", True, True)
    with pytest.raises(ApiFailure, match="stream not found"):
        stream_to_update("S", request(), PaperAccount(), lambda _: {})


def test_limits_of_consumers_hold_for_those_that_are_there() -> None:
    from tidelog.stream.consumer_config import ConsumerConfig

    account = PaperAccount(stream_to_create("S", request(), PaperAccount()))
    consumers = {"c": ConsumerConfig(max_ack_pending=10), "d": ConsumerConfig(inactive_threshold=5)}
    for limits, names in (
        (ConsumerLimits(max_ack_pending=9), "c"),
        (ConsumerLimits(max_ack_pending=9, inactive_threshold=4), "c, d"),
    ):
        with pytest.raises(ApiFailure, match=f"change to limits violates consumers: {names}"):
            stream_to_update("S", request(consumer_limits=limits), account, lambda _: consumers)
    fits = ConsumerLimits(max_ack_pending=10, inactive_threshold=5)
    assert stream_to_update("S", request(consumer_limits=fits), account, lambda _: consumers)


@pytest.mark.parametrize("seed", range(20))
def test_subjects_overlap_if_any_two_do(seed: int) -> None:
    chance = random.Random(seed)

    def subject() -> str:
        tokens = [chance.choice(["a", "b", "*"]) for _ in range(chance.randint(1, 3))]
        return ".".join([*tokens[:-1], ">" if chance.random() < 0.2 else tokens[-1]])

    for _ in range(50):
        mine, theirs = ([subject() for _ in range(chance.randint(1, 2))] for _ in range(2))
        around = PaperAccount(StreamConfig(name="O", subjects=theirs))
        wanted = any(overlaps(one.encode(), other.encode()) for one in mine for other in theirs)
        try:
            check_overlap(StreamConfig(name="S", subjects=mine), around)
        except ApiFailure:
            assert wanted, (mine, theirs)
        else:
            assert not wanted, (mine, theirs)
