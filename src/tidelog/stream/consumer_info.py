"""A consumer as answers describe it: configuration, where it stands, and what waits."""

import msgspec

from tidelog.base.instant import NO_TIME, instant_ns, timestamp
from tidelog.stream.consumer import Consumer
from tidelog.stream.consumer_config import ConsumerConfig
from tidelog.stream.stream_config import always


class SequenceInfo(msgspec.Struct, omit_defaults=True):
    consumer_seq: int = always(int)
    stream_seq: int = always(int)
    last_active: str = ""


class PriorityGroupState(msgspec.Struct, omit_defaults=True):
    group: str = always(str)
    pinned_client_id: str = ""
    pinned_ts: str = ""


class ConsumerInfo(msgspec.Struct, omit_defaults=True):
    stream_name: str = always(str)
    name: str = always(str)
    created: str = always(str)
    config: ConsumerConfig = always(ConsumerConfig)
    delivered: SequenceInfo = always(SequenceInfo)
    ack_floor: SequenceInfo = always(SequenceInfo)
    num_ack_pending: int = always(int)
    num_redelivered: int = always(int)
    num_waiting: int = always(int)
    num_pending: int = always(int)
    push_bound: bool = False
    paused: bool = False
    pause_remaining: int = 0
    ts: str = always(str)
    priority_groups: list[PriorityGroupState] = []


def info_of(consumer: Consumer, now_ns: int, *, stored: bool = False) -> ConsumerInfo:
    """`stored`: with the configuration as it is kept, as the peer puts it into lists."""
    consumer.look()
    config = consumer.config
    floor_dseq, floor_seq = consumer.floors()
    info = ConsumerInfo(
        stream_name=consumer.stream.name,
        name=consumer.name,
        created=timestamp(consumer.created_ns),
        config=config if stored else config.shown(),
        delivered=SequenceInfo(consumer.dseq, consumer.delivered_seq, time_or_empty(consumer.delivered_ns)),
        ack_floor=SequenceInfo(floor_dseq, floor_seq, time_or_empty(consumer.acked_ns)),
        num_ack_pending=consumer.table.pending,
        num_redelivered=consumer.table.redelivered if config.max_deliver != 1 else 0,
        num_pending=consumer.num_pending(),
        push_bound=consumer.active,
        ts=timestamp(now_ns),
    )
    if consumer.waiting is not None:
        info.num_waiting = consumer.waiting.count
    if config.pause_until is not None:
        left_ns = instant_ns(config.pause_until) - now_ns
        info.paused = left_ns > 0
        info.pause_remaining = max(left_ns, 0)
    if config.priority_groups:
        info.priority_groups = [group_state(consumer)]
    return info


def group_state(consumer: Consumer) -> PriorityGroupState:
    waiting = consumer.waiting
    assert waiting is not None
    return PriorityGroupState(
        consumer.config.priority_groups[0],
        waiting.pin.decode(),
        timestamp(waiting.pinned_ns) if waiting.pinned_ns else NO_TIME,
    )


def time_or_empty(ns: int) -> str:
    return timestamp(ns) if ns else ""
