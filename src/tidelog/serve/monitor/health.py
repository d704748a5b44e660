"""/healthz: may this server be sent clients? Status 200 if so."""

from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.query import Query, read_bool
from tidelog.serve.monitor.state import ServerState

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
    """Streams have no state of their own here: asked for one, the server answers for itself."""
    for name in OPTIONS:
        read_bool(query, name)
    detailed = read_bool(query, "details")
    if query.get("stream") and not query.get("account"):
        return fault(400, "BAD_REQUEST", '"account" must not be empty when checking stream health', detailed)
    if query.get("consumer") and not query.get("stream"):
        return fault(400, "BAD_REQUEST", '"stream" must not be empty when checking consumer health', detailed)
    if state.unready:
        closed = ", ".join(state.unready)
        return fault(500, "CONNECTION", f"failed to be ready for connections: {closed}", detailed)
    return 200, Healthz(status="ok")


def fault(status: int, kind: str, error: str, detailed: bool) -> tuple[int, Healthz]:
    if detailed:
        return status, Healthz(status="error", errors=(Fault(type=kind, error=error),))
    return status, Healthz(status="error", error=error)
