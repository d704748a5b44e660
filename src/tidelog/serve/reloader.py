"""Reload: read the configuration again, and make it the one in force as a whole, or not at all.

Whatever can fail comes first: the file, certificates, what the plan refuses. Only then is anything changed, and
nothing of that can fail. The log says what was applied, or what was refused and why.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.base.errors import ConfigError
from tidelog.broker.view import WEBSOCKET
from tidelog.serve import flag
from tidelog.serve.options import Options
from tidelog.serve.prefetch import prefetch
from tidelog.serve.reload import ReloadPlan, plan
from tidelog.serve.server import Server, websocket_authorization

if TYPE_CHECKING:
    from tidelog.serve.stream_service import StreamService


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What became of a reload, for whoever asked for it."""

    applied: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    error: str = ""

    @property
    def good(self) -> bool:
        return not self.error and not self.refused


@dataclass(slots=True)
class Reloader:
    server: Server
    invocation: flag.Invocation

    def reload(self) -> ReloadReport:
        server, log = self.server, self.server.log
        try:
            options = flag.load(self.invocation, os.environ)
            decided = plan(server.options, options)
            if not decided.refused:
                tls = server.make_tls(options)
                websocket_tls, upgrade_rules = server.make_websocket(options)
                server.broker.check(options.broker, websocket_authorization(options))
                log.apply(options.log)
                streams = self.make_streams(options)
        except ConfigError as error:
            log.error(f"Failed to reload server configuration: {error}")
            return ReloadReport(error=str(error))
        if decided.refused:
            for refusal in decided.refused:
                log.error(f"Failed to reload server configuration: {refusal}")
            return ReloadReport(refused=tuple(str(refusal) for refusal in decided.refused))
        server.tls, server.websocket_tls, server.upgrade_rules = tls, websocket_tls, upgrade_rules
        server.use_streams(streams)
        self.apply(decided.options, decided)
        return ReloadReport(applied=tuple(str(change) for change in decided.applied))

    def make_streams(self, options: Options) -> StreamService | None:
        """The streams to go on with, which are opened if there were none. Raises ConfigError."""
        streams = self.server.streams
        if not options.jetstream.enabled:
            if streams is not None:
                streams.stop()
            return None
        if streams is None:
            from tidelog.serve.stream_service import StreamService

            try:
                streams = StreamService(self.server, options)
                streams.start_at_once()
            except ConfigError:
                self.server.log.apply(self.server.options.log)
                raise
        return streams

    def apply(self, options: Options, decided: ReloadPlan) -> None:
        server, log = self.server, self.server.log
        old = server.options
        for warning in options.warnings:
            log.warn(warning)
        server.options = options
        server.state.options = options
        server.state.config_load_ns = server.clock.now_ns()
        server.write_deadline_s = options.broker.limits.write_deadline_ns / 1e9
        broker = server.broker
        broker.info = server.make_info(options)
        if WEBSOCKET in broker.infos:
            broker.infos[WEBSOCKET] = server.websocket_info(broker.info, options)
        broker.apply(options.broker, websocket_authorization(options))
        if server.streams is not None:
            server.streams.reload(options)
        broker.admission.review()
        self.trim_connections()
        for session in broker.sessions():
            session.set_tracing(log.trace_on)
        if told_by_info(old) != told_by_info(options):
            broker.announce()
        prefetch(server.loop, options)
        for change in decided.applied:
            log.info(f"Reloaded: {change}")
        log.info("Reloaded server configuration")

    def trim_connections(self) -> None:
        """A lower `max_connections` costs those who came last."""
        broker = self.server.broker
        most = broker.settings.limits.max_connections
        if most <= 0:
            return
        for session in list(broker.sessions())[most:]:
            broker.error(session, "maximum connections exceeded")
            session.say_error("maximum connections exceeded")
            broker.close(session, "Maximum Connections Exceeded")


def told_by_info(options: Options) -> object:
    """The part of the configuration that clients are told of."""
    return (
        options.broker.limits.max_payload,
        options.tls is not None,
        options.allow_non_tls,
        options.client_advertise,
        options.jetstream.enabled,
    )
