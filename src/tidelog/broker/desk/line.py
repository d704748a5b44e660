"""Requests that wait until what came before them is committed, so that who published something finds it.

    line = Line(account, carry_out)
    line.take(request)          carried out at once, or in its turn

A message is not to be seen before it is committed, which may take until a disk has synced. A request that names a
stream with such messages waits for them, and those of the same account behind it wait, too, as requests are carried
out in their order. It waits for what was there when it came, and no longer than `limits.REQUEST_WAIT_NS`: a disk that
takes nothing must not keep anybody from asking why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.base.limits import REQUEST_WAIT_NS
from tidelog.base.timer import Timer
from tidelog.broker.desk.request import Request
from tidelog.stream.stream import Stream

if TYPE_CHECKING:
    from tidelog.stream.account import AccountStreams

# Where the name of a stream stands in a request: `STREAM.INFO.<name>`, `STREAM.MSG.GET.<name>`.
PLACES = slice(2, 4)


class Line:
    """Of one account."""

    def __init__(self, streams: AccountStreams, carry_out: Callable[[Request], None]) -> None:
        self.streams = streams
        self.carry_out = carry_out
        self.waiting: deque[tuple[Request, Stream | None, int]] = deque()
        self.timer: Timer | None = None

    def take(self, request: Request) -> None:
        stream = self.unsettled(request)
        if stream is None and not self.waiting:
            self.carry_out(request)
            return
        seq = stream.log.store.last_seq if stream is not None else 0
        self.waiting.append((request, stream, seq))
        if len(self.waiting) == 1:
            self.wait()

    def unsettled(self, request: Request) -> Stream | None:
        """The stream that is named, if it has something that is not committed, and may be soon."""
        for name in request.tokens[PLACES]:
            stream = self.streams.streams.get(name)
            if stream is not None and not is_settled(stream, stream.log.store.last_seq):
                return stream
        return None

    def wait(self) -> None:
        """Be told when the first one may go on."""
        _, stream, seq = self.waiting[0]
        assert stream is not None
        if self.timer is None:
            engine = self.streams.engine
            self.timer = engine.timers.at(engine.clock.monotonic_ns() + REQUEST_WAIT_NS, self.give_up)
        stream.log.wait(seq, lambda _: self.move_on())

    def move_on(self) -> None:
        """Carry out all that wait for nothing any more."""
        while self.waiting:
            request, stream, seq = self.waiting[0]
            if stream is not None and not is_settled(stream, seq):
                self.wait()
                return
            self.waiting.popleft()
            self.carry_out(request)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def give_up(self) -> None:
        """It takes too long: carry out what there is."""
        self.timer = None
        while self.waiting:
            self.carry_out(self.waiting.popleft()[0])


def is_settled(stream: Stream, seq: int) -> bool:
    """Whether everything up to `seq` is committed, or may never be."""
    log = stream.log
    return seq <= log.horizon.committed_seq or log.closed or log.refusal is not None
