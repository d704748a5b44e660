"""The server as a program: signals, pid file, ports file, and the loop that runs it.

SIGINT, SIGTERM   stop in order, exit 0 (SIGTERM is ignored in lame duck mode, which ends by itself)
SIGHUP            read the configuration again
SIGUSR1           reopen the log file
SIGUSR2           lame duck mode
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys

import uvloop

from tidelog.base.errors import ConfigError
from tidelog.serve.flag import Invocation
from tidelog.serve.listener import shown
from tidelog.serve.log import Logger, open_log
from tidelog.serve.options import Options
from tidelog.serve.reloader import Reloader
from tidelog.serve.server import Server

SIGNAL_WORDS = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}


def run(invocation: Invocation, options: Options, client_socket: socket.socket) -> int:
    """Serve until a signal ends it. Returns the exit status."""
    try:
        log = open_log(options.log)
    except ConfigError as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    try:
        return uvloop.run(serve(invocation, options, client_socket, log))
    except ConfigError as error:
        log.fatal(error.message if not error.path else str(error))
        return 1
    finally:
        log.close()


async def serve(invocation: Invocation, options: Options, client_socket: socket.socket, log: Logger) -> int:
    server = Server(options, log, client_socket=client_socket)
    greet_operator(server, options, log)
    program = Program(server, invocation, log)
    try:
        await server.start()
        server.answer_requests(program.reloader.reload)
        program.handle_signals()
        # Whoever reads these files may send signals.
        program.write_pid_file()
        program.write_ports_file()
        # What start-up made lives as long as the process: the collector need never look at it.
        gc.freeze()
        gc.enable()
        log.info("Server is ready")
        await server.stopped.wait()
    finally:
        program.remove_files()
    return 0


def greet_operator(server: Server, options: Options, log: Logger) -> None:
    from tidelog import PROTOCOL_VERSION, __version__

    log.info("Starting nats-server")
    log.info(f"  Version:  {PROTOCOL_VERSION} (Tidelog {__version__})")
    log.info(f"  Name:     {options.server_name or server.server_id}")
    log.info(f"  ID:       {server.server_id}")
    if options.config_file:
        log.info(f"Using configuration file: {options.config_file} ({options.config_digest})")
    for warning in options.warnings:
        log.warn(warning)


class Program:
    """What surrounds a server in its own process."""

    def __init__(self, server: Server, invocation: Invocation, log: Logger) -> None:
        self.server = server
        self.reloader = Reloader(server, invocation)
        self.log = log
        self.pid_file = server.options.pid_file
        self.ports_file = ""
        self.tasks: set[asyncio.Task[None]] = set()

    def handle_signals(self) -> None:
        for number in SIGNAL_WORDS:
            self.server.loop.add_signal_handler(number, self.trapped, number)
        # What has come since the socket listens (cli.serve) is handled now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNAL_WORDS)

    def trapped(self, number: signal.Signals) -> None:
        self.log.info(f'Trapped "{SIGNAL_WORDS[number]}" signal')
        if number == signal.SIGHUP:
            self.reloader.reload()
        elif number == signal.SIGUSR1:
            self.log.reopen()
        elif number == signal.SIGUSR2:
            self.spawn(self.server.lame_duck())
        elif number == signal.SIGINT or not self.server.broker.lame_duck:
            self.spawn(self.server.stop())

    def spawn(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def write_pid_file(self) -> None:
        if self.pid_file:
            try:
                with open(self.pid_file, "w", encoding="ascii") as file:
                    file.write(str(os.getpid()))
            except OSError as error:
                raise ConfigError(f"Could not write pidfile: {error}") from error

    def write_ports_file(self) -> None:
        """Where harnesses read which ports were taken; named after the program, as they expect."""
        directory = self.server.options.ports_file_dir
        if not directory:
            return
        program = os.path.basename(sys.argv[0]) or "nats-server"
        self.ports_file = os.path.join(directory, f"{program}_{os.getpid()}.ports")
        temporary = self.ports_file + ".new"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(urls(self.server), file)
            os.replace(temporary, self.ports_file)
        except OSError as error:
            self.ports_file = ""
            self.log.error(f"Error writing ports file ({directory}): {error}")

    def remove_files(self) -> None:
        for path in (self.ports_file, self.pid_file):
            if path:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def urls(server: Server) -> dict[str, list[str]]:
    """Every listener's URLs, under the names of the ports file."""
    found: dict[str, list[str]] = {}
    for name, sock in server.sockets.items():
        scheme = server.scheme(name)
        host, port = sock.getsockname()[:2]
        hosts = [host] if host not in ("0.0.0.0", "::") else local_addresses()
        found[name] = [f"{scheme}://{shown(each, port)}" for each in hosts]
    return found


def local_addresses() -> list[str]:
    """Addresses under which a listener on every interface is reached."""
    try:
        answers = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        answers = []
    found = {"127.0.0.1"} | {str(answer[4][0]) for answer in answers}
    return sorted(found)
