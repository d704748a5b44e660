"""A broker with several clients against a plain model of what each must receive (ROUTE-1 to ROUTE-4, SESS-5, SESS-6).

The model knows sets of rules, no trees, no caches and no bytes. Whom a queue group's message goes to is chance: the
model reads from what arrived who was chosen, and checks that it was one who may be.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from tidelog.broker.settings import (
    AccountSettings,
    Authorization,
    BrokerSettings,
    Permissions,
    ResponseRights,
    SubjectRights,
    User,
)
from tidelog.subject.pattern import matches
from tidelog.wire.parser import Collector
from unit.broker.house import Client, House

DENIED = "no.>"
SECRET = "a.secret"
ASKED = "ask"
USERS = (
    User("free", "p"),
    User("other", "p", account="B"),
    User(
        "bound",
        "p",
        permissions=Permissions(
            publish=SubjectRights(deny=(DENIED,)), subscribe=SubjectRights(deny=(SECRET,))
        ),
    ),
    User(
        "service",
        "p",
        permissions=Permissions(publish=SubjectRights(allow=("out",)), responses=ResponseRights(2)),
    ),
)
ACCOUNT = {user.name: user.account for user in USERS}
SETTINGS = BrokerSettings(accounts=(AccountSettings("B"),), authorization=Authorization(users=USERS))

SUBJECT = st.sampled_from([b"a.b", b"a.secret", b"a", b"no.a", b"ask", b"out", b"r.1", b"r.2", b"a.b.c"])
PATTERN = st.sampled_from(
    [b"a.*", b"a.>", b">", b"*", b"a.b", b"a.secret", b"ask", b"r.*", b"r.1", b"*.*", b"a"]
)
REPLY = st.sampled_from([None, None, b"r.1", b"r.2", b"out"])
USER = st.sampled_from(["free", *[user.name for user in USERS]])


@dataclass
class Subscribed:
    subject: bytes
    queue: bytes
    sid: bytes
    most: int = 0
    delivered: int = 0


@dataclass
class Peer:
    """What the model knows of one client."""

    client: Client
    user: str
    echo: bool
    headers: bool
    no_responders: bool
    subs: dict[bytes, Subscribed] = field(default_factory=dict)
    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0
    replies: dict[bytes, int] = field(default_factory=dict)  # uses left, of `service`

    @property
    def account(self) -> str:
        return ACCOUNT[self.user]

    def may_receive(self, sub: Subscribed, subject: bytes) -> bool:
        return matches(sub.subject, subject) and not (self.user == "bound" and subject == SECRET.encode())

    def may_publish(self, subject: bytes) -> bool:
        if self.user == "bound":
            return not matches(DENIED.encode(), subject)
        if self.user == "service" and subject != b"out":
            left = self.replies.pop(subject, 0)
            if left > 1:
                self.replies[subject] = left - 1
            return left > 0
        return True


@dataclass(frozen=True)
class Published:
    subject: bytes
    reply: bytes | None
    header: bytes | None
    payload: bytes

    @property
    def size(self) -> int:
        return len(self.header or b"") + len(self.payload)

    @property
    def line(self) -> bytes:
        words = [self.subject, *([self.reply] if self.reply is not None else [])]
        if self.header is None:
            return b"PUB %s %d\r\n%s\r\n" % (b" ".join(words), self.size, self.payload)
        sizes = len(self.header), self.size
        return b"HPUB %s %d %d\r\n%s%s\r\n" % (b" ".join(words), *sizes, self.header, self.payload)


class BrokerMachine(RuleBasedStateMachine):
    peers = Bundle("peers")

    @initialize(
        target=peers,
        who=st.lists(st.tuples(USER, st.booleans(), st.booleans()), min_size=3, max_size=4),
    )
    def open_house(self, who: list[tuple[str, bool, bool]]) -> object:
        """Begin with some who listen, or most runs would be over before anything was heard."""
        self.house = House(SETTINGS)
        self.open: list[Peer] = []
        self.number = 0
        self.totals: Counter[tuple[str, str]] = Counter()
        for user, headers, no_responders in who:
            peer = self.let_in(user, True, headers, no_responders)
            self.subscribe_to(peer, b">", b"", 1)
        return multiple(*self.open)

    # ---- clients come and go ----

    @rule(target=peers, user=USER, echo=st.booleans(), headers=st.booleans(), no_responders=st.booleans())
    def come(self, user: str, echo: bool, headers: bool, no_responders: bool) -> object:
        return self.let_in(user, echo, headers, no_responders) if len(self.open) < 5 else multiple()

    def let_in(self, user: str, echo: bool, headers: bool, no_responders: bool) -> Peer:
        peer = Peer(self.house.arrive(), user, echo, headers, no_responders and headers)
        self.introduce(peer)
        self.open.append(peer)
        return peer

    def introduce(self, peer: Peer) -> None:
        peer.client.connect(
            user=peer.user,
            echo=peer.echo,
            headers=peer.headers,
            no_responders=peer.no_responders,
            **{"pass": "p"},
        )
        peer.client.read()

    @rule(peer=peers, user=USER)
    def become(self, peer: Peer, user: str) -> None:
        """A second CONNECT: what belonged to the first one is gone."""
        peer.user = user
        peer.subs.clear()
        peer.replies.clear()
        self.introduce(peer)

    @rule(peer=consumes(peers))
    def go(self, peer: Peer) -> None:
        self.house.broker.close(peer.client.session, "Client Closed")
        self.open.remove(peer)

    # ---- subscriptions ----

    @rule(peer=peers, pattern=PATTERN, queue=st.sampled_from([b"", b"", b"q", b"w"]), sid=st.integers(1, 5))
    def subscribe(self, peer: Peer, pattern: bytes, queue: bytes, sid: int) -> None:
        self.subscribe_to(peer, pattern, queue, sid)

    def subscribe_to(self, peer: Peer, pattern: bytes, queue: bytes, sid: int) -> None:
        words = [pattern, *([queue] if queue else []), b"%d" % sid]
        peer.client.send(b"SUB %s\r\n" % b" ".join(words))
        if peer.user == "bound" and pattern == SECRET.encode():
            named = f' using queue "{queue.decode()}"' if queue else ""
            text = f"-ERR 'Permissions Violation for Subscription to \"{SECRET}\"{named}'\r\n"
            assert peer.client.read() == text.encode()
        else:
            peer.subs.setdefault(words[-1], Subscribed(pattern, queue, words[-1]))

    @rule(peer=peers, sid=st.integers(1, 6), most=st.integers(0, 4))
    def unsubscribe(self, peer: Peer, sid: int, most: int) -> None:
        peer.client.send(b"UNSUB %d %d\r\n" % (sid, most) if most else b"UNSUB %d\r\n" % sid)
        sub = peer.subs.get(b"%d" % sid)
        if sub is not None:
            if most > sub.delivered:
                sub.most = most
            else:
                del peer.subs[sub.sid]

    # ---- messages ----

    @rule(asker=peers, service=peers, answers=st.integers(1, 3))
    def ask(self, asker: Peer, service: Peer, answers: int) -> None:
        """Who was asked may answer, so often and no oftener, if nothing else allows it."""
        self.publish_all(asker, [(b"ask", b"r.1", False)])
        self.publish_all(service, [(b"r.1", None, False)] * answers)

    @rule(
        peer=peers,
        what=st.lists(
            st.tuples(SUBJECT, REPLY, st.booleans()),
            min_size=1,
            max_size=4,
        ),
    )
    def publish(self, peer: Peer, what: list[tuple[bytes, bytes | None, bool]]) -> None:
        self.publish_all(peer, what)

    def publish_all(self, peer: Peer, what: list[tuple[bytes, bytes | None, bool]]) -> None:
        burst = []
        for subject, reply, headed in what:
            self.number += 1
            header = b"NATS/1.0\r\nK: v\r\n\r\n" if headed and peer.headers else None
            burst.append(Published(subject, reply, header, b"#%d" % self.number))
        peer.client.send(b"".join(one.line for one in burst) + b"PING\r\n")
        assert not peer.client.reason
        heard = {id(other): self.listen(other) for other in self.open}
        for one in burst:
            self.judge(peer, one, heard)
        # The PONG is behind all that the client's own messages brought it.
        assert heard.pop(id(peer)) == [("PONG", b"")]
        assert not any(heard.values())

    def listen(self, peer: Peer) -> list[tuple[object, ...]]:
        return Collector().feed(peer.client.read())

    def judge(self, publisher: Peer, one: Published, heard: dict[int, list[tuple[object, ...]]]) -> None:
        """Take from the front of what everybody heard what `one` must have brought."""
        publisher.in_msgs += 1
        publisher.in_bytes += one.size
        self.totals[publisher.account, "in_msgs"] += 1
        self.totals[publisher.account, "in_bytes"] += one.size
        if not publisher.may_publish(one.subject):
            text = f"'Permissions Violation for Publish to \"{one.subject.decode()}\"'"
            assert heard[id(publisher)].pop(0) == ("-ERR", text.encode())
            return
        eligible = [
            (peer, sub)
            for peer in self.open
            if peer.account == publisher.account and (peer is not publisher or peer.echo)
            for sub in peer.subs.values()
            if peer.may_receive(sub, one.subject)
        ]
        got: list[tuple[Peer, Subscribed]] = []
        for peer in self.open:
            mine = {sub.sid: sub for other, sub in eligible if other is peer}
            while (line := self.next_of(heard[id(peer)], one)) is not None:
                sub = mine.pop(line[2])
                self.check_delivery(peer, sub, one, line)
                got.append((peer, sub))
        plain = [pair for pair in eligible if not pair[1].queue]
        assert [pair for pair in plain if pair not in got] == []
        queues = Counter(sub.queue for _, sub in got if sub.queue)
        assert set(queues) == {sub.queue for _, sub in eligible if sub.queue}
        assert set(queues.values()) <= {1}
        for peer, sub in got:
            self.count_delivery(peer, sub, one)
        if not got and one.reply is not None and publisher.no_responders:
            self.check_no_responders(publisher, one, heard[id(publisher)])

    @staticmethod
    def next_of(lines: list[tuple[object, ...]], one: Published) -> tuple[object, ...] | None:
        if lines and lines[0][0] == "MSG" and lines[0][5] == one.payload:
            return lines.pop(0)
        return None

    @staticmethod
    def check_delivery(peer: Peer, sub: Subscribed, one: Published, line: tuple[object, ...]) -> None:
        header = one.header if peer.headers else None
        assert line == ("MSG", one.subject, sub.sid, one.reply, header, one.payload)

    def count_delivery(self, peer: Peer, sub: Subscribed, one: Published) -> None:
        size = one.size if peer.headers else len(one.payload)
        peer.out_msgs += 1
        peer.out_bytes += size
        self.totals[peer.account, "out_msgs"] += 1
        self.totals[peer.account, "out_bytes"] += size
        sub.delivered += 1
        if sub.delivered == sub.most:
            del peer.subs[sub.sid]
        if peer.user == "service" and one.reply is not None and one.reply != b"out":
            peer.replies[one.reply] = 2

    @staticmethod
    def check_no_responders(publisher: Peer, one: Published, lines: list[tuple[object, ...]]) -> None:
        assert one.reply is not None
        sids = {
            sub.sid
            for sub in publisher.subs.values()
            if not sub.queue and publisher.may_receive(sub, one.reply)
        }
        if sids:
            line = lines.pop(0)
            assert line[2] in sids
            header = b"NATS/1.0 503\r\nNats-Subject: %s\r\n\r\n" % one.subject
            assert line == ("MSG", one.reply, line[2], None, header, b"")

    # ---- what must always hold ----

    @invariant()
    def sessions_count_exactly(self) -> None:
        for peer in self.open:
            session = peer.client.session
            assert not session.closed
            assert session.account_name == peer.account
            counted = (session.in_msgs, session.in_bytes, session.out_msgs, session.out_bytes)
            assert counted == (peer.in_msgs, peer.in_bytes, peer.out_msgs, peer.out_bytes)
            assert {
                (sub.subject, sub.queue, sub.sid, sub.max_msgs, sub.delivered)
                for sub in session.subscriptions()
            } == {(sub.subject, sub.queue, sub.sid, sub.most, sub.delivered) for sub in peer.subs.values()}

    @invariant()
    def accounts_and_broker_count_exactly(self) -> None:
        broker = self.house.broker
        for account in broker.accounts():
            peers = [peer for peer in self.open if peer.account == account.name]
            assert account.client_count == len(peers)
            assert account.subscription_count == sum(len(peer.subs) for peer in peers)
            for what in ("in_msgs", "in_bytes", "out_msgs", "out_bytes"):
                assert getattr(account, what) == self.totals[account.name, what]
        for what in ("in_msgs", "in_bytes", "out_msgs", "out_bytes"):
            assert getattr(broker, what) == sum(self.totals[name, what] for name in set(ACCOUNT.values()))
        assert broker.client_count == len(self.open)
        assert broker.subscription_count == sum(len(peer.subs) for peer in self.open)


TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(max_examples=2 * settings().max_examples)
