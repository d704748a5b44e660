"""Our verdicts on configurations, without a server: what the checks say, with the streams and consumers so far."""

import json
from collections.abc import Iterable

import msgspec

from conform.jetstream.case import Step
from tidelog.stream import failure
from tidelog.stream.consumer_config import ConsumerConfig, CreateConsumerRequest
from tidelog.stream.failure import ApiFailure
from tidelog.stream.request_check import (
    ConsumerSubject,
    consumer_to_create,
    named_consumer,
    stream_to_create,
    stream_to_update,
)
from tidelog.stream.stream_config import StreamConfig, StreamConfigRequest
from tidelog.stream.strict import InvalidJson, decode
from tidelog.stream.surroundings import AccountLimits, ServerLimits


class Judge:
    """An account on paper."""

    limits = AccountLimits()
    server_limits = ServerLimits(max_memory=2**60, max_storage=2**60)

    def __init__(self) -> None:
        self.streams: dict[str, StreamConfig] = {}
        self.consumers: dict[str, dict[str, ConsumerConfig]] = {}

    def config_of(self, name: str) -> StreamConfig | None:
        return self.streams.get(name)

    def configs(self) -> Iterable[StreamConfig]:
        return self.streams.values()

    def server_reserved(self, storage: str) -> int:
        return sum(
            config.max_bytes
            for config in self.streams.values()
            if config.storage == storage and config.max_bytes > 0
        )

    def take(self, step: Step) -> str:
        """What is answered to one step: a configuration or an error, as JSON."""
        verb, rest, body = step
        document = (body if isinstance(body, str) else json.dumps(body)).encode()
        try:
            config = (
                self.consumer(rest, document) if verb == "consumer" else self.stream(verb, rest, document)
            )
            return msgspec.json.encode(config.shown()).decode()
        except InvalidJson as error:
            return msgspec.json.encode(failure.INVALID_JSON(err=error).error).decode()
        except ApiFailure as refusal:
            return msgspec.json.encode(refusal.error).decode()

    def stream(self, verb: str, name: str, document: bytes) -> StreamConfig:
        request = decode(document, StreamConfigRequest)
        if verb == "create":
            config = stream_to_create(name, request, self)
        else:
            config = stream_to_update(name, request, self, lambda name: self.consumers.get(name, {}))
        self.streams[config.name] = config
        return config

    def consumer(self, rest: str, document: bytes) -> ConsumerConfig:
        request = decode(document, CreateConsumerRequest)
        config = named_consumer(ConsumerSubject(f"$JS.API.CONSUMER.{rest}"), request)
        stream = self.streams.get(request.stream_name)
        if stream is None:
            raise failure.STREAM_NOT_FOUND()
        consumers = self.consumers.setdefault(stream.name, {})
        config = consumer_to_create(config, request, stream, consumers, self, lambda _subject: False)
        consumers[config.durable_name or config.name] = config
        return config
