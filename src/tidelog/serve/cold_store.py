"""The cold tier in a running server: threads that may wait for an object store, and what streams are told of it.

Answers come back to the loop as those of the other worker do. At the end nobody waits for a store that does not answer:
whatever is under way then is begun again by the next process, and does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.base.errors import ConfigError
from tidelog.base.limits import COLD_END_S
from tidelog.base.work import Threads
from tidelog.stream.tiering import TieringPlan

if TYPE_CHECKING:
    from tidelog.serve.options import ColdSettings

DIRECTORY = "cold"  # beside the streams


class ColdStore:
    def __init__(self, settings: ColdSettings, store: str, on_ready: Callable[[], None]) -> None:
        from tidelog.cold.depot import Warehouse  # only servers that have one pay for it

        if find_spec("obstore") is None or find_spec("pyarrow") is None:
            raise ConfigError("the cold tier needs packages that are not here: pip install 'tidelog[cold]'")
        self.url = settings.url or (Path(store).parent / DIRECTORY).absolute().as_uri()
        self.sender = Threads(settings.parallel, on_ready)
        self.fetcher = Threads(settings.parallel, on_ready)
        self.warehouse = Warehouse(self.url, self.sender, self.fetcher, settings.bytes_per_second)
        self.plan = TieringPlan(
            self.warehouse,
            streams=settings.streams,
            local_size=settings.local_size if settings.local_size >= 0 else None,
            local_age_ns=settings.local_age_ns if settings.local_age_ns >= 0 else None,
            keep_ns=settings.keep_ns if settings.keep_ns >= 0 else None,
            warm_size=settings.cache_size,
        )

    def deliver(self) -> None:
        self.sender.deliver()
        self.fetcher.deliver()

    def end(self) -> None:
        """Wait a little for what is under way."""
        for worker in (self.fetcher, self.sender):
            worker.deliver(COLD_END_S)
