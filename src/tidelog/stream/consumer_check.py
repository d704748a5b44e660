"""Whether a consumer may be as a configuration says: the peer's rules, in its order, with its words.

`fill_defaults` completes a configuration in place, `check_consumer` judges it by itself and by its stream,
`check_room` by the other consumers of the stream, `check_update` by what it was before. All raise ApiFailure. With
`pedantic` nothing is filled in that would change what was asked for.
"""

import re
from collections.abc import Iterable

from tidelog.base.duration import format_duration
from tidelog.base.instant import instant_ns
from tidelog.base.limits import ASSET_NAME_SIZE, DESCRIPTION_SIZE, KIB, METADATA_SIZE
from tidelog.stream import failure
from tidelog.stream.consumer_config import (
    ACK_ALL,
    ACK_EXPLICIT,
    ACK_FLOW_CONTROL,
    ACK_NONE,
    DELIVER_ALL,
    DELIVER_BY_SEQUENCE,
    DELIVER_BY_TIME,
    DELIVER_LAST_PER_SUBJECT,
    PINNED,
    REPLAY_INSTANT,
    ConsumerConfig,
)
from tidelog.stream.failure import ApiFailure
from tidelog.stream.source_check import is_asset_name
from tidelog.stream.stream_check import invalid, metadata_size, pedantic_fault
from tidelog.stream.stream_config import INTEREST, WORKQUEUE, StreamConfig
from tidelog.stream.surroundings import AccountLimits, ServerLimits
from tidelog.subject.pattern import has_wildcard, is_subset, is_valid_subject, overlaps

SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000
MAX_WAITING = 512
MAX_ACK_PENDING = 1000
ACK_WAIT_NS = 30 * SECOND_NS
PRIORITY_TIMEOUT_NS = 120 * SECOND_NS
SHORTEST_HEARTBEAT_NS = SECOND_NS // 10
# What a consumer that acknowledges by flow control must have, since other streams rely on it.
FLOW_CONTROL_HEARTBEAT_NS = SECOND_NS

# Fields that no consumer has below zero.
_NOT_NEGATIVE = (
    "max_batch",
    "max_expires",
    "max_bytes",
    "idle_heartbeat",
    "inactive_threshold",
    "priority_timeout",
)
_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
# As Go reads a number of base 10.
_INTEGER = re.compile(r"[+-]?[0-9]+")


def fill_defaults(
    config: ConsumerConfig,
    stream: StreamConfig,
    server: ServerLimits,
    account: AccountLimits,
    *,
    pedantic: bool = False,
) -> None:
    fill_signs(config, pedantic)
    if config.is_pull and config.max_waiting == 0:
        config.max_waiting = MAX_WAITING
    if config.ack_wait == 0 and config.ack_policy in (ACK_EXPLICIT, ACK_ALL):
        config.ack_wait = ACK_WAIT_NS
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            raise pedantic_fault("first backoff value has to equal batch AckWait")
        config.ack_wait = config.backoff[0]
    for field in ("max_ack_pending", "inactive_threshold"):
        if getattr(config, field) == 0:
            inherited = getattr(stream.consumer_limits, field)
            if pedantic and inherited > 0:
                raise pedantic_fault(f"{field} must be set if it's configured in stream limits")
            setattr(config, field, inherited)
    if config.max_ack_pending == 0 and config.ack_policy != ACK_NONE:
        bounds = [bound for bound in (server.max_ack_pending, account.max_ack_pending) if bound > 0]
        config.max_ack_pending = min([MAX_ACK_PENDING, *bounds])
    if config.is_pull and config.max_batch == 0 and server.max_request_batch > 0:
        if pedantic:
            raise pedantic_fault("max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = server.max_request_batch
    if config.priority_policy == PINNED and config.priority_timeout == 0:
        config.priority_timeout = PRIORITY_TIMEOUT_NS
    if config.ack_policy == ACK_FLOW_CONTROL and not pedantic:
        config.flow_control = True
        config.idle_heartbeat = FLOW_CONTROL_HEARTBEAT_NS


def fill_signs(config: ConsumerConfig, pedantic: bool) -> None:
    if config.max_deliver == 0 or config.max_deliver < -1:
        if pedantic and config.max_deliver < -1:
            raise pedantic_fault("max_deliver must be set to -1")
        config.max_deliver = -1
    if config.max_waiting < 0:
        if pedantic:
            raise pedantic_fault("max_waiting must not be negative")
        config.max_waiting = 0
    if config.max_ack_pending < -1:
        if pedantic:
            raise pedantic_fault("max_ack_pending must be set to -1")
        config.max_ack_pending = -1
    for field in _NOT_NEGATIVE:
        if getattr(config, field) < 0:
            if pedantic:
                raise pedantic_fault(f"{field} must not be negative")
            setattr(config, field, 0)


def check_consumer(
    config: ConsumerConfig, stream: StreamConfig, server: ServerLimits, account: AccountLimits
) -> None:
    """Whether a consumer with all defaults filled in may be."""
    if config.name and not is_asset_name(config.name):
        raise invalid("consumer name can not contain '.', '*', '>', '\\', '/'")
    if config.durable_name and not is_asset_name(config.durable_name):
        raise invalid("consumer durable name can not contain '.', '*', '>', '\\', '/'")
    check_replicas(config, stream)
    if any(wait_ns < 0 for wait_ns in config.backoff):
        raise failure.CONSUMER_BACKOFF_NEGATIVE()
    if config.ack_wait < 0:
        raise failure.CONSUMER_ACK_WAIT_NEGATIVE()
    if config.ack_policy == ACK_FLOW_CONTROL:
        check_flow_control(config)
    check_backoff(config)
    if len(config.description.encode()) > DESCRIPTION_SIZE:
        raise failure.CONSUMER_DESCRIPTION_TOO_LONG(max=DESCRIPTION_SIZE)
    if config.is_pull:
        check_pull(config, stream, server)
    else:
        check_push(config, stream)
    check_bounds(config, stream, server, account)
    if config.direct:
        if config.is_pull:
            raise failure.CONSUMER_DIRECT_REQUIRES_PUSH()
        if config.is_durable:
            raise failure.CONSUMER_DIRECT_REQUIRES_EPHEMERAL()
    check_filters(config)
    check_start(config)
    check_sampling(config)
    if config.flow_control and config.idle_heartbeat == 0:
        raise failure.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS()
    if config.durable_name and config.name and config.name != config.durable_name:
        raise failure.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH()
    if metadata_size(config.metadata) > METADATA_SIZE:
        raise failure.CONSUMER_METADATA_LENGTH(limit=f"{METADATA_SIZE // KIB}KB")
    check_priority(config)
    if config.is_reverse:
        check_reverse(config, stream)


def check_reverse(config: ConsumerConfig, stream: StreamConfig) -> None:
    """One that reads backwards goes over what is there once, and has no say in what is kept."""
    if not config.is_pull:
        raise invalid("consumer in reverse requires a pull based consumer")
    if config.ack_policy != ACK_NONE:
        raise invalid("consumer in reverse requires ack policy none")
    if config.deliver_policy not in (DELIVER_ALL, DELIVER_BY_SEQUENCE, DELIVER_BY_TIME):
        raise invalid("consumer in reverse can not have this deliver policy")
    if config.priority_policy or config.replay_policy != REPLAY_INSTANT:
        raise invalid("consumer in reverse can not have priority groups or replay")
    if stream.retention in (INTEREST, WORKQUEUE):
        raise invalid("consumer in reverse requires a stream with limits retention")


def check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > 0 and config.num_replicas > stream.num_replicas:
        raise failure.CONSUMER_REPLICAS_EXCEEDS_STREAM()
    if config.num_replicas < 0:
        raise failure.REPLICAS_COUNT_CANNOT_BE_NEGATIVE()
    bound = stream.retention in (INTEREST, WORKQUEUE)
    if bound and config.num_replicas not in (0, stream.num_replicas):
        raise failure.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM()


def check_flow_control(config: ConsumerConfig) -> None:
    if config.is_pull:
        raise failure.CONSUMER_ACK_FC_REQUIRES_PUSH()
    if not config.flow_control:
        raise failure.CONSUMER_ACK_FC_REQUIRES_FC()
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT_NS:
        raise invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise failure.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING()
    if config.ack_wait != 0 or config.backoff:
        raise failure.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT()
    if config.max_deliver > 0:
        raise failure.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER()


def check_backoff(config: ConsumerConfig) -> None:
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise failure.CONSUMER_MAX_DELIVER_BACKOFF()


def check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    subject = config.deliver_subject.encode()
    if has_wildcard(subject):
        raise failure.CONSUMER_DELIVER_TO_WILDCARDS()
    if not is_valid_subject(subject):
        raise failure.CONSUMER_INVALID_DELIVER_SUBJECT()
    if any(is_subset(subject, taken.encode()) for taken in stream.subjects):
        raise failure.CONSUMER_DELIVER_CYCLE()
    if config.max_waiting != 0:
        raise failure.CONSUMER_PUSH_MAX_WAITING()
    if config.max_ack_pending > 0 and config.ack_policy == ACK_NONE:
        raise failure.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED()
    if 0 < config.idle_heartbeat < SHORTEST_HEARTBEAT_NS:
        raise failure.CONSUMER_SMALL_HEARTBEAT()


def check_pull(config: ConsumerConfig, stream: StreamConfig, server: ServerLimits) -> None:
    if config.ack_policy == ACK_NONE and stream.retention == WORKQUEUE:
        raise failure.CONSUMER_PULL_REQUIRES_ACK()
    if config.rate_limit_bps > 0:
        raise failure.CONSUMER_PULL_WITH_RATE_LIMIT()
    if config.idle_heartbeat > 0:
        raise failure.CONSUMER_HB_REQUIRES_PUSH()
    if config.flow_control:
        raise failure.CONSUMER_FC_REQUIRES_PUSH()
    if 0 < config.max_expires < MILLISECOND_NS:
        raise failure.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL()
    if 0 < server.max_request_batch < config.max_batch:
        raise failure.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED(limit=server.max_request_batch)


def check_bounds(
    config: ConsumerConfig, stream: StreamConfig, server: ServerLimits, account: AccountLimits
) -> None:
    """What server, account and stream allow."""
    limits = stream.consumer_limits
    for bound in (server.max_ack_pending, account.max_ack_pending, limits.max_ack_pending):
        if 0 < bound < config.max_ack_pending:
            raise failure.CONSUMER_MAX_PENDING_ACK_EXCESS(limit=bound)
    if 0 < limits.inactive_threshold < config.inactive_threshold:
        raise failure.CONSUMER_INACTIVE_THRESHOLD_EXCESS(limit=format_duration(limits.inactive_threshold))


def check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise failure.CONSUMER_DUPLICATE_FILTER_SUBJECTS()
    if config.filter_subject and not is_valid_subject(config.filter_subject.encode()):
        raise invalid("invalid subject")
    if "" in config.filter_subjects:
        raise failure.CONSUMER_EMPTY_FILTER()
    filters = [subject.encode() for subject in config.filters()]
    for place, subject in enumerate(filters):
        if not is_valid_subject(subject):
            raise invalid("invalid subject")
        if any(is_subset(subject, other) for other in filters[:place] + filters[place + 1 :]):
            raise failure.CONSUMER_OVERLAPPING_SUBJECT_FILTERS()


def check_start(config: ConsumerConfig) -> None:
    """The deliver policy and what goes with it."""
    policy = config.deliver_policy
    words = policy.replace("_", " ")
    has_seq, has_time = config.opt_start_seq > 0, config.opt_start_time is not None

    def wrong(what: str) -> ApiFailure:
        return failure.CONSUMER_INVALID_POLICY(
            err=f"consumer delivery policy is deliver {words}, but optional {what}"
        )

    if policy == DELIVER_BY_SEQUENCE and not has_seq:
        raise wrong("start sequence is not set")
    if policy == DELIVER_BY_TIME and not has_time:
        raise wrong("start time is not set")
    if has_seq and policy != DELIVER_BY_SEQUENCE:
        raise wrong(f"start {'start ' if policy == DELIVER_BY_TIME else ''}sequence is also set")
    if has_time and policy != DELIVER_BY_TIME:
        raise wrong("start time is also set")
    if policy == DELIVER_LAST_PER_SUBJECT and not config.filters():
        raise wrong("filter subject is not set")


def check_sampling(config: ConsumerConfig) -> None:
    if not config.sample_freq:
        return
    text = config.sample_freq.removesuffix("%")
    if not _INTEGER.fullmatch(text):
        err = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise failure.CONSUMER_INVALID_SAMPLING(err=err)
    if int(text) < 0:
        raise failure.CONSUMER_INVALID_SAMPLING(err="<nil>")


def sample_percent(config: ConsumerConfig) -> int:
    """How many of a hundred acknowledgements are reported."""
    return int(config.sample_freq.removesuffix("%")) if config.sample_freq else 0


def check_priority(config: ConsumerConfig) -> None:
    if not config.priority_policy:
        if config.priority_groups:
            raise failure.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE()
        if config.priority_timeout > 0:
            raise failure.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE()
        return
    if not config.is_pull:
        raise failure.CONSUMER_PUSH_WITH_PRIORITY_GROUP()
    if not config.priority_groups:
        raise failure.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP()
    for group in config.priority_groups:
        if not group:
            raise failure.CONSUMER_EMPTY_GROUP_NAME()
        if not is_group_name(group):
            raise failure.CONSUMER_INVALID_GROUP_NAME()


def is_group_name(name: str) -> bool:
    return _GROUP_NAME.fullmatch(name) is not None


# -- among others --


def check_unique(name: str, config: ConsumerConfig, others: Iterable[tuple[str, ConsumerConfig]]) -> None:
    """On a work queue every message is for one consumer: whether no other one wants what this one wants."""
    wanted = [subject.encode() for subject in config.filters()]
    for other_name, other in others:
        if not wanted or other_name == name or other.direct or other.sourcing:
            continue
        taken = [subject.encode() for subject in other.filters()]
        if not taken or any(overlaps(subject, rival) for subject in wanted for rival in taken):
            raise failure.CONSUMER_WORKQUEUE_CONSUMER_NOT_UNIQUE()


def most_consumers(stream: StreamConfig, account: AccountLimits) -> int:
    """How many a stream may have; 0 or less: any number."""
    most = stream.max_consumers
    return account.max_consumers if most <= 0 or 0 < account.max_consumers < most else most


def check_room(
    name: str,
    config: ConsumerConfig,
    stream: StreamConfig,
    account: AccountLimits,
    others: list[tuple[str, ConsumerConfig]],
) -> None:
    """Whether the stream takes one consumer more, and one like this."""
    counted = [other for _, other in others if not (other.direct or other.sourcing)]
    most = most_consumers(stream, account)
    if 0 < most <= len(counted):
        raise failure.MAXIMUM_CONSUMERS_LIMIT()
    if stream.retention == WORKQUEUE and not (config.direct or config.sourcing):
        if config.ack_policy not in (ACK_EXPLICIT, ACK_FLOW_CONTROL):
            raise failure.CONSUMER_WORKQUEUE_REQUIRES_EXPLICIT_ACK()
        if config.deliver_policy != DELIVER_ALL:
            raise failure.CONSUMER_WORKQUEUE_CONSUMER_NOT_DELIVER_ALL()
        if counted:
            if not config.filters():
                raise failure.CONSUMER_WORKQUEUE_MULTIPLE_UNFILTERED()
            check_unique(name, config, others)
    if len(config.durable_name.encode()) > ASSET_NAME_SIZE:
        raise failure.CONSUMER_NAME_TOO_LONG(max=ASSET_NAME_SIZE)


# -- against what it was --


def check_update(before: ConsumerConfig, config: ConsumerConfig, *, bound: bool) -> None:
    """Whether a consumer may change so; `bound`: somebody listens to where it delivers now."""
    if before == config:
        return
    for field, words in (
        ("deliver_policy", "deliver policy"),
        ("mem_storage", "storage type"),
        ("direct", "direct"),
        ("sourcing", "sourcing"),
        ("direction", "direction"),
        ("opt_start_seq", "start sequence"),
    ):
        if getattr(before, field) != getattr(config, field):
            raise failure.CONSUMER_CREATE(err=f"{words} can not be updated")
    if start_ns(before) != start_ns(config):
        raise failure.CONSUMER_CREATE(err="start time can not be updated")
    for field, words in (
        ("ack_policy", "ack policy"),
        ("replay_policy", "replay policy"),
        ("idle_heartbeat", "heart beats"),
        ("flow_control", "flow control"),
    ):
        if getattr(before, field) != getattr(config, field):
            raise failure.CONSUMER_CREATE(err=f"{words} can not be updated")
    if before.deliver_subject != config.deliver_subject:
        if before.is_pull:
            raise failure.CONSUMER_CREATE(err="can not update pull consumer to push based")
        if config.is_pull:
            raise failure.CONSUMER_CREATE(err="can not update push consumer to pull based")
        if bound:
            raise failure.CONSUMER_NAME_EXIST()
    if before.max_waiting != config.max_waiting:
        raise failure.CONSUMER_CREATE(err="max waiting can not be updated")
    check_backoff(config)


def start_ns(config: ConsumerConfig) -> int | None:
    return instant_ns(config.opt_start_time) if config.opt_start_time is not None else None


def check_limits_kept(stream: StreamConfig, others: Iterable[tuple[str, ConsumerConfig]]) -> None:
    """Whether the consumers that a stream has go with the limits that it is about to get."""
    limits = stream.consumer_limits
    names = [
        name
        for name, config in others
        if 0 < limits.inactive_threshold < config.inactive_threshold
        or 0 < limits.max_ack_pending < config.max_ack_pending
    ]
    if names:
        raise failure.STREAM_UPDATE(err=f"change to limits violates consumers: {', '.join(names)}")
