"""One running server: listeners, connections and the tick, around a broker.

`Server` owns the event loop's side of everything: it accepts, lets connections read, writes all outboxes once
per tick, drives the broker's timers, and ends in order. It has no signals, no files but those it is told to
write, and no process-wide effect, so several can run in one process; `serve.process` adds what a program needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tidelog import API_LEVEL, PROTOCOL_VERSION
from tidelog.base.clock import Clock, SystemClock
from tidelog.base.errors import ConfigError
from tidelog.broker.broker import Broker
from tidelog.broker.nkey import new_server_id
from tidelog.broker.settings import SECOND_NS, Authorization
from tidelog.broker.view import WEBSOCKET
from tidelog.serve.connection import Connection, ReadBuffer
from tidelog.serve.filter import FilterError
from tidelog.serve.linger import Linger, waited_on
from tidelog.serve.listener import Listener, address, bind, shown
from tidelog.serve.log import Logger
from tidelog.serve.monitor.state import ServerState
from tidelog.serve.options import DEFAULT_PORT, Options
from tidelog.serve.prefetch import prefetch
from tidelog.serve.reception import ClientReception, WebsocketReception
from tidelog.wire.handshake import Info, encode_info

if TYPE_CHECKING:
    from tidelog.serve.monitor.desk import Monitor
    from tidelog.serve.reloader import ReloadReport
    from tidelog.serve.stream_service import StreamService
    from tidelog.serve.tls import TlsContext
    from tidelog.serve.upgrade import UpgradeRules

# Password hashes are slow on purpose; two threads check them, so that a storm of them leaves the loop alone.
HASH_THREADS = 2


class Service(Protocol):
    """Something that listens beside the clients' listeners."""

    def close(self) -> None: ...


class Server:
    def __init__(
        self,
        options: Options,
        log: Logger,
        *,
        client_socket: socket.socket | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`client_socket`: already bound and listening, by somebody who was in a hurry."""
        self.options = options
        self.log = log
        self.clock = clock if clock is not None else SystemClock()
        self.monotonic_ns = time.monotonic_ns
        self.now_ns = time.time_ns
        self.client_socket = client_socket
        self.server_id = new_server_id()
        self.start_ns = self.clock.now_ns()
        self.read_buffer = ReadBuffer()
        self.connections: set[Connection] = set()
        self.listeners: list[Listener] = []
        self.monitor: Monitor | None = None
        self.services: list[Service] = []
        self.sockets: dict[str, socket.socket] = {}
        self.stopped = asyncio.Event()
        self.deserted = asyncio.Event()  # in lame duck mode: the last client has gone
        self.timer: asyncio.TimerHandle | None = None
        self.streams: StreamService | None = None
        self.committing = False
        self.pool: ThreadPoolExecutor | None = None
        self.stopping = False

    # ---- start ----

    async def start(self) -> None:
        """Listen, and be ready. Raises ConfigError for what cannot be bound or read."""
        self.loop = asyncio.get_running_loop()
        self.linger = Linger(waited_on(self.loop))
        options = self.options
        self.tls = self.make_tls(options)
        self.websocket_tls, self.upgrade_rules = self.make_websocket(options)
        sock = self.client_socket or bind(options.host, options.port)
        self.client_socket = None
        self.sockets["nats"] = sock
        self.host, self.port = options.host, address(sock)[1]
        self.broker = Broker(
            options.broker,
            self.make_info(options),
            websocket_authorization=websocket_authorization(options),
            clock=self.clock,
            log=self.log,
            elsewhere=self.run_elsewhere,
        )
        self.state = ServerState(
            options=options,
            server_id=self.server_id,
            version=PROTOCOL_VERSION,
            runtime=self.broker.info.go,
            port=self.port,
            start_ns=self.start_ns,
            config_load_ns=self.start_ns,
        )
        self.broker.flushes.wake = self.wake
        if options.jetstream.enabled:
            await self.start_streams(sock)
        self.broker.timers.on_earlier = self.arm_timer
        self.arm_timer()
        self.write_deadline_s = options.broker.limits.write_deadline_ns / 1e9
        self.listen(sock, ClientReception(self, self.loop).accept)
        self.log.info(f"Listening for client connections on {shown(self.host, self.port)}")
        if options.tls is not None:
            self.log.info("TLS required for client connections")
        if options.websocket.port:
            self.start_websocket()
        if options.leafnode.port:
            await self.start_leafnode()
        if options.http_port or options.https_port:
            await self.start_monitor()
        prefetch(self.loop, options)

    async def start_streams(self, sock: socket.socket) -> None:
        from tidelog.serve.stream_service import StreamService

        try:
            streams = StreamService(self, self.options)
            await streams.start()
        except ConfigError:
            sock.close()
            raise
        self.use_streams(streams)

    def use_streams(self, streams: StreamService | None) -> None:
        self.streams = streams
        self.state.desk = streams.desk if streams is not None else None
        self.state.store_path = streams.path if streams is not None else ""

    def listen(self, sock: socket.socket, on_accept: Callable[[int, str, int], None]) -> None:
        self.listeners.append(Listener(self.loop, sock, on_accept, self.log))

    def start_websocket(self) -> None:
        settings = self.options.websocket
        sock = bind(settings.host, settings.port, "websocket port")
        self.sockets["websocket"] = sock
        port = self.state.websocket_port = address(sock)[1]
        self.broker.infos[WEBSOCKET] = self.websocket_info(self.broker.info, self.options)
        self.listen(sock, WebsocketReception(self, self.loop).accept)
        scheme = "wss" if settings.tls is not None else "ws"
        self.log.info(f"Listening for websocket clients on {scheme}://{shown(settings.host, port)}")
        if settings.tls is None:
            self.log.warn("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    def websocket_info(self, info: Info, options: Options) -> Info:
        """INFO as websocket clients are told it."""
        settings = options.websocket
        return msgspec.structs.replace(
            info,
            host=settings.host,
            port=self.state.websocket_port,
            tls_required=settings.tls is not None,
            tls_available=False,
            tls_verify=settings.tls is not None and (settings.tls.verify or settings.tls.verify_and_map),
        )

    async def start_leafnode(self) -> None:
        from tidelog.serve.leafnode import LeafnodeRefusal

        settings = self.options.leafnode
        sock = bind(settings.host, settings.port, "leafnode port")
        self.sockets["leafnodes"] = sock
        port = self.state.leafnode_port = address(sock)[1]
        info = msgspec.structs.replace(self.broker.info, host=settings.host, port=port)
        greeting = encode_info(info)
        self.services.append(
            await self.loop.create_server(lambda: LeafnodeRefusal(greeting, self.log), sock=sock)
        )
        self.log.info(f"Listening for leafnode connections on {shown(settings.host, port)}")

    def make_monitor(self) -> Monitor:
        from tidelog.serve.monitor.desk import Monitor

        if self.monitor is None:
            self.monitor = Monitor(self.state, self.broker, self.clock, self.log)
        return self.monitor

    def answer_requests(self, reload: Callable[[], ReloadReport] | None = None) -> None:
        """Answer `$SYS.REQ.` over NATS; `reload` reads the configuration again."""
        from tidelog.serve.monitor.system import SystemDesk
        from tidelog.serve.system import SystemService

        SystemService(self, SystemDesk(self.make_monitor()), reload)

    async def start_monitor(self) -> None:
        from tidelog.serve.http import HttpServer

        options = self.options
        http = HttpServer(self.make_monitor().answer, self.log, self.clock)
        self.services.append(http)
        host = options.http_host or options.host
        secure = bool(options.https_port)
        sock = bind(host, options.https_port or options.http_port, "monitor port")
        self.sockets["monitoring"] = sock
        port = address(sock)[1]
        if secure:
            self.state.https_port = port
            context = self.make_tls(options)
            assert context is not None
            await http.listen(sock, context.ssl)
        else:
            self.state.http_port = port
            await http.listen(sock)
        self.log.info(f"Starting {'https' if secure else 'http'} monitor on {shown(host, port)}")

    def make_tls(self, options: Options) -> TlsContext | None:
        if options.tls is None:
            return None
        from tidelog.serve.tls import TlsContext

        return TlsContext(options.tls)

    def make_websocket(self, options: Options) -> tuple[TlsContext | None, UpgradeRules | None]:
        settings = options.websocket
        if not settings.port:
            return None, None
        from tidelog.serve.tls import TlsContext
        from tidelog.serve.upgrade import UpgradeRules

        tls = TlsContext(settings.tls) if settings.tls is not None else None
        return tls, UpgradeRules.of(settings, secure=tls is not None)

    def make_info(self, options: Options) -> Info:
        tls = options.tls
        host, port = advertised(options.client_advertise, self.host, self.port)
        return Info(
            server_id=self.server_id,
            server_name=options.server_name or self.server_id,
            version=PROTOCOL_VERSION,
            proto=1,
            go=f"python{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
            host=host,
            port=port,
            headers=options.broker.headers,
            max_payload=options.broker.limits.max_payload,
            tls_required=tls is not None and not options.allow_non_tls,
            tls_available=tls is not None and options.allow_non_tls,
            tls_verify=tls is not None and (tls.verify or tls.verify_and_map),
            jetstream=options.jetstream.enabled,
            domain=options.jetstream.domain if options.jetstream.enabled else "",
            api_lvl=API_LEVEL if options.jetstream.enabled else 0,
        )

    def scheme(self, name: str) -> str:
        """The URL scheme of a listener of `sockets`."""
        if name == "nats":
            return "tls" if self.options.tls is not None and not self.options.allow_non_tls else "nats"
        if name == "websocket":
            return "wss" if self.websocket_tls is not None else "ws"
        if name == "monitoring":
            return "https" if self.options.https_port else "http"
        return "nats"

    # ---- the tick ----

    def wake(self) -> None:
        """Something waits for the end of the tick. While that commits, what comes of it goes out with it."""
        if not self.committing:
            self.loop.call_soon(self.end_tick)

    def end_tick(self) -> None:
        """What came is committed, and then what goes out is written."""
        if self.streams is not None:
            self.committing = True
            try:
                self.streams.commit()
            finally:
                self.committing = False
                if self.streams.unfinished:
                    self.loop.call_soon(self.end_tick)
                self.flush_all()
            if self.streams.unfinished:
                return
        else:
            self.flush_all()
        self.linger.wait()

    def flush_all(self) -> None:
        """Write every outbox that has something new, each in one call."""
        for recipient in self.broker.flushes.take():
            recipient.connection.flush_alone()

    def arm_timer(self) -> None:
        """Wake up when the broker's next timer is due."""
        due_ns = self.broker.timers.next_due_ns()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if due_ns is not None:
            delay_s = max(due_ns - self.clock.monotonic_ns(), 0) / 1e9
            self.timer = self.loop.call_later(delay_s, self.run_timers)

    def run_timers(self) -> None:
        self.timer = None
        try:
            self.broker.timers.run(self.clock.monotonic_ns())
        finally:
            # Whatever one of them does, the others have their time.
            self.arm_timer()

    def run_elsewhere(self, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        """A slow check in a thread; its answer back on the loop."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(HASH_THREADS, "tidelog-hash")

        def finished(answer: asyncio.Future[bool]) -> None:
            if answer.cancelled():
                return
            error = answer.exception()
            if error is not None:
                # Whoever waits for it must not wait for ever.
                self.log.error(f"Error checking credentials: {error!r}")
            done(error is None and answer.result())

        self.loop.run_in_executor(self.pool, job).add_done_callback(finished)

    # ---- told by connections ----

    def peer_gone(self, connection: Connection, reason: str) -> None:
        error = connection.end_of_stream()
        if error is not None:
            self.filter_failed(connection, error)
            connection.close()
            return
        self.broker.close(connection.session, reason, flush=False)
        connection.close()

    def filter_failed(self, connection: Connection, error: FilterError) -> None:
        if error.text:
            say = self.broker.debug if error.quiet else self.broker.error
            say(connection.session, error.text)
        self.broker.close(connection.session, error.reason)

    def connection_failed(self, connection: Connection, error: Exception) -> None:
        """A fault of ours, or of the machine, while a connection was served: it ends, the others go on."""
        trace = "".join(traceback.format_exception(error)).rstrip()
        self.broker.error(connection.session, f"Internal error, closing the connection: {error!r}")
        self.log.debug(trace)
        self.broker.close(connection.session, "Internal Error", flush=False)
        connection.close()

    def write_stuck(self, connection: Connection) -> None:
        self.broker.slow_consumer(connection.session, "Slow Consumer (Write Deadline)")
        connection.close()

    def connection_closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not connection.session.closed:
            self.broker.close(connection.session, "Client Closed", flush=False)
        if self.broker.lame_duck and not self.broker.open_sessions:
            self.deserted.set()

    # ---- the end ----

    def stop_listening(self) -> None:
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()

    async def lame_duck(self) -> None:
        """Take nobody in any more, tell those who are in, and let go of them little by little."""
        if self.broker.lame_duck:
            return
        options = self.options
        self.log.info("Entering lame duck mode, stop accepting new clients")
        self.stop_listening()
        self.broker.announce_lame_duck()
        await self.while_somebody_is_in(options.lame_duck_grace_s)
        await self.let_go(max(options.lame_duck_duration_s - options.lame_duck_grace_s, 0.0))
        await self.stop()

    async def let_go(self, over_s: float) -> None:
        """Close every client, spread over a time so that they do not all knock at the next server at once."""
        sessions = list(self.broker.open_sessions.values())
        if sessions:
            self.log.info("Closing existing clients")
        for session in sessions:
            if self.stopping:
                return
            if not session.closed:
                self.broker.close(session, "Server Shutdown")
                await self.while_somebody_is_in(over_s / len(sessions))

    async def while_somebody_is_in(self, time_s: float) -> None:
        """Wait, but for nobody: clients that were told may go by themselves."""
        if self.broker.open_sessions:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(time_s):
                    await self.deserted.wait()

    async def stop(self) -> None:
        """Close everything. Whoever is connected gets what was already in their outbox."""
        if self.stopping:
            await self.stopped.wait()
            return
        self.stopping = True
        self.log.info("Initiating Shutdown...")
        self.stop_listening()
        if self.streams is not None:
            # First, so that acknowledgements still go out.
            self.streams.stop()
        for session in list(self.broker.open_sessions.values()):
            self.broker.close(session, "Server Shutdown")
        if self.timer is not None:
            self.timer.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self.connections:
                    await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.close()
        for service in self.services:
            service.close()
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
        self.log.info("Server Exiting..")
        self.stopped.set()


def websocket_authorization(options: Options) -> Authorization:
    """Who may come in by websocket: as everywhere, but for what the `websocket` block says."""
    settings = options.websocket
    changes: dict[str, Any] = {}
    if settings.user or settings.token:
        changes.update(user=settings.user, password=settings.password, token=settings.token)
    if settings.no_auth_user:
        changes["no_auth_user"] = settings.no_auth_user
    if settings.auth_timeout_s:
        changes["timeout_ns"] = round(settings.auth_timeout_s * SECOND_NS)
    return replace(options.broker.authorization, **changes)


def advertised(address: str, host: str, port: int) -> tuple[str, int]:
    """Where clients are told to find us: `client_advertise`, or else where we listen."""
    if not address:
        return host, port
    name, colon, number = address.rpartition(":")
    if not colon or address.endswith("]"):
        return address.strip("[]"), DEFAULT_PORT
    return name.strip("[]"), int(number)
