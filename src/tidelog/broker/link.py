"""Imports and exports: which bridges there are between the accounts of a server.

    links = Links(chance)
    links.lay(accounts)        all that their settings ask for, in place of those before

A service's bridge is always there. That of a stream is there while somebody in the importing account listens, so that
the exporting one (and a consumer in it) knows whether anybody does: for what is listened to, or for all of the import
if that cannot be said without saying something twice.

Settings were checked: whoever imports something may. What links an account that is not there is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set

from tidelog.base.chance import Chance
from tidelog.broker.account import Account
from tidelog.broker.bridge import Replies, ServiceBridge, StreamBridge
from tidelog.broker.settings import Import
from tidelog.stream.post import Post
from tidelog.subject.interest import Interest
from tidelog.subject.pattern import has_wildcard, is_subset, matches, overlaps
from tidelog.subject.route import Subscription

Rewrite = Callable[[bytes], bytes] | None


class Links:
    """Of one server."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.services: list[tuple[Interest, Subscription]] = []
        self.streams: list[StreamLink] = []
        self.replies: dict[str, Replies] = {}
        self.known: object = None

    def lay(self, accounts: Mapping[str, Account]) -> None:
        asked = [(name, one.settings.imports, one.settings.exports) for name, one in sorted(accounts.items())]
        if asked == self.known:
            return
        self.known = asked
        self.take_up()
        for account in accounts.values():
            for wanted in account.settings.imports:
                exporter = accounts.get(wanted.account)
                if exporter is None:
                    continue
                if wanted.service:
                    self.link_service(account, exporter, wanted)
                else:
                    self.streams.append(StreamLink(account, exporter, wanted, self.chance))

    def take_up(self) -> None:
        for interest, subscription in self.services:
            interest.remove(subscription)
        for stream in self.streams:
            stream.take_up()
        for replies in self.replies.values():
            replies.clear()
        self.services = []
        self.streams = []
        self.replies = {}

    def link_service(self, importer: Account, exporter: Account, wanted: Import) -> None:
        local = wanted.local or wanted.subject
        replies = self.replies.setdefault(exporter.name, Replies(exporter.interest, self.chance))
        service = ServiceBridge(
            Post(exporter.interest, self.chance),
            Post(importer.interest, self.chance),
            replies,
            self.chance,
            rewrite(local, wanted.subject, self.chance),
            many_answers(exporter, wanted.subject),
        )
        subscription = Subscription(local.encode(), b"", b"", service)
        importer.interest.insert(subscription)
        self.services.append((importer.interest, subscription))


class StreamLink:
    """One imported stream, and the bridges that it needs now."""

    def __init__(self, importer: Account, exporter: Account, wanted: Import, chance: Chance) -> None:
        local = wanted.local or wanted.subject
        self.importer = importer.interest
        self.exporter = exporter.interest
        self.subject = wanted.subject.encode()
        # Where a destination names wildcards of the source (`$2.$1`), any token may stand.
        self.renumbered = "$" in local
        self.local = b".".join(
            b"*" if self.renumbered and token[:1] == b"$" else token for token in local.encode().split(b".")
        )
        self.bridge = StreamBridge(importer.interest, chance, rewrite(wanted.subject, local, chance))
        self.back = None if self.renumbered else rewrite(local, wanted.subject, chance)
        # What is listened to, as subjects of the exporter, with how many do.
        self.literals: Counter[bytes] = Counter()
        self.patterns: Counter[bytes] = Counter()
        self.wide: set[bytes] = set()
        self.laid: dict[bytes, Subscription] = {}
        self.importer.oversee(self.changed)

    def changed(self, subscription: Subscription, came: bool) -> None:
        """Somebody in the importing account began or ceased to listen."""
        if not overlaps(subscription.subject, self.local):
            return
        subject = self.subject_for(subscription.subject)
        counts = self.patterns if has_wildcard(subject) else self.literals
        counts[subject] += 1 if came else -1
        if not counts[subject]:
            del counts[subject]
        if counts is self.patterns:
            self.wide = widest(set(self.patterns), self.subject)
            self.lay(self.wide | {one for one in self.literals if not self.covered(one)})
        elif subject in self.literals and not self.covered(subject):
            self.lay(self.laid.keys() | {subject})
        else:
            self.lay(self.laid.keys() - ({subject} if subject not in self.literals else set()))

    def subject_for(self, subject: bytes) -> bytes:
        """What to listen to in the exporter for what is listened to here."""
        if self.renumbered or not is_subset(subject, self.local):
            return self.subject
        return subject if self.back is None else self.back(subject)

    def covered(self, literal: bytes) -> bool:
        return any(matches(pattern, literal) for pattern in self.wide)

    def lay(self, wanted: Set[bytes]) -> None:
        for subject in self.laid.keys() - wanted:
            self.exporter.remove(self.laid.pop(subject))
        for subject in wanted - self.laid.keys():
            self.laid[subject] = Subscription(subject, b"", b"", self.bridge)
            self.exporter.insert(self.laid[subject])

    def take_up(self) -> None:
        self.importer.overlook(self.changed)
        for subscription in self.laid.values():
            self.exporter.remove(subscription)
        self.laid = {}


def widest(patterns: set[bytes], whole: bytes) -> set[bytes]:
    """Patterns that mean all that these mean, and nothing twice; `whole` if there are no better ones."""
    kept = [one for one in patterns if not any(one != other and is_subset(one, other) for other in patterns)]
    if any(overlaps(one, other) for at, one in enumerate(kept) for other in kept[:at]):
        return {whole}
    return set(kept)


def rewrite(source: str, destination: str, chance: Chance) -> Rewrite:
    """What makes a subject of the destination of one of the source; None: they are the same."""
    if source == destination:
        return None
    # Only configurations with such imports pay for what this imports.
    from tidelog.subject.transform import Transform, numbered

    return Transform(source.encode(), numbered(destination.encode()), chance.integer, strict=True).rewrite


def many_answers(exporter: Account, subject: str) -> bool:
    """Whether the export of which this subject is a part says that there may be more than one answer."""
    return any(
        export.many_answers
        for export in exporter.settings.exports
        if export.service and is_subset(subject.encode(), export.subject.encode())
    )
