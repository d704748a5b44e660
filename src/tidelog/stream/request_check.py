"""Requests to create and update streams and consumers: everything that is asked of them, in the peer's order.

Each function takes a decoded request and the name in its subject, and returns the configuration to use, with defaults
and metadata as they are kept. ApiFailure says why it may not be. Nothing is changed here.
"""

import re
from collections.abc import Callable, Mapping

from tidelog.stream import failure, metadata
from tidelog.stream.consumer_check import (
    check_consumer,
    check_limits_kept,
    check_room,
    check_unique,
    check_update,
    fill_defaults,
    most_consumers,
)
from tidelog.stream.consumer_config import CREATE, UPDATE, ConsumerConfig, CreateConsumerRequest
from tidelog.stream.source_check import check_filters
from tidelog.stream.stream_check import (
    check_limits,
    check_overlap,
    check_replicas,
    check_stream,
    check_stream_count,
    invalid,
)
from tidelog.stream.stream_check import (
    check_update as check_stream_update,
)
from tidelog.stream.stream_config import WORKQUEUE, StreamConfig, StreamConfigRequest
from tidelog.stream.surroundings import Surroundings

# What a consumer that is not durable outlives its last user by.
INACTIVE_THRESHOLD_NS = 5_000_000_000

_SEPARATORS = re.compile(r"[\\/]")

# Consumers of a stream by name.
Consumers = Mapping[str, ConsumerConfig]


def stream_to_create(name: str, request: StreamConfigRequest, around: Surroundings) -> StreamConfig:
    """What the new stream is to be. If there is one like this already, this is what it is."""
    asked = request.config()
    if name != asked.name:
        raise failure.STREAM_MISMATCH()
    if _SEPARATORS.search(name):
        raise failure.STREAM_NAME_CONTAINS_PATH_SEPARATORS()
    if asked.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if asked.mirror_direct and asked.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")
    check_stream_count(around, name)
    check_limits(asked, around)
    config = check_stream(asked, around, pedantic=request.pedantic)
    check_replicas(config)
    existing = around.config_of(name)
    if existing is not None:
        config.metadata = metadata.like_before(config.metadata, existing.metadata)
        if config != existing:
            raise failure.STREAM_NAME_EXIST()
        return config
    check_limits(config, around)
    check_filters(config)
    check_overlap(config, around)
    return config


def stream_to_restore(name: str, request: StreamConfigRequest, around: Surroundings) -> StreamConfig:
    """What a stream that comes back is to be."""
    asked = request.config()
    asked.name = asked.name or name
    if name != asked.name:
        raise failure.STREAM_MISMATCH()
    if _SEPARATORS.search(name):
        raise failure.STREAM_NAME_CONTAINS_PATH_SEPARATORS()
    config = check_stream(asked, around)
    check_stream_count(around, name)
    check_limits(config, around)
    if around.config_of(name) is not None:
        raise failure.STREAM_NAME_EXIST_RESTORE_FAILED()
    check_overlap(config, around)
    return config


def stream_to_update(
    name: str,
    request: StreamConfigRequest,
    around: Surroundings,
    consumers_of: Callable[[str], Consumers],
) -> StreamConfig:
    """What an existing stream is to become."""
    asked = check_stream(request.config(), around, pedantic=request.pedantic)
    if name != asked.name:
        raise failure.STREAM_MISMATCH()
    existing = around.config_of(name)
    if existing is None:
        raise failure.STREAM_NOT_FOUND()
    config = check_stream_update(existing, asked, around, pedantic=request.pedantic)
    config.metadata = metadata.stored(config.metadata, config.required_level())
    if config.consumer_limits != existing.consumer_limits:
        check_limits_kept(config, consumers_of(name).items())
    check_overlap(config, around)
    return config


class ConsumerSubject:
    """What the subject of a request to create a consumer says: `…CREATE.<stream>[.<consumer>[.<filter>]]`, or the
    older `…DURABLE.CREATE.<stream>.<consumer>`."""

    def __init__(self, subject: str) -> None:
        tokens = subject.split(".")
        # $JS.API.CONSUMER comes first.
        self.durable = tokens[3] == "DURABLE"
        names = tokens[5:] if self.durable else tokens[4:]
        self.complete = not self.durable or len(names) == 2
        self.stream = names[0] if names else ""
        self.consumer = names[1] if len(names) > 1 else ""
        self.filter = "" if self.durable else ".".join(names[2:])
        self.ephemeral = not self.durable and len(names) == 1


def named_consumer(where: ConsumerSubject, request: CreateConsumerRequest) -> ConsumerConfig:
    """The configuration in the request, with the name that subject and request agree on; empty: one is to be found."""
    config = request.config.copy()
    if not where.complete:
        raise failure.CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT()
    if where.stream != request.stream_name:
        raise failure.STREAM_MISMATCH()
    if _SEPARATORS.search(config.name if where.ephemeral else where.consumer):
        raise failure.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS()
    if where.ephemeral:
        if config.durable_name:
            raise failure.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME()
    else:
        if where.durable and not config.durable_name:
            raise failure.CONSUMER_DURABLE_NAME_NOT_SET()
        if config.durable_name and where.consumer != config.durable_name:
            raise failure.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT()
        config.name = where.consumer
    if where.filter:
        if config.filter_subjects:
            raise failure.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED()
        if config.filter_subject != where.filter:
            raise failure.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH()
    if config.num_replicas > 1:
        raise failure.STREAM_REPLICAS_NOT_SUPPORTED()
    return config


def consumer_to_create(
    config: ConsumerConfig,
    request: CreateConsumerRequest,
    stream: StreamConfig,
    consumers: Consumers,
    around: Surroundings,
    has_interest: Callable[[str], bool],
) -> ConsumerConfig:
    """What the consumer is to be, new or updated. `has_interest` says whether anybody listens to a subject."""
    name = config.durable_name or config.name
    before = consumers.get(name) if name else None
    if before is not None:
        # Only a request of its own changes whether it is paused.
        config.pause_until = before.pause_until
    config.metadata = metadata.stored(config.metadata, config.required_level())
    limits, server = around.limits, around.server_limits
    fill_defaults(config, stream, server, limits, pedantic=request.pedantic)
    check_consumer(config, stream, server, limits)
    # There may be many, so they are looked through only for what needs it.
    counts = stream.retention == WORKQUEUE or most_consumers(stream, limits) > 0
    others = list(consumers.items()) if counts else []
    if before is not None:
        if request.action == CREATE:
            config.metadata = metadata.like_before(config.metadata, before.metadata)
            if config != before:
                raise failure.CONSUMER_ALREADY_EXISTS()
        if stream.retention == WORKQUEUE:
            check_unique(name, config, others)
        check_update(before, config, bound=has_interest(before.deliver_subject))
    elif request.action == UPDATE:
        raise failure.CONSUMER_DOES_NOT_EXIST()
    else:
        check_room(name, config, stream, limits, others)
    kept = before is not None and before.inactive_threshold == 0
    if not config.is_durable and config.inactive_threshold == 0 and not kept:
        config.inactive_threshold = INACTIVE_THRESHOLD_NS
    return config
