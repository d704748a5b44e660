"""The way from one account to another, for streams that take over what others have.

A mirror or a source with `external` names a prefix for requests to the API, and one for what is delivered. The other
stream is that of the account in which such a request arrives, through imports of services, if what that account
delivers is imported as a stream in turn. Nothing is sent: the settings of the accounts say it.
"""

from collections.abc import Mapping

from tidelog.base.chance import Chance
from tidelog.base.limits import BRIDGES_DEEP
from tidelog.broker.account import Account
from tidelog.broker.link import rewrite
from tidelog.stream.stream_config import StreamSource
from tidelog.subject.pattern import matches

# Any name of a consumer, and any subject below a prefix.
ANY = "x"
DELIVER_PREFIX = "$JS.S"


class Path:
    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self.accounts = accounts

    def of_source(self, name: str, source: StreamSource, domain: str) -> str | None:
        """The name of the account whose stream is meant by one of account `name`; None: there is no way to one."""
        external = source.external
        assert external is not None
        create = f"CONSUMER.CREATE.{source.name}"
        if source.filter_subject:
            create += f".{ANY}.{source.filter_subject}"
        there = self.of_request(name, f"{external.api.rstrip('.')}.{create}", create, domain)
        deliver = f"{external.deliver.rstrip('.') or DELIVER_PREFIX}.{ANY}"
        if there in (None, name) or self.brings(name, there, deliver):
            return there
        return None

    def of_request(self, name: str, subject: str, wanted: str, domain: str) -> str | None:
        """Where a request arrives that is sent in account `name`, if it asks for what is `wanted` there."""
        apis = {f"$JS.API.{wanted}", f"$JS.{domain}.API.{wanted}"}
        for _ in range(BRIDGES_DEEP + 1):
            if subject in apis:
                return name
            account = self.accounts.get(name)
            for one in account.settings.imports if account is not None else ():
                local = one.local or one.subject
                if one.service and matches(local.encode(), subject.encode()):
                    change = rewrite(local, one.subject, Chance(0))
                    subject = change(subject.encode()).decode() if change is not None else subject
                    name = one.account
                    break
            else:
                return None
        return None

    def brings(self, name: str, there: str | None, subject: str) -> bool:
        """Whether what is sent in the other account is heard here, under the same subject."""
        data = subject.encode()
        return any(
            not one.service
            and one.account == there
            and matches(one.subject.encode(), data)
            and matches((one.local or one.subject).encode(), data)
            for one in self.accounts[name].settings.imports
        )
