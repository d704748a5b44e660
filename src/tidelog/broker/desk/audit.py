"""What is told of every request to the API, on `$JS.EVENT.ADVISORY.API`, and who asked, as advisories say it."""

from __future__ import annotations

import msgspec

from tidelog.base.instant import timestamp
from tidelog.broker.session import Session
from tidelog.broker.view import CLIENT

AUDIT = b"$JS.EVENT.ADVISORY.API"


class ClientCard(msgspec.Struct, omit_defaults=True):
    """A client, as the peer describes it."""

    start: str = ""
    host: str = ""
    id: int = 0
    acc: str = ""
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0
    server: str = ""
    kind: str = ""
    client_type: str = ""


def card_of(session: Session | None, server_name: str) -> ClientCard:
    if session is None:
        return ClientCard()
    return ClientCard(
        start=timestamp(session.start_ns),
        host=session.host,
        id=session.cid,
        acc=session.account_name,
        user=session.user,
        name=session.connect.name,
        lang=session.connect.lang,
        ver=session.connect.version,
        rtt=session.rtt_ns,
        server=server_name,
        kind=CLIENT,
        client_type=session.transport,
    )
