"""How a connection begins: which bytes come first, and what stands between its socket and its session.

plain                INFO, then CONNECT
TLS                  INFO in clear, then the handshake
handshake_first      the handshake, then INFO; with a fallback delay, INFO when no handshake has begun by then
allow_non_tls        INFO, then whatever the first byte shows
websocket            (TLS, then) the HTTP upgrade, then INFO
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.broker.view import NATS, WEBSOCKET
from tidelog.serve.connection import Connection

if TYPE_CHECKING:
    from tidelog.serve.filter import Filter
    from tidelog.serve.server import Server
    from tidelog.serve.tls import TlsContext, TlsFilter

# The record type of a TLS handshake.
TLS_FIRST_BYTE = 0x16
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


class Reception:
    """Receives the connections of one listener."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop

    def open(self, fd: int, host: str, port: int, transport: str = NATS) -> Connection:
        connection = Connection(self.server, self.loop, fd)
        connection.tune(host in LOOPBACK)
        session = self.server.broker.open_session(connection, host, port, transport=transport)
        self.server.connections.add(connection)
        connection.attach(session)
        return connection

    def close_if_not(self, connection: Connection, established: str, after_s: float, reason: str) -> None:
        """Give a handshake its time."""

        def check() -> None:
            if not connection.closed and connection.on_established is not None:
                self.server.broker.debug(connection.session, f"{established} timeout")
                self.server.broker.close(connection.session, reason)

        self.loop.call_later(after_s, check)


class ClientReception(Reception):
    """Clients over TCP and TLS."""

    def accept(self, fd: int, host: str, port: int) -> None:
        connection = self.open(fd, host, port)
        broker, options, tls = self.server.broker, self.server.options, self.server.tls
        session = connection.session
        if tls is None or options.tls is None:
            broker.greet(session)
            broker.begin(session)
        elif options.tls.handshake_first and options.tls.fallback_delay_s:
            self.await_handshake(connection, tls, options.tls.fallback_delay_s)
        elif options.tls.handshake_first:
            session.tls_first = True
            self.start_tls(connection, tls)
        elif options.allow_non_tls:
            broker.greet(session)
            self.await_choice(connection, tls, options.tls.timeout_s)
        else:
            broker.greet(session)
            connection.flush()
            self.start_tls(connection, tls)

    def await_handshake(self, connection: Connection, tls: TlsContext, delay_s: float) -> None:
        """`handshake_first: auto`: who begins with a handshake gets it, who waits gets INFO."""
        broker, session = self.server.broker, connection.session

        def waited() -> None:
            if connection.closed or connection.on_first_bytes is None:
                return
            connection.on_first_bytes = None
            broker.greet(session)
            connection.flush()
            self.start_tls(connection, tls)

        timer = self.loop.call_later(delay_s, waited)

        def first(_byte: int) -> None:
            timer.cancel()
            session.tls_first = True
            self.start_tls(connection, tls)

        connection.on_first_bytes = first

    def await_choice(self, connection: Connection, tls: TlsContext, time_s: float) -> None:
        """`allow_non_tls`: the first byte decides. Who says nothing for the time of a handshake is plain."""

        def waited() -> None:
            if not connection.closed and connection.on_first_bytes is not None:
                connection.on_first_bytes = None
                self.server.broker.begin(connection.session)

        timer = self.loop.call_later(time_s, waited)

        def first(byte: int) -> None:
            timer.cancel()
            if byte == TLS_FIRST_BYTE:
                self.start_tls(connection, tls)
            else:
                self.server.broker.begin(connection.session)

        connection.on_first_bytes = first

    def start_tls(self, connection: Connection, tls: TlsContext) -> None:
        from tidelog.serve.tls import TlsFilter

        stage = TlsFilter(tls)
        connection.set_filter(stage)
        connection.on_established = lambda: self.secured(connection, stage)
        settings = self.server.options.tls
        assert settings is not None
        self.close_if_not(connection, "TLS handshake", settings.timeout_s, "TLS Handshake Failure")

    def secured(self, connection: Connection, stage: TlsFilter) -> None:
        session, broker = connection.session, self.server.broker
        note_tls(connection, stage)
        if session.tls_first:
            broker.greet(session)
        broker.begin(session)


class WebsocketReception(Reception):
    def accept(self, fd: int, host: str, port: int) -> None:
        from tidelog.serve.filter import Stack
        from tidelog.serve.tls import TlsFilter
        from tidelog.serve.websocket import WebsocketFilter

        assert self.server.upgrade_rules is not None
        connection = self.open(fd, host, port, WEBSOCKET)
        web = WebsocketFilter(self.server.upgrade_rules, self.server.options.broker.limits.max_payload)
        secure = TlsFilter(self.server.websocket_tls) if self.server.websocket_tls is not None else None
        stage: Filter = Stack(secure, web) if secure is not None else web
        connection.set_filter(stage)

        def upgraded() -> None:
            session, broker = connection.session, self.server.broker
            if secure is not None:
                note_tls(connection, secure)
            session.web = web.upgrade
            broker.greet(session)
            broker.begin(session)

        connection.on_established = upgraded
        after_s = self.server.options.websocket.handshake_timeout_s
        self.close_if_not(connection, "Websocket handshake", after_s, "Client Closed")


def note_tls(connection: Connection, stage: TlsFilter) -> None:
    """Let the session know how it is protected, and by whom the other side is vouched for."""
    session = connection.session
    session.tls_version = stage.version
    session.tls_cipher = stage.cipher
    session.certificate = stage.peer
    session.peer_certificate = stage.peer_certificate
