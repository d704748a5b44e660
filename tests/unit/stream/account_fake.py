"""An account on paper: what checks ask of their surroundings."""

from collections.abc import Iterable

from tidelog.stream.stream_config import StreamConfig
from tidelog.stream.surroundings import AccountLimits, ServerLimits

ROOMY = ServerLimits(max_memory=2**40, max_storage=2**40)


class PaperAccount:
    def __init__(
        self,
        *streams: StreamConfig,
        limits: AccountLimits | None = None,
        server: ServerLimits = ROOMY,
    ) -> None:
        self.streams = {config.name: config for config in streams}
        self.limits = limits or AccountLimits()
        self.server_limits = server

    def config_of(self, name: str) -> StreamConfig | None:
        return self.streams.get(name)

    def configs(self) -> Iterable[StreamConfig]:
        return self.streams.values()

    def server_reserved(self, storage: str) -> int:
        return sum(config.max_bytes for config in self.configs() if config.storage == storage)
