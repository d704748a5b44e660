"""Whether a stream may be as a configuration says: the peer's rules, in its order, with its words.

`check_stream` judges a configuration by itself and returns it with defaults filled in; `check_update` also by what it
was before. `check_limits` and `check_overlap` judge it by the account. All raise ApiFailure. With `pedantic` nothing is
filled in that would change what was asked for.

What is said of mirrors and sources is in `source_check`.
"""

from tidelog.base.duration import format_duration
from tidelog.base.limits import ASSET_NAME_SIZE, DESCRIPTION_SIZE, METADATA_SIZE, STREAM_REPLICAS
from tidelog.base.text import go_quote
from tidelog.stream import failure
from tidelog.stream.failure import ApiFailure
from tidelog.stream.source_check import check_mapping, check_mirror, check_sources, is_asset_name
from tidelog.stream.stream_config import (
    ASYNC,
    DISCARD_NEW,
    FILE,
    LIMITS,
    WORKQUEUE,
    Placement,
    RePublish,
    StreamConfig,
)
from tidelog.stream.surroundings import ServerLimits, Surroundings
from tidelog.subject.pattern import has_wildcard, is_subset, is_valid_subject, overlaps
from tidelog.subject.transform import Transform, TransformError

SECOND_NS = 1_000_000_000
# Ages and windows are kept no finer than this.
SHORTEST_NS = SECOND_NS // 10
DUPLICATE_WINDOW_NS = 120 * SECOND_NS

# Subjects of the server itself, which a stream may only take if it answers nobody, and the parts it may take anyway.
RESERVED = (
    (b"$JS.>", b"$JS.EVENT.>", "jetstream"),
    (b"$JSC.>", b"$JS.EVENT.>", "jetstream"),
    (b"$NRG.>", b"$JS.EVENT.>", "jetstream"),
    (b"$SYS.>", b"$SYS.ACCOUNT.>", "system"),
)


def invalid(text: str) -> ApiFailure:
    return failure.STREAM_INVALID_CONFIG(err=text)


def pedantic_fault(text: str) -> ApiFailure:
    return failure.PEDANTIC(err=text)


def check_stream(asked: StreamConfig, around: Surroundings, *, pedantic: bool = False) -> StreamConfig:
    """The configuration that a stream has if it is asked to be as `asked`."""
    check_words(asked)
    config = asked.copy()
    fill_numbers(config, pedantic)
    fill_duplicate_window(config, around.server_limits, pedantic)
    check_switches(config, pedantic)
    check_mirror(config, around, pedantic)
    check_sources(config, around)
    check_subjects(config)
    check_bytes(config, around)
    check_transforms(config, pedantic)
    if config.placement == Placement():
        config.placement = None
    if config.placement is not None and config.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return config


def check_words(config: StreamConfig) -> None:
    if not is_asset_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > ASSET_NAME_SIZE:
        raise invalid(f"stream name is too long, maximum allowed is {ASSET_NAME_SIZE}")
    if len(config.description.encode()) > DESCRIPTION_SIZE:
        raise invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_SIZE}")
    if metadata_size(config.metadata) > METADATA_SIZE:
        raise invalid(f"stream metadata exceeds maximum size of {METADATA_SIZE} bytes")


def metadata_size(metadata: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def fill_numbers(config: StreamConfig, pedantic: bool) -> None:
    config.num_replicas = config.num_replicas or 1
    if config.num_replicas > STREAM_REPLICAS:
        raise invalid(f"maximum replicas is {STREAM_REPLICAS}")
    if config.num_replicas < 0:
        raise failure.REPLICAS_COUNT_CANNOT_BE_NEGATIVE()
    for field in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers"):
        value = getattr(config, field)
        if value <= 0 and value != -1:
            if pedantic and value < -1:
                raise pedantic_fault(f"{field} must be set to -1")
            setattr(config, field, -1)
    if config.max_age < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age < SHORTEST_NS:
        raise invalid("max age needs to be >= 100ms")


def fill_duplicate_window(config: StreamConfig, server: ServerLimits, pedantic: bool) -> None:
    age_ns, most_ns = config.max_age, server.duplicate_window
    if config.duplicate_window == 0 and config.mirror is None and not config.sources:
        window_ns = DUPLICATE_WINDOW_NS
        if 0 < most_ns < window_ns:
            if pedantic:
                raise pedantic_fault("duplicate window limits are higher than current limits")
            window_ns = most_ns
        if 0 < age_ns < window_ns:
            if pedantic:
                raise pedantic_fault("duplicate window cannot be bigger than max age")
            window_ns = age_ns
        config.duplicate_window = window_ns
    window_ns = config.duplicate_window
    if window_ns < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < age_ns < window_ns:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < most_ns < window_ns:
        raise invalid(f"duplicates window can not be larger then server limit of {format_duration(most_ns)}")
    if 0 < window_ns < SHORTEST_NS:
        raise invalid("duplicates window needs to be >= 100ms")


def check_switches(config: StreamConfig, pedantic: bool) -> None:
    """What goes with what."""
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    if config.allow_msg_counter:
        check_counter(config)
    check_discard_per_subject(config)
    if config.subject_delete_marker_ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl:
        if config.subject_delete_marker_ttl < SECOND_NS:
            raise invalid("subject delete marker TTL must be at least 1 second")
        if not config.allow_msg_ttl:
            if pedantic:
                raise invalid("subject delete marker cannot be set if message TTLs are disabled")
            config.allow_msg_ttl = True
        allow_rollup(config, pedantic, "subject delete marker")
    if config.allow_msg_schedules:
        if config.discard == DISCARD_NEW:
            raise invalid("message scheduling cannot use discard new")
        allow_rollup(config, pedantic, "message scheduling")
    if config.persist_mode == ASYNC:
        if config.storage != FILE:
            raise invalid("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise invalid("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise invalid("async persist mode is not supported with atomic batch publish")


def check_counter(config: StreamConfig) -> None:
    if config.discard == DISCARD_NEW:
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention != LIMITS:
        raise invalid("counter stream can only use limits retention")


def check_discard_per_subject(config: StreamConfig) -> None:
    if config.discard_new_per_subject:
        if config.discard != DISCARD_NEW:
            raise invalid("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            raise invalid("discard new per subject requires max msgs per subject > 0")


def allow_rollup(config: StreamConfig, pedantic: bool, what: str) -> None:
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid(f"{what} cannot be set if roll-ups are disabled")
        config.allow_rollup_hdrs, config.deny_purge = True, False


def check_subjects(config: StreamConfig) -> None:
    if not config.subjects:
        if config.mirror is None and not config.sources:
            config.subjects = [config.name]
        return
    subjects = [subject.encode() for subject in config.subjects]
    for place, subject in enumerate(subjects):
        if not is_valid_subject(subject):
            raise invalid("invalid subject")
        if subject == b">":
            if not config.no_ack:
                raise invalid("capturing all subjects requires no-ack to be true")
            if config.num_replicas != 1:
                raise invalid("capturing all subjects requires replicas of 1")
        if not config.no_ack:
            for reserved, exception, what in RESERVED:
                if overlaps(subject, reserved) and not is_subset(subject, exception):
                    raise invalid(f"subjects that overlap with {what} api require no-ack to be true")
        for other in subjects[place + 1 :]:
            if overlaps(other, subject):
                raise invalid(f"subject {go_quote(subject)} overlaps with {go_quote(other)}")


def check_bytes(config: StreamConfig, around: Surroundings) -> None:
    limits = around.limits
    if limits.max_bytes_required and config.max_bytes <= 0:
        raise failure.STREAM_MAX_BYTES_REQUIRED()
    if 0 < limits.stream_bytes(config.storage) < config.max_bytes:
        raise failure.STREAM_MAX_STREAM_BYTES_EXCEEDED()


def check_transforms(config: StreamConfig, pedantic: bool) -> None:
    transform = config.subject_transform
    if transform is not None:
        if transform.src and not is_valid_subject(transform.src.encode()):
            raise failure.STREAM_TRANSFORM_INVALID_SOURCE(err=f"invalid subject {transform.src}")
        try:
            check_mapping(transform.src, transform.dest)
        except TransformError as error:
            raise failure.STREAM_TRANSFORM_INVALID_DESTINATION(err=error) from error
    if config.republish is not None:
        check_republish(config, config.republish, pedantic)


def check_republish(config: StreamConfig, republish: RePublish, pedantic: bool) -> None:
    if not republish.src:
        if pedantic:
            raise pedantic_fault("republish source can not be empty")
        republish.src = ">"
    transform = config.subject_transform
    if (
        republish.src == republish.dest == ">"
        and transform is not None
        and config.subjects == [transform.src]
    ):
        # Everything, under its new subject: no cycle, although it looks like one.
        if pedantic:
            raise pedantic_fault("implicit republish based on subject transform")
        republish.src = republish.dest = transform.dest
    destination = republish.dest.encode()
    if any(overlaps(destination, subject.encode()) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    try:
        if destination:
            Transform(republish.src.encode(), destination, chance=lambda _bound: 0)
    except TransformError as error:
        about = f"stream configuration for republish with transform from '{republish.src}' to"
        raise invalid(f"{about} '{republish.dest}' not valid") from error


# -- against what it was --


def check_update(
    before: StreamConfig, asked: StreamConfig, around: Surroundings, *, pedantic: bool = False
) -> StreamConfig:
    """The configuration that the stream `before` gets if it is asked to become as `asked`."""
    config = check_stream(asked, around, pedantic=pedantic)
    if config.name != before.name:
        raise invalid("stream configuration name must match original")
    check_replicas(config)
    if config.storage != before.storage:
        raise invalid("stream configuration update can not change storage type")
    if config.retention != before.retention and WORKQUEUE in (config.retention, before.retention):
        raise invalid("stream configuration update can not change retention policy to/from workqueue")
    if before.sealed and not config.sealed:
        raise invalid("stream configuration update can not unseal a sealed stream")
    if before.deny_delete and not config.deny_delete:
        raise invalid("stream configuration update can not cancel deny message deletes")
    if before.deny_purge and not config.deny_purge:
        raise invalid("stream configuration update can not cancel deny purge")
    if config.mirror is not None and config.mirror != before.mirror:
        raise failure.STREAM_MIRROR_NOT_UPDATABLE()
    if before.allow_msg_ttl and not config.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if config.allow_msg_counter != before.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if before.allow_msg_schedules and not config.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if before.persist_mode != config.persist_mode:
        raise invalid("stream configuration update can not change persist mode")
    if config.sealed:
        config.max_age = 0
        config.discard = DISCARD_NEW
        config.deny_delete = config.deny_purge = True
        config.allow_rollup_hdrs = False
    check_limits(config, around, before=before)
    return config


def check_replicas(config: StreamConfig) -> None:
    if config.num_replicas > 1:
        raise failure.STREAM_REPLICAS_NOT_SUPPORTED()


# -- against the account --


def check_limits(config: StreamConfig, around: Surroundings, *, before: StreamConfig | None = None) -> None:
    """Whether account and server can promise what the configuration asks for."""
    limits = around.limits
    if config.max_consumers > 0 and 0 < limits.max_consumers < config.max_consumers:
        raise failure.MAXIMUM_CONSUMERS_LIMIT()
    exceeded = (
        failure.STORAGE_RESOURCES_EXCEEDED if config.storage == FILE else failure.MEMORY_RESOURCES_EXCEEDED
    )
    reserved = sum(
        other.max_bytes
        for other in around.configs()
        if other.name != config.name and other.max_bytes > 0 and other.storage == config.storage
    )
    more = config.max_bytes if config.max_bytes >= 0 else 1
    if before is not None:
        # What it has already been promised counts for the account, not once more for the server.
        more = max(max(config.max_bytes, 0) - max(before.max_bytes, 0), 0)
        reserved += config.max_bytes - more
    if 0 <= limits.bytes_of(config.storage) < reserved + more:
        raise exceeded()
    if around.server_reserved(config.storage) + more > around.server_limits.bytes_of(config.storage):
        raise exceeded()


def check_stream_count(around: Surroundings, name: str) -> None:
    """Whether the account may have one stream more."""
    most = around.limits.max_streams
    if 0 < most <= sum(1 for other in around.configs() if other.name != name):
        raise failure.MAXIMUM_STREAMS_LIMIT()


WILDCARDS = frozenset("*>")


def check_overlap(config: StreamConfig, around: Surroundings) -> None:
    """Whether all its subjects are free."""
    subjects = [subject.encode() for subject in config.subjects]
    literals = {subject for subject in subjects if not has_wildcard(subject)}
    patterns = [subject for subject in subjects if subject not in literals]
    # There may be many streams, and most of them begin with another token.
    heads = {subject.partition(".")[0] for subject in config.subjects}
    anywhere = not heads.isdisjoint(WILDCARDS)
    for other in around.configs():
        if other.name == config.name:
            continue
        for text in other.subjects:
            if not anywhere and (head := text.partition(".")[0]) not in heads and head not in WILDCARDS:
                continue
            taken = text.encode()
            rivals = subjects if has_wildcard(taken) else patterns
            if taken in literals or any(overlaps(subject, taken) for subject in rivals):
                raise failure.STREAM_SUBJECT_OVERLAP()
