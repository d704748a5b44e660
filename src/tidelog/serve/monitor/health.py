"""/healthz: may this server be sent clients? Status 200 if so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.query import Query, read_bool
from tidelog.serve.monitor.state import ServerState

if TYPE_CHECKING:
    from tidelog.broker.desk.desk import Desk

OPTIONS = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")


class Fault(Document, frozen=True, kw_only=True):
    type: str
    account: str = ""
    stream: str = ""
    consumer: str = ""
    error: str = ""


class Healthz(Document, frozen=True, kw_only=True):
    status: str
    error: str = ""
    errors: tuple[Fault, ...] = ()


def healthz(state: ServerState, query: Query) -> tuple[int, Healthz]:
    """Of the server; and of its streams, or of one account, stream or consumer, unless an option leaves them out."""
    enabled, enabled_only, server_only, _meta_only = (read_bool(query, name) for name in OPTIONS)
    detailed = read_bool(query, "details")
    if query.get("stream") and not query.get("account"):
        return fault(400, "BAD_REQUEST", '"account" must not be empty when checking stream health', detailed)
    if query.get("consumer") and not query.get("stream"):
        return fault(400, "BAD_REQUEST", '"stream" must not be empty when checking consumer health', detailed)
    if state.unready:
        closed = ", ".join(state.unready)
        return fault(500, "CONNECTION", f"failed to be ready for connections: {closed}", detailed)
    if state.desk is None or server_only or enabled or enabled_only:
        return 200, Healthz(status="ok")
    missing = find_missing(state.desk, query)
    if missing is not None:
        return unavailable(404, (missing,), detailed)
    faults = tuple(stream_faults(state.desk, query.get("account", ""), query.get("stream", "")))
    return unavailable(503, faults, detailed) if faults else (200, Healthz(status="ok"))


def find_missing(desk: Desk, query: Query) -> Fault | None:
    """What of account, stream and consumer is asked for and not there."""
    account, name, consumer = (query.get(key, "") for key in ("account", "stream", "consumer"))
    if not account:
        return None
    streams = desk.engine.accounts.get(account)
    if streams is None:
        return Fault(type="ACCOUNT", account=account, error=f'JetStream account "{account}" not found')
    stream = streams.streams.get(name)
    if name and stream is None:
        about = f'JetStream stream "{name}" not found on account "{account}"'
        return Fault(type="STREAM", account=account, stream=name, error=about)
    if consumer and stream is not None and consumer not in stream.consumers:
        about = f'JetStream consumer "{consumer}" not found for stream "{name}" on account "{account}"'
        return Fault(type="CONSUMER", account=account, stream=name, consumer=consumer, error=about)
    return None


def stream_faults(desk: Desk, account: str, name: str) -> Iterator[Fault]:
    """Streams that were not opened, or take nothing."""
    for path in sorted(desk.engine.failures):
        owner, _, directory = path.split("/")
        if account in ("", owner) and name in ("", directory):
            about = f"JetStream stream '{owner} > {directory}' could not be recovered"
            yield Fault(type="STREAM", account=owner, stream=directory, error=about)
    for owner, streams in sorted(desk.engine.accounts.items()):
        for stream in streams.streams.values():
            if stream.log.refusal is None or account not in ("", owner) or name not in ("", stream.name):
                continue
            about = f"JetStream stream '{owner} > {stream.name}' write error: {stream.log.refusal}"
            yield Fault(type="STREAM", account=owner, stream=stream.name, error=about)


def unavailable(status: int, faults: tuple[Fault, ...], detailed: bool) -> tuple[int, Healthz]:
    if detailed:
        return status, Healthz(status="error", errors=faults)
    return status, Healthz(status="unavailable", error=faults[0].error)


def fault(status: int, kind: str, error: str, detailed: bool) -> tuple[int, Healthz]:
    if detailed:
        return status, Healthz(status="error", errors=(Fault(type=kind, error=error),))
    return status, Healthz(status="error", error=error)
