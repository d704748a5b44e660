"""Imports and exports: which bridges there are between the accounts of a server.

    links = Links(chance)
    links.lay(accounts)        all that their settings ask for, in place of those before

A service's bridge is always there. That of a stream is there while somebody in the importing account listens, so that
the exporting one (and a consumer in it) knows whether anybody does: for each subject that is listened to by itself, or
for all of the import as soon as somebody listens with a wildcard.

Settings were checked: whoever imports something may. What links an account that is not there is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tidelog.base.chance import Chance
from tidelog.broker.account import Account
from tidelog.broker.bridge import Replies, ServiceBridge, StreamBridge
from tidelog.broker.settings import Import
from tidelog.stream.post import Post
from tidelog.subject.interest import Interest
from tidelog.subject.pattern import has_wildcard, is_subset, overlaps
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
        self.literals: Counter[bytes] = Counter()
        self.wildcards = 0
        self.laid: dict[bytes, Subscription] = {}
        self.importer.oversee(self.changed)

    def changed(self, subscription: Subscription, came: bool) -> None:
        """Somebody in the importing account began or ceased to listen."""
        if not overlaps(subscription.subject, self.local):
            return
        step = 1 if came else -1
        if self.renumbered or has_wildcard(subscription.subject):
            self.wildcards += step
        else:
            subject = subscription.subject if self.back is None else self.back(subscription.subject)
            self.literals[subject] += step
            if not self.literals[subject]:
                del self.literals[subject]
        self.settle()

    def settle(self) -> None:
        wanted = {self.subject} if self.wildcards else set(self.literals)
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
