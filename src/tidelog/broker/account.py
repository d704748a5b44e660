"""An account: a subject space of its own, with those who are in it and what they have done."""

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.base.chance import Chance
from tidelog.broker.session import Session
from tidelog.broker.settings import AccountSettings
from tidelog.broker.view import InterestStats
from tidelog.subject.interest import Interest
from tidelog.subject.mapping import SubjectMap
from tidelog.subject.route import Callback, Subscription


class Account:
    """Isolated by construction: sessions route through their account's `interest` and know no other."""

    def __init__(self, settings: AccountSettings, chance: Chance, now_ns: int) -> None:
        self.chance = chance
        self.apply(settings, now_ns)
        self.interest = Interest()
        self.members: dict[int, Session] = {}
        self.slow_consumers = 0
        # What sessions did here that are gone, less what those who are here did elsewhere before.
        self.past = Traffic()

    def apply(self, settings: AccountSettings, now_ns: int) -> None:
        self.settings = settings
        self.updated_ns = now_ns
        entries = [
            (mapping.source.encode(), mapping.destination.encode(), mapping.weight)
            for mapping in settings.mappings
        ]
        self.mapping = SubjectMap(entries, self.chance.integer) if entries else None

    @property
    def name(self) -> str:
        return self.settings.name

    def listen(self, subject: bytes, function: Callable[[bytes, bytes | None, bytes, Any], object]) -> None:
        """Let the server itself take messages: `function(subject, reply, payload, session)`."""
        self.interest.insert(Subscription(subject, b"", b"", Callback(function)))

    def publish(self, subject: bytes, payload: bytes) -> None:
        """A message from the server itself."""
        self.interest.publish(subject, None, payload, self.chance)

    def enter(self, session: Session) -> None:
        self.members[session.cid] = session
        self.past.take_off(session)

    def leave(self, session: Session) -> None:
        if self.members.pop(session.cid, None) is not None:
            self.past.add(session)

    def sessions(self) -> Iterable[Session]:
        return self.members.values()

    @property
    def client_count(self) -> int:
        return len(self.members)

    @property
    def leaf_count(self) -> int:
        return 0

    @property
    def subscription_count(self) -> int:
        return self.interest.count

    @property
    def in_msgs(self) -> int:
        return self.past.in_msgs + sum(session.in_msgs for session in self.members.values())

    @property
    def in_bytes(self) -> int:
        return self.past.in_bytes + sum(session.in_bytes for session in self.members.values())

    @property
    def out_msgs(self) -> int:
        return self.past.out_msgs + sum(session.out_msgs for session in self.members.values())

    @property
    def out_bytes(self) -> int:
        return self.past.out_bytes + sum(session.out_bytes for session in self.members.values())

    def interest_stats(self) -> InterestStats:
        most, total = self.interest.fanout()
        return InterestStats(
            subscriptions=self.interest.count,
            cached_routes=self.interest.cached,
            inserts=self.interest.inserts,
            removes=self.interest.removes,
            matches=self.interest.matches,
            cache_hits=self.interest.cache_hits,
            max_fanout=most,
            total_fanout=total,
        )


class Traffic:
    """Counters that have no session any more."""

    def __init__(self) -> None:
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = self.stalls = 0

    def add(self, session: Session) -> None:
        self.in_msgs += session.in_msgs
        self.in_bytes += session.in_bytes
        self.out_msgs += session.out_msgs
        self.out_bytes += session.out_bytes
        self.stalls += session.stalls

    def take_off(self, session: Session) -> None:
        self.in_msgs -= session.in_msgs
        self.in_bytes -= session.in_bytes
        self.out_msgs -= session.out_msgs
        self.out_bytes -= session.out_bytes
        self.stalls -= session.stalls
