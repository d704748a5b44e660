"""Which account's stream a mirror or a source means, by what accounts import."""

import pytest

from tidelog.base.chance import Chance
from tidelog.base.limits import BRIDGES_DEEP
from tidelog.broker.account import Account
from tidelog.broker.desk.path import Path
from tidelog.broker.settings import AccountSettings, Import
from tidelog.stream.stream_config import External, StreamSource

API = Import("$JS.API.CONSUMER.>", "A", service=True, local="JS.A.CONSUMER.>")
DELIVERED = Import("deliver.>", "A")


def path(**imports: tuple[Import, ...]) -> Path:
    names = {"A", *imports}
    return Path(
        {name: Account(AccountSettings(name, imports=imports.get(name, ())), Chance(1), 0) for name in names}
    )


def source(api: str, deliver: str = "deliver.b", **fields: str) -> StreamSource:
    return StreamSource(name="O", external=External(api=api, deliver=deliver), **fields)


@pytest.mark.parametrize(
    ("imports", "asked", "found"),
    [
        ((API, DELIVERED), source("JS.A"), "A"),
        ((API, DELIVERED), source("JS.A."), "A"),
        ((API, DELIVERED), source("JS.B"), None),
        ((API,), source("JS.A"), None),
        ((DELIVERED,), source("JS.A"), None),
        ((API, DELIVERED), source("JS.A", "elsewhere"), None),
        ((API, DELIVERED), source("JS.A", ""), None),
        ((API, Import("$JS.S.>", "A")), source("JS.A", ""), "A"),
        # It would be heard under another subject.
        ((API, Import("deliver.>", "A", local="here.>")), source("JS.A"), None),
        # What is delivered by somebody else.
        ((API, Import("deliver.>", "C")), source("JS.A"), None),
        # One request, and no other.
        (
            (
                Import("$JS.API.CONSUMER.CREATE.O", "A", service=True, local="JS.A.CONSUMER.CREATE.O"),
                DELIVERED,
            ),
            source("JS.A"),
            "A",
        ),
        (
            (
                Import("$JS.API.CONSUMER.CREATE.O", "A", service=True, local="JS.A.CONSUMER.CREATE.O"),
                DELIVERED,
            ),
            source("JS.A", filter_subject="o.1"),
            None,
        ),
        ((API, DELIVERED), source("JS.A", filter_subject="o.1"), "A"),
        # What arrives is no request to create a consumer.
        ((Import("other.>", "A", service=True, local="JS.A.>"), DELIVERED), source("JS.A"), None),
        # The domain of this server.
        ((), source("$JS.hub.API"), "B"),
        ((), source("$JS.spoke.API"), None),
    ],
)
def test_the_way_to_another_account(
    imports: tuple[Import, ...], asked: StreamSource, found: str | None
) -> None:
    assert path(B=imports, C=()).of_source("B", asked, "hub") == found


def test_over_a_third_account() -> None:
    over = Import("JS.A.CONSUMER.>", "C", service=True, local="far.CONSUMER.>")
    assert path(B=(over, DELIVERED), C=(API,)).of_source("B", source("far"), "") == "A"


def test_no_way_is_too_long_to_end() -> None:
    """Requests do not go in circles, nor over more bridges than there may be."""
    to_c = Import("x.>", "C", service=True)
    assert path(B=(to_c,), C=(Import("x.>", "B", service=True),)).of_source("B", source("x"), "") is None
    for hops in (BRIDGES_DEEP, BRIDGES_DEEP + 1):
        imports = {
            f"N{hop}": (Import("x.>", f"N{hop + 1}", service=True), DELIVERED) for hop in range(hops - 1)
        }
        imports[f"N{hops - 1}"] = (Import("$JS.API.>", "A", service=True, local="x.>"),)
        asked = source("x")
        assert path(**imports).of_source("N0", asked, "") == ("A" if hops == BRIDGES_DEEP else None)
