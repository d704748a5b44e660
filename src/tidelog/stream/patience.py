"""Waiting for messages that are in the cold tier, on behalf of somebody who will not wait for ever.

    Patience(engine, log, resume, give_up)

`resume` is called once, when something has come back: then one looks again, and it may be that one has to wait on.
`give_up` is called instead when COLD_WAIT_NS have passed, with what to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.base.limits import COLD_WAIT_NS
from tidelog.log.log import Log

if TYPE_CHECKING:
    from tidelog.stream.engine import Engine


class Patience:
    def __init__(
        self,
        engine: Engine,
        log: Log,
        resume: Callable[[], None],
        give_up: Callable[[str], None],
        due_ns: int = 0,
    ) -> None:
        """`due_ns`: until when somebody else has begun to wait; 0: this is the beginning."""
        self.log = log
        self.resume = resume
        self.give_up = give_up
        self.due_ns = due_ns or engine.clock.monotonic_ns() + COLD_WAIT_NS
        self.timer = engine.timers.at(self.due_ns, self.tire)
        log.when_warm(self.come)

    def come(self) -> None:
        self.timer.cancel()
        self.resume()

    def tire(self) -> None:
        self.log.leave_warm(self.come)
        why = self.log.keeper.ferry.fetcher.failing
        self.give_up(why or "it is being brought back from the cold tier: ask again")
