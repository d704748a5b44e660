"""A stream's messages in order, one after the other, going on with what comes: for watchers, and for whoever follows.

What it promises: each message that matches comes once, in the order of the stream, whatever is lost on the way. Nothing
is acknowledged and nothing of the reader is kept on the server for long.

How it works: an ephemeral pull consumer without acknowledgements. Its messages are numbered; where a number is missing,
or the consumer has gone (a restart of the server, a pause of ours), another one is made that begins behind the last
message that was given out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from tidelog.base.errors import ApiError, NoResponders, Timeout
from tidelog.client.jetstream.answer import ConsumerInfo, Document
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.pull import (
    HEARTBEAT,
    NO_MESSAGES,
    REQUEST_TIMEOUT,
    SECOND_NS,
    is_status,
    unserved,
)
from tidelog.client.jetstream.stored import StoredMessage, from_consumer, place_of
from tidelog.client.message import Message

BATCH_COUNT = 500
EXPIRY_S = 30.0
HEARTBEAT_S = 2.0
# The consumer goes by itself when its reader has gone.
INACTIVE_S = 300.0
# Another consumer after this many that did not deliver a thing: something is wrong for good.
ATTEMPTS_MAX = 5


class OrderedReader:
    """`config` is what a consumer may choose: deliver_policy, opt_start_seq, filter_subjects, headers_only ..."""

    def __init__(self, js: JetStream, stream: str, **config: Any) -> None:
        self._js = js
        self._stream = stream
        self._config: Document = config
        self._inbox = js.connection.subscribe(js.connection.new_inbox())
        self._last_seq = 0
        self._consumer_seq = 0
        self._wanted = 0
        self._attempts = 0
        # Messages in the stream that match, when the reader began.
        self.info = self._create(config)
        self.initial_count = self.info.num_pending

    def messages(self, *, idle_s: float | None = None) -> Iterator[StoredMessage]:
        """For ever, or until none came for `idle_s`."""
        last_s = time.monotonic()
        while True:
            patience_s = 2 * HEARTBEAT_S + 1
            if idle_s is not None:
                patience_s = min(patience_s, max(0.0, idle_s - (time.monotonic() - last_s)))
            self._ask()
            try:
                found = self._inbox.next_batch(BATCH_COUNT, patience_s)
            except Timeout:
                if idle_s is not None and time.monotonic() - last_s >= idle_s:
                    return
                if idle_s is None or patience_s > 2 * HEARTBEAT_S:
                    self._begin_anew()
                continue
            for message in found:
                if is_status(message):
                    self._take_status(message)
                elif self._follows(message):
                    last_s = time.monotonic()
                    yield from_consumer(message)
                else:
                    self._begin_anew()
                    break

    def close(self) -> None:
        self._inbox.unsubscribe()
        try:
            self._js.delete_consumer(self._stream, self.info.name)
        except (ApiError, Timeout, NoResponders):
            # It goes by itself after INACTIVE_S.
            return

    def _create(self, config: Document) -> ConsumerInfo:
        fixed: Document = {
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int(INACTIVE_S * SECOND_NS),
        }
        return self._js.create_consumer(self._stream, {**config, **fixed})

    def _ask(self) -> None:
        if self._wanted > BATCH_COUNT // 2:
            return
        request = {
            "batch": BATCH_COUNT - self._wanted,
            "expires": int(EXPIRY_S * SECOND_NS),
            "idle_heartbeat": int(HEARTBEAT_S * SECOND_NS),
        }
        self._wanted = BATCH_COUNT
        subject = f"{self._js.prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self.info.name}"
        self._js.connection.publish(subject, msgspec.json.encode(request), reply=self._inbox.subject)

    def _follows(self, message: Message) -> bool:
        """Whether it is the next one of the present consumer."""
        place = place_of(message.reply)
        if place.consumer_seq != self._consumer_seq + 1:
            return False
        self._consumer_seq = place.consumer_seq
        self._last_seq = place.seq
        self._wanted -= 1
        self._attempts = 0
        return True

    def _take_status(self, message: Message) -> None:
        if message.status == HEARTBEAT:
            return
        if message.status in (NO_MESSAGES, REQUEST_TIMEOUT):
            self._wanted -= unserved(message, self._wanted)
        else:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Behind the last message that was given out."""
        self._attempts += 1
        if self._attempts > ATTEMPTS_MAX:
            raise NoResponders(f"stream {self._stream!r}: {ATTEMPTS_MAX} consumers delivered nothing")
        self.close()
        connection = self._js.connection
        self._inbox = connection.subscribe(connection.new_inbox())
        config = self._config
        if self._last_seq:
            config = {key: value for key, value in config.items() if key != "opt_start_time"}
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self._last_seq + 1}
        self._wanted = self._consumer_seq = 0
        self.info = self._create(config)
