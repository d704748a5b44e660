"""What is fuzzed: the parser in both roles, and a whole broker with several clients, however their bytes are cut.

`run(data)` returns if nothing was found and raises if something was. An input is four bytes and a stream: the kind (`S`
and `C`: the parser in the role of server and client, anything else: a broker), the settings of the broker, and two that
say how the stream is cut. In the stream of a broker `MARK` and a letter change what goes on; see `Stage.turn`.

What must hold, besides that nobody crashes:
  * the stream gives the same whole, cut, and byte by byte (PARSE-1, PARSE-2, PARSE-4);
  * what clients are sent is made of whole operations that a client can read (NET-1, PARSE-3);
  * counters add up, and compiled routes are those of the subscriptions (ROUTE-2, SESS-11);
  * when everybody has gone nobody is left (SESS-8).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from fuzz.rules import MAX_CONTROL_LINE, MAX_PAYLOAD, SETTINGS
from tidelog.base.chance import Chance
from tidelog.base.errors import ProtocolError
from tidelog.broker.account import Account
from tidelog.broker.session import Session
from tidelog.broker.settings import BrokerSettings
from tidelog.subject.interest import Interest
from tidelog.subject.route import Subscription
from tidelog.wire import parser
from tidelog.wire.parser import Collector
from unit.broker.house import Client, House, Waiting

HEAD_SIZE = 4
MARK = b"\xfe"
TURN = re.compile(MARK + rb"([0-3qrtTwA-H])")
# Beyond this, byte by byte costs more than it finds.
SINGLE_BYTES_SIZE = 400
# What is said of bytes that make no sense shows as many of them as are there.
SHOWN = re.compile(r"(parser error at ).*", re.DOTALL)

Cut = Callable[[bytes], Iterable[bytes]]
Feed = Callable[[Session, bytes], int]


class Finding(AssertionError):
    """Something that must hold does not."""


def run(data: bytes, door: ModuleType | None = None) -> None:
    """Play one input in every cut; `door` is how bytes get in, if not as objects."""
    head, stream = data[:HEAD_SIZE].ljust(HEAD_SIZE, b"\0"), data[HEAD_SIZE:]
    chance_seed = 1 + int.from_bytes(head[2:], "little")
    cuts: list[Cut] = [whole, partial(at_random, chance_seed)]
    if len(stream) <= SINGLE_BYTES_SIZE:
        cuts.append(byte_by_byte)
    if head[:1] in (b"S", b"C"):
        outcomes = [parse(stream, head[:1] == b"C", cut) for cut in cuts]
        if door is not None:
            outcomes += [parse_in_place(stream, head[:1] == b"C", cut, door) for cut in cuts]
    else:
        feed: Feed = Session.receive if door is None else door.feed
        outcomes = [Stage(head[1], cut, feed).play(stream) for cut in cuts]
    for number, outcome in enumerate(outcomes):
        expect_same(outcomes[0], outcome, f"as a whole, and otherwise ({number})")


def with_door() -> Callable[[bytes], None]:
    """`run` as the fuzzer calls it: on the rooms that were compiled for it, and on no others."""
    from fuzz import door

    built = Path(door.__file__).parents[1]
    if not Path(parser.__file__).is_relative_to(built):
        raise Finding(f"{parser.__file__} is not instrumented")
    return partial(run, door=door)


def expect_same(one: list[object], other: list[object], what: str) -> None:
    if one != other:
        lines = [f"  {a!r}\n  {b!r}" for a, b in zip(one, other, strict=False) if a != b]
        raise Finding(f"not the same {what}; {len(one)} and {len(other)} facts:\n" + "\n".join(lines))


# ---- how a stream is cut ----


def whole(stream: bytes) -> Iterator[bytes]:
    yield stream


def byte_by_byte(stream: bytes) -> Iterator[bytes]:
    for at in range(len(stream)):
        yield stream[at : at + 1]


def at_random(seed: int, stream: bytes) -> Iterator[bytes]:
    """Pieces of sizes that depend on the seed, which also says how large they are at most."""
    chance = Chance(seed)
    most = 2 + chance.integer(64)
    edges = [0]
    while edges[-1] < len(stream):
        edges.append(min(edges[-1] + 1 + chance.integer(most), len(stream)))
    for start, end in pairwise(edges):
        yield stream[start:end]


# ---- the parser ----


def parse(stream: bytes, client_role: bool, cut: Cut) -> list[object]:
    """What `Collector` finds, and the error that ended it."""
    collector = collector_for(client_role)
    found: list[object] = []
    for chunk in cut(stream):
        try:
            found += collector.feed(chunk)
        except ProtocolError as error:
            return [*found, *collector.found, (error.text, error.reason)]
    return found


def parse_in_place(stream: bytes, client_role: bool, cut: Cut, door: ModuleType) -> list[object]:
    """`parse` by hand, looking at an unfinished operation as late as `need` allows, as a connection does."""
    collector = collector_for(client_role)
    rest, need = b"", 0
    for chunk in cut(stream):
        rest += chunk
        if len(rest) < need - 1:
            continue
        try:
            used, need = door.read(collector, rest)
        except ProtocolError as error:
            return [*collector.found, (error.text, error.reason)]
        rest = rest[used:]
        if need and need <= len(rest):
            raise Finding(f"{len(rest)} bytes are there, {need} are asked for")
    return list(collector.found)


def collector_for(client_role: bool) -> Collector:
    return Collector(client_role=client_role, max_control_line=MAX_CONTROL_LINE, max_payload=MAX_PAYLOAD)


# ---- a broker ----


class Stage:
    """A broker, its clients, and everything that can be seen of them."""

    def __init__(self, settings: int, cut: Cut, feed: Feed) -> None:
        self.waiting = Waiting()
        self.house = House(
            SETTINGS[settings % len(SETTINGS)],
            elsewhere=self.waiting,
            trace=settings >= 0xF0,
            feed=feed,
        )
        self.cut = cut
        self.clients: dict[bytes, Client] = {}
        self.gone: list[Client] = []
        self.speaker = b"0"
        self.seen: list[object] = []
        self.accounts = {*self.house.broker.accounts()}
        self.house.broker.on_journey = self.report

    def play(self, stream: bytes) -> list[object]:
        """Everything that was seen."""
        first, *rest = TURN.split(stream)
        self.speak(first)
        for letter, words in zip(rest[::2], rest[1::2], strict=True):
            self.turn(letter)
            self.speak(words)
        self.answer()
        self.read()
        self.look()
        self.check()
        self.leave()
        return self.seen

    def turn(self, letter: bytes) -> None:
        """`0` to `3`: who speaks from here on; the rest happens once."""
        if letter.isdigit():
            self.speaker = letter
            self.client()
        elif letter == b"q":
            self.house.broker.close(self.client().session, "Client Closed")
        elif letter == b"r":
            self.read()
        elif letter == b"t":
            self.house.advance(1)
        elif letter == b"T":
            self.house.advance(130)
        elif letter == b"w":
            self.answer()
        else:
            self.reload(SETTINGS[(letter[0] - ord("A")) % len(SETTINGS)])

    def reload(self, settings: BrokerSettings) -> None:
        self.house.reload(settings)
        self.check()

    def client(self) -> Client:
        """Who speaks; one who has gone comes again."""
        client = self.clients.get(self.speaker)
        if client is None or client.session.closed:
            if client is not None:
                self.gone.append(client)
            client = self.clients[self.speaker] = self.house.arrive(port=5000 + self.speaker[0])
        return client

    def speak(self, words: bytes) -> None:
        if not words:
            return
        client = self.client()
        for chunk in self.cut(words):
            client.send(chunk)

    def answer(self) -> None:
        """Slow checks are done."""
        while self.waiting.jobs:
            self.waiting.answer()

    def report(self, _account: Account, destination: bytes, content: dict[str, Any]) -> None:
        """Where a traced message went: it must be one that can be written as JSON."""
        self.seen.append((destination, msgspec.json.encode(content)))

    def everybody(self) -> list[Client]:
        return [*self.gone, *self.clients.values()]

    def read(self) -> None:
        """Everybody reads what waits, which must be whole and make sense to a client."""
        for client in self.everybody():
            heard = client.read()
            if heard:
                self.seen.append((client.session.cid, heard))
                understand(heard)

    def look(self) -> None:
        """Take down what can be seen from outside."""
        for client in self.everybody():
            session = client.session
            self.seen.append(
                (session.cid, client.reason, client.ended, client.carry, client.resumed, session.user)
            )
            self.seen.append((session.in_msgs, session.in_bytes, session.out_msgs, session.out_bytes))
            self.seen += [facts(one) for one in session.subscriptions()]
        broker = self.house.broker
        self.seen.append((broker.slow_consumers, broker.stale_connections, broker.total_connections))
        self.seen += [(level, SHOWN.sub(r"\1", line)) for level, line in self.house.log.lines]

    def check(self) -> None:
        broker = self.house.broker
        sessions = list(broker.sessions())
        held = sum(len(session.subscriptions()) for session in sessions)
        if broker.subscription_count != held:
            raise Finding(f"{broker.subscription_count} subscriptions are counted, {held} are there")
        accounts = broker.accounts()
        # An account that a reload takes away takes its counters with it.
        account_gone = not self.accounts.issubset(accounts)
        self.accounts.update(accounts)
        for what in ("in_msgs", "in_bytes", "out_msgs", "out_bytes"):
            total = sum(getattr(account, what) for account in accounts)
            if not account_gone and getattr(broker, what) != total:
                raise Finding(f"{what}: {getattr(broker, what)}, and {total} in the accounts")
        for account in broker.accounts():
            for one in account.interest.subscriptions():
                check_route(account.interest, one.subject)

    def leave(self) -> None:
        broker = self.house.broker
        for session in list(broker.sessions()):
            broker.close(session, "Client Closed")
        self.house.advance(1000)
        if broker.subscription_count or broker.client_count or self.waiting.jobs:
            raise Finding("somebody is left")


def understand(heard: bytes) -> None:
    """A client must be able to read it, to the last byte."""
    try:
        found = Collector(max_control_line=1 << 24).feed(heard + b"PING\r\n")
    except ProtocolError as error:
        raise Finding(f"a client cannot read {heard!r}") from error
    if not found or found[-1] != ("PING", b""):
        raise Finding(f"something is missing at the end of {heard!r}")


def facts(one: Subscription) -> tuple[object, ...]:
    return one.subject, one.queue, one.sid, one.max_msgs, one.delivered


def check_route(interest: Interest, subject: bytes) -> None:
    """The compiled route of a subject, cached or not, against the tree."""

    def may(one: Subscription) -> bool:
        session = one.subscriber.identify()
        return not isinstance(session, Session) or session.may_receive(subject, one.queue)

    plain, groups = interest.match(subject)
    wanted = [set(filter(may, members)) for members in groups.values()]
    targets, chosen = interest.targets(subject)
    if set(targets) != set(filter(may, plain)) or [set(one) for one in chosen] != [
        one for one in wanted if one
    ]:
        raise Finding(f"the route of {subject!r} is not that of its subscriptions")
