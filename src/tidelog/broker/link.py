"""Imports and exports: which bridges there are between the accounts of a server.

    links = Links(chance)
    links.lay(accounts)        all that their settings ask for, in place of those before

Settings were checked: whoever imports something may. What links an account that is not there is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.base.chance import Chance
from tidelog.broker.account import Account
from tidelog.broker.bridge import Replies, ServiceBridge, StreamBridge
from tidelog.broker.settings import Import
from tidelog.stream.post import Post
from tidelog.subject.interest import Interest
from tidelog.subject.pattern import is_subset
from tidelog.subject.route import Subscription

Rewrite = Callable[[bytes], bytes] | None


class Links:
    """Of one server."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.laid: list[tuple[Interest, Subscription]] = []
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
                if exporter is not None:
                    self.bridge(account, exporter, wanted)

    def take_up(self) -> None:
        for interest, subscription in self.laid:
            interest.remove(subscription)
        for replies in self.replies.values():
            replies.clear()
        self.laid = []
        self.replies = {}

    def bridge(self, importer: Account, exporter: Account, wanted: Import) -> None:
        local = wanted.local or wanted.subject
        if wanted.service:
            replies = self.replies.setdefault(exporter.name, Replies(exporter.interest, self.chance))
            service = ServiceBridge(
                Post(exporter.interest, self.chance),
                Post(importer.interest, self.chance),
                replies,
                self.chance,
                self.rewrite(local, wanted.subject),
                many_answers(exporter, wanted.subject),
            )
            self.insert(importer.interest, Subscription(local.encode(), b"", b"", service))
        else:
            stream = StreamBridge(importer.interest, self.chance, self.rewrite(wanted.subject, local))
            self.insert(exporter.interest, Subscription(wanted.subject.encode(), b"", b"", stream))

    def rewrite(self, source: str, destination: str) -> Rewrite:
        if source == destination:
            return None
        # Only configurations with such imports pay for what this imports.
        from tidelog.subject.transform import Transform, numbered

        return Transform(
            source.encode(), numbered(destination.encode()), self.chance.integer, strict=True
        ).rewrite

    def insert(self, interest: Interest, subscription: Subscription) -> None:
        interest.insert(subscription)
        self.laid.append((interest, subscription))


def many_answers(exporter: Account, subject: str) -> bool:
    """Whether the export of which this subject is a part says that there may be more than one answer."""
    return any(
        export.many_answers
        for export in exporter.settings.exports
        if export.service and is_subset(subject.encode(), export.subject.encode())
    )
