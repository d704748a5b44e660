"""Whether a stream may take over the messages of others as a configuration says: mirrors, sources, and no circles.

The rules, their order and words are the peer's; `stream_check` calls these in their turn.
"""

import re
from collections.abc import Iterable

from tidelog.base.text import go_quote
from tidelog.stream import failure
from tidelog.stream.failure import Failure
from tidelog.stream.stream_config import SourceConsumer, StreamConfig, StreamSource, SubjectTransform
from tidelog.stream.surroundings import Surroundings
from tidelog.subject.pattern import is_subset, is_valid_literal, is_valid_subject, overlaps
from tidelog.subject.transform import Transform, TransformError

_NOT_IN_NAMES = re.compile(r"[ \t\r\n\f.*>\\/]")
API_PREFIX = "$JS.API"
_WHITE = re.compile(r"[\t\n\f\r ]")


def is_asset_name(name: str) -> bool:
    """Whether a stream or consumer may be called this."""
    return name != "" and _NOT_IN_NAMES.search(name) is None


def check_mapping(source: str, destination: str) -> None:
    """TransformError if subjects cannot be mapped so."""
    if not destination:
        return
    about = "invalid mapping destination: "
    rest_seen = False
    for token in destination.split("."):
        if not token or rest_seen:
            raise TransformError(f"{about}invalid transform" + (f" in {token}" if token else ""))
        if len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
            continue
        if token == ">":
            rest_seen = True
        elif _WHITE.search(token):
            raise TransformError(f"{about}invalid transform")
    Transform(source.encode(), destination.encode(), chance=lambda _bound: 0)


def check_mirror(config: StreamConfig, around: Surroundings, pedantic: bool) -> None:
    mirror = config.mirror
    if mirror is None:
        return
    for wrong, refusal in (
        (config.first_seq, failure.MIRROR_WITH_FIRST_SEQ),
        (config.subjects, failure.MIRROR_WITH_SUBJECTS),
        (config.sources, failure.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, failure.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, failure.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, failure.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, failure.MIRROR_WITH_MSG_SCHEDULES),
    ):
        if wrong:
            raise refusal()
    check_consumer(mirror, failure.MIRROR_DURABLE_CONSUMER_CONFIG_INVALID)
    if mirror.filter_subject and mirror.subject_transforms:
        raise failure.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED()
    if config.subject_delete_marker_ttl > 0:
        raise failure.STREAM_INVALID_CONFIG(err="subject delete markers forbidden on mirrors")
    transforms = mirror.subject_transforms
    for place, transform in enumerate(transforms):
        check_transform(
            transform,
            failure.MIRROR_INVALID_SUBJECT_FILTER,
            failure.MIRROR_INVALID_TRANSFORM_DESTINATION,
        )
        others = transforms[:place] + transforms[place + 1 :]
        if any(overlaps(transform.src.encode(), other.src.encode()) for other in others):
            raise failure.MIRROR_OVERLAPPING_SUBJECT_FILTERS()
    if mirror.external is not None:
        return
    if not is_asset_name(mirror.name):
        raise failure.MIRROR_INVALID_STREAM_NAME()
    origin = around.config_of(mirror.name)
    if origin is not None:
        if 0 < config.max_msg_size < origin.max_msg_size:
            raise failure.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG()
        if pedantic and config.mirror_direct != origin.allow_direct:
            raise failure.PEDANTIC(err="origin stream has direct get set, mirror has it disabled")
        config.mirror_direct = origin.allow_direct


def check_consumer(source: StreamSource, refusal: Failure) -> None:
    """The durable consumer that a mirror or source may name."""
    consumer = source.consumer
    if consumer is not None and not (
        is_asset_name(consumer.name)
        and is_valid_literal(consumer.deliver_subject.encode())
        and source.opt_start_seq == 0
        and source.opt_start_time is None
        and not source.filter_subject
    ):
        raise refusal()


def check_transform(transform: SubjectTransform, bad_source: Failure, bad_destination: Failure) -> None:
    if transform.src and not is_valid_subject(transform.src.encode()):
        raise bad_source(err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise bad_destination(err=error) from error


def check_sources(config: StreamConfig, around: Surroundings) -> None:
    if config.sources and config.allow_msg_schedules:
        raise failure.SOURCE_WITH_MSG_SCHEDULES()
    seen: set[tuple[object, ...]] = set()
    consumers: set[tuple[str, str, str]] = set()
    for source in config.sources:
        if not is_asset_name(source.name):
            raise failure.SOURCE_INVALID_STREAM_NAME()
        identity = source_identity(source)
        if identity in seen:
            raise failure.SOURCE_DUPLICATE_DETECTED()
        seen.add(identity)
        if source.filter_subject and source.subject_transforms:
            raise failure.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED()
        check_source_transforms(source.subject_transforms)
        check_consumer(source, failure.SOURCE_DURABLE_CONSUMER_CONFIG_INVALID)
        if source.consumer is not None:
            user = (source.name, source.external.api if source.external else "", source.consumer.name)
            if user in consumers:
                raise failure.SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED()
            consumers.add(user)
        origin = around.config_of(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise failure.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG()
    check_external(config, around)
    check_circle(config, around)


def source_identity(source: StreamSource) -> tuple[object, ...]:
    """Two sources with the same one are the same."""
    pairs = source.subject_transforms or [SubjectTransform(src=source.filter_subject)]
    return (
        source.name,
        source.external.api if source.external else None,
        (source.consumer or SourceConsumer()).name,
        tuple((pair.src or ">", pair.dest or ">") for pair in pairs),
    )


def check_source_transforms(transforms: list[SubjectTransform]) -> None:
    for transform in transforms:
        check_transform(
            transform,
            failure.SOURCE_INVALID_SUBJECT_FILTER,
            failure.SOURCE_INVALID_TRANSFORM_DESTINATION,
        )
    for place, transform in enumerate(transforms):
        others = transforms[:place] + transforms[place + 1 :]
        if any(is_subset(transform.src.encode(), other.src.encode()) for other in others):
            raise failure.SOURCE_OVERLAPPING_SUBJECT_FILTERS()


def check_external(config: StreamConfig, around: Surroundings) -> None:
    """Prefixes under which streams of other accounts and domains are reached."""
    sources = [*([config.mirror] if config.mirror else []), *config.sources]
    subjects: list[str] = []
    for source in sources:
        origin = around.config_of(source.name) if source.external is None else None
        subjects += origin.subjects if origin is not None else []
    externals = [source.external for source in sources if source.external is not None]
    for prefix in (external.deliver for external in externals if external.deliver):
        if not is_valid_literal(prefix.encode()):
            raise failure.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJECT(prefix=prefix)
        for subject in subjects:
            if overlaps(subject.encode(), f"{prefix}.{subject}".encode()):
                raise failure.STREAM_EXTERNAL_DELIVERY_PREFIX_OVERLAPS(prefix=prefix, subject=subject)
    for prefix in (external.api for external in externals if external.api):
        if not is_valid_literal(prefix.encode()):
            about = f"stream external api prefix {go_quote(prefix.encode())}"
            raise failure.STREAM_INVALID_CONFIG(err=f"{about} must be a valid subject without wildcards")
        if prefix == API_PREFIX:
            raise failure.STREAM_EXTERNAL_API_OVERLAP(prefix=prefix, subject=API_PREFIX)


def check_circle(config: StreamConfig, around: Surroundings) -> None:
    """Whether messages could come back to where they were."""
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        current = to_visit.pop(0)
        visited.add(current.name)
        for source in current.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if takes_any(current.subjects, source.filter_subject):
                    raise failure.STREAM_INVALID_CONFIG(err="detected cycle")
            elif (origin := around.config_of(source.name)) is not None:
                to_visit.append(origin)
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise failure.STREAM_INVALID_CONFIG(err="detected cycle")
            if (origin := around.config_of(mirror.name)) is not None:
                to_visit.append(origin)


def takes_any(subjects: Iterable[str], filter_subject: str) -> bool:
    return not filter_subject or any(
        overlaps(subject.encode(), filter_subject.encode()) for subject in subjects
    )


def check_filters(config: StreamConfig) -> None:
    """What the peer finds out only when it sets a stream up."""
    named = [(source, "source:") for source in config.sources]
    if config.mirror is not None:
        named.append((config.mirror, "mirror"))
    for source, role in named:
        subject = source.filter_subject
        if subject and not source.subject_transforms and not is_valid_subject(subject.encode()):
            raise failure.STREAM_CREATE(err=f"subject filter '{subject}' for the {role} invalid subject")
