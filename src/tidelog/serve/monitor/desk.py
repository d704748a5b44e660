"""Finds the document for a monitoring request.

`Monitor.answer` is the handler of the HTTP server. It counts requests by path, answers 400 with nats-server's
words to options that cannot be read and 404 to unknown paths, makes long lists in slices, and lets any page
read the documents (CORS), since they are reachable without credentials anyway.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.view import BrokerView
from tidelog.serve.http import JSON, TEXT, Request, Response, Work
from tidelog.serve.log import Logger
from tidelog.serve.monitor import account, connz, health, index, inside, jetstream, peer, subsz, varz
from tidelog.serve.monitor.document import encode
from tidelog.serve.monitor.process import ProcessorMeter
from tidelog.serve.monitor.query import BadQuery, Query
from tidelog.serve.monitor.state import ServerState

CORS = (("Access-Control-Allow-Origin", "*"),)
NO_SNIFF = (("X-Content-Type-Options", "nosniff"),)
HTML = "text/html; charset=utf-8"

Page = Callable[[Query], Response | Work]
T = TypeVar("T")


def document(content: object, status: int = 200, indent: int = 2) -> Response:
    return Response(status, encode(content, indent), JSON, CORS)


def sliced(work: Generator[None, None, object]) -> Work:
    return document((yield from work))


def whole(work: Generator[None, None, T]) -> T:
    """All slices at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


class Monitor:
    """All documents of one server."""

    def __init__(self, state: ServerState, broker: BrokerView, clock: Clock, log: Logger) -> None:
        self.state = state
        self.broker = broker
        self.clock = clock
        self.log = log
        self.meter = ProcessorMeter(clock)
        server_id = state.server_id
        # Path to (name under http_req_stats, page); an empty name is not counted.
        self.pages: dict[str, tuple[str, Page]] = {
            "/": ("/", self.index),
            "/varz": ("/varz", lambda _: document(varz.varz(state, broker, clock, self.meter))),
            "/connz": (
                "/connz",
                lambda query: sliced(connz.connz(server_id, broker, clock, connz.read_query(query))),
            ),
            "/subsz": ("/subsz", self.subsz),
            "/subscriptionsz": ("/subsz", self.subsz),
            "/accountz": (
                "/accountz",
                lambda query: document(
                    account.accountz(server_id, broker, clock, query, state.accounts_with_streams())
                ),
            ),
            "/accstatz": (
                "/accstatz",
                lambda query: document(account.accstatz(server_id, broker, clock, query)),
            ),
            "/healthz": ("/healthz", self.healthz),
            "/routez": ("/routez", lambda query: document(peer.routez(state, clock, query))),
            "/leafz": ("/leafz", lambda query: document(peer.leafz(state, clock, query))),
            "/gatewayz": ("/gatewayz", lambda query: document(peer.gatewayz(state, clock, query))),
            "/jsz": (
                "/jsz",
                lambda query: document(jetstream.jsz(state, clock, jetstream.read_query(query))),
            ),
            "/stacksz": ("", lambda _: Response(200, inside.stacksz(), TEXT, CORS)),
            "/ipqueuesz": ("", lambda query: document(inside.ipqueuesz(query))),
            "/raftz": ("", lambda _: Response(404, b"No Raft nodes registered")),
            "/debug/vars": ("", lambda _: document(inside.expvar())),
            "/metrics": ("", self.metrics),
        }

    def answer(self, request: Request) -> Response | Work:
        path = self.below_base(request.path)
        if path not in self.pages:
            return Response(404, b"404 page not found\n", TEXT, NO_SNIFF)
        counted, page = self.pages[path]
        if counted:
            requests = self.state.http_requests
            requests[counted] = requests.get(counted, 0) + 1
        try:
            return page(request.query)
        except BadQuery as error:
            return Response(400, str(error).encode())

    def below_base(self, path: str) -> str:
        """The path under `http_base_path`; empty: it is not below it."""
        base = self.state.options.http_base_path.rstrip("/")
        if not path.startswith(base):
            return ""
        return path[len(base) :] or "/"

    def index(self, _query: Query) -> Response:
        base = self.state.options.http_base_path.rstrip("/")
        return Response(200, index.index(self.state.server_name, self.state.version, base), HTML)

    def subsz(self, query: Query) -> Work:
        work = subsz.subsz(self.state.server_id, self.broker, self.clock, subsz.read_query(query))
        return sliced(work)

    def healthz(self, query: Query) -> Response:
        status, healthz = health.healthz(self.state, query)
        if status != 200:
            self.log.warn(f"Healthcheck failed: {encode(healthz, 0).decode()}")
        return document(healthz, status, indent=0)

    def metrics(self, _query: Query) -> Response:
        from tidelog.serve import metric  # a library of its own, for those who scrape

        return Response(200, metric.exposition(self), metric.CONTENT_TYPE)
