"""What a configuration is judged by beside itself: limits of the account and the server, and the other streams."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from tidelog.stream.stream_config import MEMORY, StreamConfig

NO_LIMIT = -1


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one account may have, with the JSON of the peer's account info. NO_LIMIT: as much as it likes."""

    max_memory: int = NO_LIMIT
    max_storage: int = NO_LIMIT
    max_streams: int = NO_LIMIT
    max_consumers: int = NO_LIMIT
    max_ack_pending: int = NO_LIMIT
    memory_max_stream_bytes: int = NO_LIMIT
    storage_max_stream_bytes: int = NO_LIMIT
    max_bytes_required: bool = False

    def stream_bytes(self, storage: str) -> int:
        return self.memory_max_stream_bytes if storage == MEMORY else self.storage_max_stream_bytes

    def bytes_of(self, storage: str) -> int:
        return self.max_memory if storage == MEMORY else self.max_storage


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What this server has to give, and the `limits` of its configuration, where 0 is no limit."""

    max_memory: int
    max_storage: int
    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window: int = 0

    def bytes_of(self, storage: str) -> int:
        return self.max_memory if storage == MEMORY else self.max_storage


class Surroundings(Protocol):
    """An account's streams, as far as a check must know of them."""

    @property
    def limits(self) -> AccountLimits: ...

    @property
    def server_limits(self) -> ServerLimits: ...

    def config_of(self, name: str) -> StreamConfig | None:
        """The configuration of a stream of this account."""

    def configs(self) -> Iterable[StreamConfig]:
        """Of all streams of this account."""

    def server_reserved(self, storage: str) -> int:
        """Bytes that streams of all accounts have been promised in this kind of storage."""
