"""Where a new consumer begins in its stream, as its deliver policy says.

What is stored and not committed yet counts as stored: "new" is what comes after the consumer was made.
"""

import struct

from tidelog.base.instant import instant_ns
from tidelog.log.filter import Filter
from tidelog.stream.consumer_config import (
    DELIVER_ALL,
    DELIVER_BY_SEQUENCE,
    DELIVER_BY_TIME,
    DELIVER_LAST,
    DELIVER_LAST_PER_SUBJECT,
    ConsumerConfig,
)
from tidelog.stream.consumer_state import State
from tidelog.stream.course import Course
from tidelog.stream.stream import Stream

_SEQ = struct.Struct("<Q")


def filter_of(config: ConsumerConfig) -> Filter:
    return Filter(*(subject.encode() for subject in config.filters()))


def course_of(stream: Stream, config: ConsumerConfig) -> Course:
    filter = filter_of(config)
    if config.is_reverse:
        return Course(stream.log, filter, reverse_seq(stream, config), backward=True)
    if config.deliver_policy == DELIVER_LAST_PER_SUBJECT and stream.config.max_msgs_per_subject != 1:
        last_seq = stream.log.store.last_seq
        return Course(
            stream.log, filter, last_seq + 1, stream.log.store.index.last_per_subject(filter, last_seq)
        )
    return Course(stream.log, filter, start_seq(stream, config, filter))


def course_again(stream: Stream, config: ConsumerConfig, state: State) -> Course:
    """The course of a consumer that was here before."""
    next_seq = min(max(state.next_seq, 1), stream.log.store.last_seq + 1)
    if config.is_reverse:
        return Course(stream.log, filter_of(config), state.next_seq, backward=True)
    return Course(stream.log, filter_of(config), next_seq, [seq for (seq,) in _SEQ.iter_unpack(state.skips)])


def reverse_seq(stream: Stream, config: ConsumerConfig) -> int:
    """Where one begins that reads backwards: at the newest message, a sequence or a time."""
    if config.deliver_policy == DELIVER_BY_SEQUENCE:
        return config.opt_start_seq
    if config.deliver_policy == DELIVER_BY_TIME:
        assert config.opt_start_time is not None
        return stream.log.seq_at_time(instant_ns(config.opt_start_time) + 1) - 1
    return stream.log.store.last_seq


def start_seq(stream: Stream, config: ConsumerConfig, filter: Filter) -> int:
    first_seq, last_seq = stream.log.store.first_seq, stream.log.store.last_seq
    policy = config.deliver_policy
    if policy == DELIVER_BY_SEQUENCE:
        return max(config.opt_start_seq, first_seq)
    if policy in (DELIVER_ALL, DELIVER_LAST_PER_SUBJECT):
        seq = first_seq
    elif policy == DELIVER_LAST:
        seq = last_newest(stream, filter)
    elif policy == DELIVER_BY_TIME:
        assert config.opt_start_time is not None
        seq = stream.log.seq_at_time(instant_ns(config.opt_start_time))
        seq = nearest(stream, config, seq)
    else:
        seq = last_seq + 1
    return min(max(seq, first_seq), last_seq + 1)


def last_newest(stream: Stream, filter: Filter) -> int:
    """The newest message that matches; 0: there is none, and what comes first is waited for."""
    if filter.everything:
        return stream.log.store.last_seq
    return max((stream.newest(pattern) for pattern in filter.patterns), default=0)


def nearest(stream: Stream, config: ConsumerConfig, seq: int) -> int:
    """The first message of a filter behind `seq`, if each filter begins there: so is told where the consumer stands."""
    store = stream.log.store
    nearest_seq = store.last_seq
    for subject in config.filters():
        first = stream.log.next(Filter(subject.encode()), store.first_seq)
        if seq <= first < nearest_seq:
            nearest_seq = first
    return nearest_seq if config.filters() and seq < nearest_seq < store.last_seq else seq
