"""Requests that wait: for what came before them to be committed, and for changes of what they name.

    line = Line(streams, carry_out)
    line.take(request)          carried out at once, or in its turn

A message is not to be seen before it is committed, which may take until a disk has synced. A request that names a
stream with such messages waits for them, so that who published something finds it. It waits for what was there when it
came, and no longer than `limits.REQUEST_WAIT_NS`: a disk that takes nothing must not keep anybody from asking why.

A request that names a stream or a consumer which is being made, changed or deleted waits until that is done, however
long it takes. One that makes or changes a stream waits for all changes and deletions of streams of the account, by
which it is judged.

Requests of one client, and those that name the same stream or consumer, are carried out in the order in which they
came; others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.base.limits import REQUEST_WAIT_NS
from tidelog.base.timer import Timer
from tidelog.broker.desk.request import Request
from tidelog.stream.stream import Stream

if TYPE_CHECKING:
    from tidelog.stream.account import AccountStreams

# Where the name of a stream stands in a request: `STREAM.INFO.<name>`, `STREAM.MSG.GET.<name>`.
PLACES = slice(2, 4)
JUDGED = frozenset(("CREATE", "UPDATE", "RESTORE"))


@dataclass(slots=True)
class Waiting:
    request: Request
    keys: frozenset[str]  # what it may name
    own: tuple[str, ...]  # what it holds up others of
    stream: Stream | None  # whose messages it waits for
    seq: int


class Line:
    """Of one account."""

    def __init__(self, streams: AccountStreams, carry_out: Callable[[Request], None]) -> None:
        self.streams = streams
        self.changes = streams.changes
        self.changes.on_end = self.move_on
        self.carry_out = carry_out
        self.waiting: list[Waiting] = []
        self.held: set[object] = set()  # clients and names with a request that waits
        self.heard: set[Stream] = set()  # that will tell when they have committed something
        self.timer: Timer | None = None
        self._moving = False
        self._again = False

    def take(self, request: Request) -> None:
        stream = self.unsettled(request)
        if stream is None and not self.waiting and not self.changes.busy:
            self.carry_out(request)
            return
        seq = stream.log.store.last_seq if stream is not None else 0
        one = Waiting(request, keys_of(request), own_key(request), stream, seq)
        if self.is_held(one) or self.is_held_up(one):
            self.waiting.append(one)
            self.hold(one)
            self.listen(one)
        else:
            self.carry_out(request)

    def drop(self) -> int:
        """Nobody who waits is answered. Returns how many that were."""
        dropped = len(self.waiting)
        self.waiting.clear()
        self.held.clear()
        return dropped

    def unsettled(self, request: Request) -> Stream | None:
        """The stream that is named, if it has something that is not committed, and may be soon."""
        for name in request.tokens[PLACES]:
            stream = self.streams.streams.get(name)
            if stream is not None and not is_settled(stream, stream.log.store.last_seq):
                return stream
        return None

    def is_held_up(self, one: Waiting) -> bool:
        """Whether something must be done before it."""
        if self.changes.busy and not self.changes.busy.isdisjoint(one.keys):
            return True
        tokens = one.request.tokens
        if self.changes.altering and tokens[0] == "STREAM" and tokens[1] in JUDGED:
            return True
        return one.stream is not None and not is_settled(one.stream, one.seq)

    def is_held(self, one: Waiting) -> bool:
        """Whether another one that waits comes first."""
        return one.request.session in self.held or not self.held.isdisjoint(one.keys)

    def hold(self, one: Waiting) -> None:
        self.held.update(one.own)
        if one.request.session is not None:
            self.held.add(one.request.session)

    def listen(self, one: Waiting) -> None:
        """Be told when it may go on, or has waited long enough."""
        stream = one.stream
        if stream is None or is_settled(stream, one.seq):
            return
        if self.timer is None:
            engine = self.streams.engine
            self.timer = engine.timers.at(engine.clock.monotonic_ns() + REQUEST_WAIT_NS, self.give_up)
        if stream not in self.heard:
            self.heard.add(stream)
            stream.log.wait(one.seq, lambda _: self.committed(stream))

    def committed(self, stream: Stream) -> None:
        self.heard.discard(stream)
        self.move_on()

    def move_on(self) -> None:
        """Carry out all that wait for nothing any more."""
        self._again = True
        if self._moving:
            return
        self._moving = True
        try:
            while self._again:
                self._again = False
                self.pass_through()
        finally:
            self._moving = False
        if not self.waiting and self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def pass_through(self) -> None:
        waiting, self.waiting = self.waiting[::-1], []
        self.held.clear()
        try:
            while waiting:
                one = waiting.pop()
                if self.is_held(one) or self.is_held_up(one):
                    self.waiting.append(one)
                    self.hold(one)
                    self.listen(one)
                else:
                    self.carry_out(one.request)
        finally:
            # Whatever one of them does, the others have their turn.
            self.waiting += waiting[::-1]

    def give_up(self) -> None:
        """It takes too long: do not wait for messages any more."""
        self.timer = None
        for one in self.waiting:
            one.stream = None
        self.move_on()


def keys_of(request: Request) -> frozenset[str]:
    """Names that changes go by (tidelog.stream.change), as far as a request may mean them."""
    return frozenset((*request.tokens[PLACES], *own_key(request)))


def own_key(request: Request) -> tuple[str, ...]:
    """What a request is about: a consumer, or else a stream, or nothing of the kind."""
    tokens = request.tokens
    if tokens[0] == "CONSUMER":
        at = 3 if tokens[1] == "DURABLE" else 2
        return (".".join(tokens[at : at + 2]),)
    at = 3 if tokens[1:2] == ["MSG"] else 2
    return tuple(tokens[at : at + 1])


def is_settled(stream: Stream, seq: int) -> bool:
    """Whether everything up to `seq` is committed, or may never be."""
    log = stream.log
    return seq <= log.horizon.committed_seq or log.closed or log.refusal is not None
