"""`tidelog top`: rates and connections of one server, read from its monitoring port as nats-top does.

Two readings make a rate; `--once` takes two, `--delay` apart, shows them and ends. The document of `--json`
is `{"server": ..., "rates": ..., "connections": [...]}` with plain numbers; a connection has rates, too.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidelog.base.errors import ClientError
from tidelog.cli import output
from tidelog.cli.duration import DURATION

COUNTERS = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
SERVER_FIELDS = (
    "server_id", "server_name", "version", "host", "port", "uptime", "cpu", "cores", "mem", "connections",
    "total_connections", "subscriptions", "slow_consumers", *COUNTERS,
)  # fmt: skip
CONNECTION_FIELDS = (
    "cid", "ip", "port", "name", "lang", "version", "account", "subscriptions", "pending_bytes", "rtt",
    "uptime", "idle", "last_activity", *COUNTERS,
)  # fmt: skip
SORTS = (
    "cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle",
    "uptime", "rtt",
)  # fmt: skip
READ_TIMEOUT_S = 5.0
# Columns where nobody says how many there are: none of ours is cut.
PIPED_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Reading:
    """The two documents, and when they were read."""

    at_s: float
    server: dict[str, Any]
    connections: list[dict[str, Any]]


class Monitor:
    """The monitoring port of one server."""

    def __init__(self, host: str, port: int, *, sort: str, limit: int, subscriptions: bool) -> None:
        self.host = host
        self.port = port
        self._connz = "/connz?" + urlencode({"sort": sort, "limit": limit, "subs": int(subscriptions)})

    def read(self) -> Reading:
        """Raises ClientError."""
        server = self._get("/varz")
        document = self._get(self._connz)
        return Reading(time.monotonic(), server, document.get("connections") or [])

    def _get(self, path: str) -> dict[str, Any]:
        where = f"http://{self.host}:{self.port}{path}"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=READ_TIMEOUT_S)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise ClientError(
                    f"{where}: {response.status} {text[:200].decode('utf-8', 'replace').strip()}"
                )
            document = json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ClientError(f"{where}: {error}") from error
        finally:
            connection.close()
        if not isinstance(document, dict):
            raise ClientError(f"{where}: not a monitoring document")
        return document


def rates(before: dict[str, Any], now: dict[str, Any], seconds: float) -> dict[str, float]:
    """Per second, of every counter. A server that was started anew counts from nothing."""
    found = {}
    for key in COUNTERS:
        grown = now.get(key, 0) - before.get(key, 0)
        found[f"{key}_per_s"] = round((grown if grown >= 0 else now.get(key, 0)) / max(seconds, 1e-6), 3)
    return found


def report(before: Reading, now: Reading) -> dict[str, Any]:
    """The document of `--json`."""
    seconds = now.at_s - before.at_s
    known = {connection["cid"]: connection for connection in before.connections}
    connections = []
    for connection in now.connections:
        shown = {key: connection[key] for key in CONNECTION_FIELDS if key in connection}
        if "subscriptions_list" in connection:
            shown["subscriptions_list"] = connection["subscriptions_list"]
        # One that came in between has done all of its work in between.
        shown["rates"] = rates(known.get(connection["cid"], {}), connection, seconds)
        connections.append(shown)
    return {
        "server": {key: now.server[key] for key in SERVER_FIELDS if key in now.server},
        "rates": rates(before.server, now.server, seconds),
        "connections": connections,
    }


@click.command()
@click.option("--server", "-s", default="127.0.0.1", show_default=True, help="Host of the server.")
@click.option("--monitor", "-m", default=8222, show_default=True, help="Its monitoring port.")
@click.option("--limit", "-n", default=1024, show_default=True, help="Connections to ask for.")
@click.option("--delay", "-d", default="1s", show_default=True, type=DURATION, help="Between readings.")
@click.option(
    "--sort", default="cid", show_default=True, type=click.Choice(SORTS), help="Connections by this."
)
@click.option("--subs", is_flag=True, help="With the subjects of each connection.")
@click.option("--raw", "-b", is_flag=True, help="Plain numbers instead of K, M, G.")
@click.option("--refreshes", "-r", default=0, type=click.IntRange(min=0), help="End after so many; 0: never.")
@click.option("--once", is_flag=True, help="Take two readings, show, end.")
@click.option("--json", "as_json", is_flag=True, help="JSON documents instead of the screen.")
def top(
    server: str,
    monitor: int,
    limit: int,
    delay: float,
    sort: str,
    subs: bool,
    raw: bool,
    refreshes: int,
    once: bool,
    as_json: bool,
) -> None:
    """Watch a server through its monitoring port, until interrupted."""
    source = Monitor(server, monitor, sort=sort, limit=limit, subscriptions=subs)
    documents = _documents(source, delay, 1 if once else refreshes)
    if as_json:
        for document in documents:
            output.write_json(document)
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    if once:
        for document in documents:
            console.print(screen(document, raw=raw))
        return
    with Live(Text(f"reading {server}:{monitor} ..."), console=console, screen=True) as live:
        for document in documents:
            live.update(screen(document, raw=raw), refresh=True)


def _documents(source: Monitor, delay_s: float, count: int) -> Iterable[dict[str, Any]]:
    before, shown = source.read(), 0
    while not count or shown < count:
        time.sleep(delay_s)
        now = source.read()
        yield report(before, now)
        before, shown = now, shown + 1


def screen(document: dict[str, Any], *, raw: bool) -> Group:
    """For people."""
    server, per_s = document["server"], document["rates"]

    def shown(number: float) -> str:
        return f"{number:g}" if raw else short(number)

    lines = [
        f"{server.get('server_name', '')} version {server.get('version', '')}, up {server.get('uptime', '')}",
        f"Load: CPU {server.get('cpu', 0):g} %  memory {shown(server.get('mem', 0))}B"
        f"  slow consumers {server.get('slow_consumers', 0)}",
    ]
    for way, key in (("In:", "in"), ("Out:", "out")):
        totals = [shown(server.get(f"{key}_{unit}", 0)) for unit in ("msgs", "bytes")]
        speeds = [shown(per_s[f"{key}_{unit}_per_s"]) for unit in ("msgs", "bytes")]
        lines.append(
            f"{way:<5}msgs {totals[0]:>7}  bytes {totals[1]:>7}"
            f"  msgs/s {speeds[0]:>7}  bytes/s {speeds[1]:>7}"
        )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("Host", "cid", "Name", "Lang"):
        table.add_column(heading, no_wrap=True)
    for heading in ("Subs", "Pend", "To", "From", "To/s", "From/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("RTT", "Uptime", "Idle"):
        table.add_column(heading, no_wrap=True)
    for connection in document["connections"]:
        table.add_row(*_cells(connection, shown))
    return Group(*map(Text, lines), Text(f"\n{len(document['connections'])} connections"), table)


def _cells(connection: dict[str, Any], shown: Callable[[float], str]) -> list[str]:
    host = f"{connection.get('ip', '')}:{connection.get('port', '')}"
    counts = [connection.get(key, 0) for key in ("subscriptions", "pending_bytes", "out_msgs", "in_msgs")]
    per_s = [connection["rates"][key] for key in ("out_msgs_per_s", "in_msgs_per_s")]
    words = [str(connection.get(key, "")) for key in ("cid", "name", "lang")]
    times = [str(connection.get(key, "")) for key in ("rtt", "uptime", "idle")]
    return [host, *words, *(shown(number) for number in (*counts, *per_s)), *times]


def short(number: float) -> str:
    """Three digits and a letter."""
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
