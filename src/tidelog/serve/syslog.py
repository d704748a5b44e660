"""Log lines to syslog: the local daemon through the C library, or a receiver by udp, tcp or unix socket.

Promises: never raises and never waits after it was opened. A receiver that is away or slow loses lines; a
stream is connected anew, at most once a second.

Remote lines have the form `<severity>2026-11-18T12:00:00+01:00 host tag[pid]: text`, one per datagram or
line, with facility 0, as nats-server sends them.
"""

import os
import socket
import sys
import syslog
import time
from urllib.parse import urlsplit

from tidelog.base.clock import Clock
from tidelog.base.errors import ConfigError

SEVERITIES = {
    "FTL": syslog.LOG_CRIT,
    "ERR": syslog.LOG_ERR,
    "WRN": syslog.LOG_WARNING,
    "INF": syslog.LOG_NOTICE,
    "TRC": syslog.LOG_NOTICE,
    "DBG": syslog.LOG_DEBUG,
}
CONNECT_TIMEOUT_S = 5.0
RECONNECT_NS = 1_000_000_000
# What a datagram may carry on an ordinary path without being refused; the rest of the text is cut off.
TEXT_SIZE_MAX = 8 * 1024

Address = tuple[str, int] | str


def tag() -> str:
    """The name this program was started by."""
    return os.path.basename(sys.argv[0]) or "tidelog"


class LocalSyslog:
    """The daemon of this machine, facility `daemon`."""

    def __init__(self) -> None:
        syslog.openlog(tag(), syslog.LOG_PID, syslog.LOG_DAEMON)

    def write(self, level: str, text: str) -> None:
        # The C library ends the text at a NUL, and Python refuses one.
        syslog.syslog(
            SEVERITIES[level], text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
        )

    def reopen(self) -> bool:
        return False

    def close(self) -> None:
        syslog.closelog()


class RemoteSyslog:
    """A receiver named by URL."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.clock = clock
        self.lost = 0
        self.tried_ns = 0
        self.family, self.kind, self.address = resolve(url)
        self.host = socket.gethostname()
        self.tag = f"{tag()}[{os.getpid()}]"
        self.socket: socket.socket | None = None
        try:
            self.socket = self.connect(CONNECT_TIMEOUT_S)
        except OSError as error:
            raise ConfigError(f'error connecting to syslog: "{error}"') from error

    def connect(self, timeout_s: float | None) -> socket.socket:
        """With a time limit: wait for the connection. Without: only begin it."""
        made = socket.socket(self.family, self.kind)
        try:
            made.settimeout(timeout_s or 0.0)
            if timeout_s is None:
                made.connect_ex(self.address)
            else:
                made.connect(self.address)
            made.setblocking(False)
        except OSError:
            made.close()
            raise
        return made

    def write(self, level: str, text: str) -> None:
        try:
            if self.socket is None:
                now_ns = self.clock.monotonic_ns()
                if now_ns - self.tried_ns < RECONNECT_NS:
                    self.lost += 1
                    return
                self.tried_ns = now_ns
                self.socket = self.connect(None)
            data = self.line(level, text)
            if self.socket.send(data) != len(data):
                # Half a line in a stream spoils the next one too.
                self.drop()
        except (BlockingIOError, InterruptedError):
            self.lost += 1
        except OSError:
            self.drop()

    def drop(self) -> None:
        self.lost += 1
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def line(self, level: str, text: str) -> bytes:
        now_s = self.clock.now_ns() // 1_000_000_000
        zone = time.strftime("%z", time.localtime(now_s))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now_s)) + (
            f"{zone[:3]}:{zone[3:]}" if zone != "+0000" else "Z"
        )
        body = text.replace("\n", "\\n").encode("utf-8", "backslashreplace")[:TEXT_SIZE_MAX]
        return f"<{SEVERITIES[level]}>{stamp} {self.host} {self.tag}: ".encode() + body + b"\n"

    def reopen(self) -> bool:
        return False

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def resolve(url: str) -> tuple[int, int, Address]:
    """Family, kind and address; names are looked up once, here, because a look-up can take seconds."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return socket.AF_UNIX, socket.SOCK_STREAM, parts.path
    if parts.scheme not in ("udp", "tcp"):
        raise ConfigError(f'error invalid network type: "{parts.scheme}"')
    kind = socket.SOCK_DGRAM if parts.scheme == "udp" else socket.SOCK_STREAM
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 514, type=kind)
    except (OSError, ValueError) as error:
        raise ConfigError(f'error connecting to syslog: "{error}"') from error
    family, _, _, _, address = found[0]
    return family, kind, (str(address[0]), int(address[1]))
