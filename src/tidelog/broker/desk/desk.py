"""Receives requests on `$JS.API.` in every account, finds who answers them, and sends the answers.

    desk = Desk(engine, clock, settings)
    desk.open(account, limits)      an account that may have streams; limits None: it is told that it may not
    desk.close(name)

Promises
  * Every request that it knows is answered, also with what went wrong inside. What it does not know it leaves alone.
  * Requests of one client, and those for one stream or consumer, are carried out in the order in which they came.
  * Requests that streams and consumers answer themselves, because there are so many (`ELSEWHERE`), never come here: if
    nobody listens, whoever asks is told so at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelog.base.clock import Clock
from tidelog.base.errors import StorageError
from tidelog.base.limits import INVALID_TOLD_NS, REQUESTS_WAITING
from tidelog.broker.account import Account
from tidelog.broker.desk.audit import AUDIT, card_of
from tidelog.broker.desk.line import Line
from tidelog.broker.desk.path import Path
from tidelog.broker.desk.request import Entry, Later, Parts, Request
from tidelog.broker.desk.table import OWN_ENTRIES, SYSTEM_ENTRIES, Table
from tidelog.broker.session import Session
from tidelog.stream import failure
from tidelog.stream.account import AccountStreams
from tidelog.stream.advisory import Events
from tidelog.stream.engine import Engine
from tidelog.stream.failure import ApiFailure
from tidelog.stream.metadata import asks_too_much
from tidelog.stream.post import Post
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import StreamSource
from tidelog.stream.surroundings import AccountLimits
from tidelog.subject.alias import Alias
from tidelog.subject.route import Reception, Subscriber, Subscription

PREFIX = "$JS.API."
OWN_PREFIX = "$TIDELOG.API."
ELSEWHERE = (b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.API.CONSUMER.RESET.", b"$JS.API.DIRECT.GET.")


@dataclass(frozen=True, slots=True)
class DeskSettings:
    server_name: str = ""
    server_id: str = ""
    domain: str = ""
    strict: bool = True
    request_queue_limit: int = REQUESTS_WAITING


def refuse_all(_request: Request) -> Parts:
    raise failure.NOT_ENABLED_FOR_ACCOUNT()


# What the system account asks that is not its own, whatever it is.
NOT_HERE = Entry(">", "system_response", refuse_all)


def refuse_unknown(_request: Request) -> Parts:
    raise failure.BAD_REQUEST()


UNKNOWN = Entry(">", "system_response", refuse_unknown, prefix="io.tidelog.api.v1.")


class Desk:
    """Of one server."""

    def __init__(self, engine: Engine, clock: Clock, settings: DeskSettings) -> None:
        self.engine = engine
        self.clock = clock
        self.settings = settings
        self.table = Table()
        self.system_table = Table(SYSTEM_ENTRIES)
        self.own_table = Table(OWN_ENTRIES)
        self.accounts: dict[str, AccountDesk] = {}
        self.engine.on_full = self.tell_full
        self.engine.reach = self.reach
        self.told_ns: int | None = None  # when the operator last heard of a request that could not be read

    def open(self, account: Account, limits: AccountLimits | None, *, is_system: bool = False) -> AccountDesk:
        """Answer in an account. Without `limits` it may have no streams, and is told so."""
        streams = None
        if limits is not None:
            streams = self.engine.open_account(account.name, account.interest, limits)
        desk = AccountDesk(self, account, streams, is_system=is_system)
        self.accounts[account.name] = desk
        return desk

    def close(self, name: str) -> None:
        """The account is gone, or may have no streams any more."""
        account = self.accounts.pop(name)
        account.close()
        if account.streams is not None:
            self.engine.close_account(name)

    def reach(self, name: str, source: StreamSource) -> AccountStreams | None:
        """Whose stream a mirror or a source in account `name` means, if requests and messages get through."""
        path = Path({account.account.name: account.account for account in self.accounts.values()})
        there = path.of_source(name, source, self.settings.domain)
        return self.accounts[there].streams if there is not None else None

    def tell_invalid(self, account: str, subject: str, why: str) -> None:
        """A request could not be read; the operator is not told of every one."""
        now_ns = self.clock.monotonic_ns()
        if self.told_ns is None or now_ns - self.told_ns >= INVALID_TOLD_NS:
            self.told_ns = now_ns
            self.engine.log.warn(f"Invalid JetStream request '{account} > {subject}': {why}")

    def tell_full(self, stream: Stream) -> None:
        """The disk has no room for what a stream was given."""
        self.tell_system(
            "SERVER.OUT_OF_STORAGE",
            "server_out_of_space",
            server=self.settings.server_name,
            server_id=self.settings.server_id,
            stream=stream.name,
            cluster="",
        )

    def tell_dropped(self, dropped: int) -> None:
        """More requests of an account waited than may."""
        self.engine.log.warn(f"JetStream API queue limit reached, dropping {dropped} requests")
        self.tell_system(
            "API.LIMIT_REACHED", "api_limit_reached", server=self.settings.server_name, dropped=dropped
        )

    def tell_system(self, subject: str, kind: str, **fields: Any) -> None:
        """An advisory to whoever listens in the system account."""
        for account in self.accounts.values():
            if account.is_system:
                account.events.tell(subject, kind, **fields)

    @property
    def requests(self) -> int:
        return sum(account.requests for account in self.accounts.values())

    @property
    def refusals(self) -> int:
        return sum(account.refusals for account in self.accounts.values())


class AccountDesk:
    """Of one account. `streams` None: it may have none."""

    def __init__(
        self, desk: Desk, account: Account, streams: AccountStreams | None, *, is_system: bool
    ) -> None:
        self.desk = desk
        self.is_system = is_system
        self.table = desk.system_table if is_system else desk.table
        self.other = NOT_HERE if is_system else None
        self.account = account
        self.streams = streams
        self.post = streams.post if streams is not None else Post(account.interest, account.chance)
        clock, chance, domain = desk.clock, account.chance, desk.settings.domain
        self.events = Events(self.post, clock, chance, domain, account.name)
        self.line = Line(streams, self.carry_out) if streams is not None else None
        self.requests = 0
        self.refusals = 0
        reception = Reception(self.receive, ELSEWHERE)
        if streams is not None:
            streams.gate.desk = self.receive
        self.subscriptions: list[Subscription] = []
        self.listen(f"{PREFIX}>".encode(), reception)
        if streams is not None:
            self.listen(f"{OWN_PREFIX}>".encode(), Reception(self.receive_own))
        if domain and streams is not None:
            self.listen_in_domain(f"$JS.{domain}.API.")

    def listen_in_domain(self, prefix: str) -> None:
        """Clients may name the domain in front of the API, and of the subjects of buckets."""
        interest, chance = self.account.interest, self.account.chance
        buckets = (f"{prefix}$KV.".encode(), f"{prefix}$OBJ.".encode())
        whole = Alias(interest, chance, prefix.encode(), PREFIX.encode(), buckets)
        self.listen(f"{prefix}>".encode(), whole)
        for bucket in buckets:
            alias = Alias(interest, chance, prefix.encode(), b"")
            self.listen(bucket + b">", alias)

    def listen(self, subject: bytes, subscriber: Subscriber) -> None:
        subscription = Subscription(subject, b"", b"", subscriber)
        self.account.interest.insert(subscription)
        self.subscriptions.append(subscription)

    def close(self) -> None:
        """Answer nobody any more."""
        while self.subscriptions:
            self.account.interest.remove(self.subscriptions.pop())

    def receive(
        self, subject: bytes, reply: bytes | None, header: bytes, body: bytes, session: Session | None
    ) -> None:
        text = subject.decode("utf-8", "replace")
        entry = self.table.find(text.split(".")[2:]) or self.other
        if entry is not None:
            self.take(Request(self, entry, text, reply, header, body, session))

    def receive_own(
        self, subject: bytes, reply: bytes | None, header: bytes, body: bytes, session: Session | None
    ) -> None:
        """A request beyond the peer's."""
        text = subject.decode("utf-8", "replace")
        entry = self.desk.own_table.find(text.split(".")[2:]) or UNKNOWN
        self.take(Request(self, entry, text, reply, header, body, session))

    def take(self, request: Request) -> None:
        if self.line is None:
            self.carry_out(request)
        else:
            self.line.take(request)
            if len(self.line.waiting) >= self.desk.settings.request_queue_limit:
                self.desk.tell_dropped(self.line.drop())

    def carry_out(self, request: Request) -> None:
        try:
            if asks_too_much(request.header):
                raise failure.REQUIRED_API_LEVEL()
            answer = request.entry.handler(request)
        except ApiFailure as refused:
            request.refuse(refused)
        except StorageError as error:
            request.refuse(failure.STREAM_GENERAL(err=str(error)))
        else:
            if not isinstance(answer, Later):
                request.answer(answer)

    def send(self, request: Request, document: bytes, *, failed: bool) -> None:
        if failed or request.entry.noted:
            self.requests += 1
            self.refusals += failed
        if request.reply is not None:
            self.post.publish(request.reply, document)
        if (failed or request.entry.noted) and self.post.wanted(AUDIT):
            self.tell(request, document)

    def tell(self, request: Request, answer: bytes) -> None:
        """Whoever listens to what is asked is told of this, too."""
        name = self.desk.settings.server_name
        fields: dict[str, Any] = {
            "server": name,
            "client": card_of(request.session, name),
            "subject": request.subject,
        }
        if request.body:
            fields["request"] = request.body.decode("utf-8", "replace")
        self.events.tell("API", "api_audit", **fields, response=answer.decode())
