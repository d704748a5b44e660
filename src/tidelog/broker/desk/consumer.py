"""`CONSUMER.`: consumers are made, changed, described, listed, paused, moved back and deleted.

Requests for messages do not come here: consumers answer them themselves (tidelog.stream.gate).
"""

import msgspec

from tidelog.base.instant import NO_TIME, instant_ns, timestamp
from tidelog.base.limits import LISTED_NAMES, LISTED_STREAMS
from tidelog.broker.desk.request import DONE, LATER, Entry, Later, Request
from tidelog.broker.desk.stream import Page
from tidelog.stream import failure
from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_check import is_group_name
from tidelog.stream.consumer_config import CreateConsumerRequest
from tidelog.stream.consumer_info import ConsumerInfo, info_of
from tidelog.stream.consumer_set import ConsumerSet
from tidelog.stream.failure import ApiFailure
from tidelog.stream.request_check import ConsumerSubject, consumer_to_create, named_consumer
from tidelog.stream.strict import Instant, Int, InvalidJson, Uint64, decode_whole


class PageRequest(msgspec.Struct):
    PEER_NAME = "JSApiConsumersRequest"

    offset: Int = 0


class Names(msgspec.Struct):
    consumers: list[str] = []


class Infos(msgspec.Struct):
    consumers: list[ConsumerInfo] = []


class Nothing(msgspec.Struct):
    """There is nothing to say."""


class PauseRequest(msgspec.Struct):
    PEER_NAME = "JSApiConsumerPauseRequest"

    pause_until: Instant = NO_TIME


class Paused(msgspec.Struct, omit_defaults=True):
    paused: bool = msgspec.field(default_factory=bool)
    pause_until: str = msgspec.field(default_factory=lambda: NO_TIME)
    pause_remaining: int = 0


class UnpinRequest(msgspec.Struct):
    PEER_NAME = "JSApiConsumerUnpinRequest"

    group: str = ""


class ResetRequest(msgspec.Struct):
    PEER_NAME = "JSApiConsumerResetRequest"

    seq: Uint64 = 0


class Reset(msgspec.Struct):
    reset_seq: int = 0


def consumers_of(request: Request) -> ConsumerSet:
    """The consumers of the stream that is named in the subject."""
    consumers: ConsumerSet = request.stream().keeper
    return consumers


def described(request: Request, consumer: Consumer) -> ConsumerInfo:
    return info_of(consumer, request.desk.clock.now_ns())


def create(request: Request) -> Later:
    """The answer says how much is to come, so it goes out before anything is delivered."""
    asked = request.decode(CreateConsumerRequest)
    streams = request.streams
    config = named_consumer(ConsumerSubject(request.subject), asked)
    consumers: ConsumerSet = streams.find(asked.stream_name).keeper
    config = consumer_to_create(
        config,
        asked,
        consumers.stream.config,
        consumers.configs(),
        streams,
        lambda subject: bool(subject) and streams.post.wanted(subject.encode()),
    )

    def done(outcome: Consumer | ApiFailure) -> None:
        if isinstance(outcome, ApiFailure):
            request.refuse(outcome)
        else:
            request.answer(described(request, outcome))
            outcome.pump()

    consumers.create(config, done, begin=False)
    return LATER


def info(request: Request) -> ConsumerInfo:
    request.expect_empty()
    return described(request, consumers_of(request).find(request.tokens[3]))


def delete(request: Request) -> Later:
    request.streams  # noqa: B018  whether there may be any comes first
    request.expect_empty()
    consumers_of(request).delete(request.tokens[3], lambda outcome: tell(request, outcome, DONE))
    return LATER


def tell(request: Request, outcome: Consumer | ApiFailure, answer: msgspec.Struct) -> None:
    """Answer when it is known what became of a change."""
    if isinstance(outcome, ApiFailure):
        request.refuse(outcome)
    else:
        request.answer(answer)


def public(request: Request) -> list[Consumer]:
    """Consumers that are no part of something else, by name."""
    consumers = request.stream().consumers.values()
    return sorted((one for one in consumers if not one.config.direct), key=lambda one: str(one.name))


def names(request: Request) -> tuple[msgspec.Struct, ...]:
    request.streams  # noqa: B018  whether there may be any comes first
    asked = request.decode_if_any(PageRequest)
    found = public(request)
    offset = min(max(asked.offset, 0), len(found))
    shown = [consumer.name for consumer in found[offset : offset + LISTED_NAMES]]
    return Page(len(found), offset, LISTED_NAMES), Names(shown)


def listing(request: Request) -> tuple[msgspec.Struct, ...]:
    request.streams  # noqa: B018  whether there may be any comes first
    asked = request.decode_if_any(PageRequest)
    found = public(request)
    offset = min(max(asked.offset, 0), len(found))
    now_ns = request.desk.clock.now_ns()
    shown = [info_of(consumer, now_ns, stored=True) for consumer in found[offset : offset + LISTED_STREAMS]]
    return Page(len(found), offset, LISTED_STREAMS), Infos(shown)


def pause(request: Request) -> Later:
    asked = request.decode_if_any(PauseRequest)
    request.streams  # noqa: B018  whether there may be any comes first
    until_ns = instant_ns(asked.pause_until)
    until = timestamp(until_ns) if until_ns else None
    left_ns = until_ns - request.desk.clock.now_ns()
    paused = Paused(left_ns > 0, until or NO_TIME, max(left_ns, 0))
    consumers_of(request).pause(request.tokens[3], until, lambda outcome: tell(request, outcome, paused))
    return LATER


def unpin(request: Request) -> Nothing:
    try:
        asked = decode_whole(request.body, UnpinRequest)
    except InvalidJson as error:
        raise failure.INVALID_JSON(err=str(error)) from None
    if not asked.group:
        raise failure.INVALID_JSON(err="consumer group not specified")
    if not is_group_name(asked.group):
        raise failure.CONSUMER_INVALID_GROUP_NAME()
    request.streams  # noqa: B018  whether there may be any comes first
    consumers_of(request).unpin(request.tokens[3], asked.group)
    return Nothing()


def reset(request: Request) -> tuple[msgspec.Struct, ...]:
    consumers = consumers_of(request)
    consumer = consumers.find(request.tokens[3])
    asked = ResetRequest()
    if request.body:
        try:
            asked = decode_whole(request.body, ResetRequest)
        except InvalidJson as error:
            raise failure.INVALID_JSON(err=str(error)) from None
    seq = consumers.reset(consumer.name, asked.seq)
    return described(request, consumer), Reset(seq)


ENTRIES = (
    Entry("CONSUMER.CREATE.*", "consumer_create_response", create),
    Entry("CONSUMER.CREATE.*.*", "consumer_create_response", create),
    Entry("CONSUMER.CREATE.*.*.>", "consumer_create_response", create),
    Entry("CONSUMER.DURABLE.CREATE.*.*", "consumer_create_response", create),
    Entry("CONSUMER.INFO.*.*", "consumer_info_response", info),
    Entry("CONSUMER.NAMES.*", "consumer_names_response", names, (Page(), Names())),
    Entry("CONSUMER.LIST.*", "consumer_list_response", listing, (Page(), Infos())),
    Entry("CONSUMER.DELETE.*.*", "consumer_delete_response", delete),
    Entry("CONSUMER.PAUSE.*.*", "consumer_pause_response", pause, (Paused(),)),
    Entry("CONSUMER.UNPIN.*.*", "consumer_unpin_response", unpin),
    Entry("CONSUMER.RESET.*.*", "consumer_reset_response", reset, (Reset(),)),
)
