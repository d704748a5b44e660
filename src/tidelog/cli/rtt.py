"""`tidelog rtt`: how long a PING takes to each address of each server."""

import socket
import statistics
from datetime import datetime
from typing import Any

import click

from tidelog.base.errors import ClientError
from tidelog.cli import duration, output
from tidelog.cli.target import Target, connection_options, current_target
from tidelog.client.address import DEFAULT_URL, Address, parse_all


@click.command()
@click.argument("iterations", default=5, type=click.IntRange(min=1))
@click.option("--json", "-j", "as_json", is_flag=True, help="A JSON document; times in nanoseconds.")
@connection_options
def rtt(iterations: int, as_json: bool) -> int:
    """Mean of ITERATIONS round trips to every address of every server."""
    target = current_target()
    report: list[dict[str, Any]] = []
    for address in parse_all(target.server or DEFAULT_URL):
        results = [_measure(target, address, host, iterations) for host in _hosts(address)]
        report.append({"url": str(address), "results": results})
    if as_json:
        output.write_json(report)
    else:
        for entry in report:
            click.echo(f"{entry['url']}:\n")
            for result in entry["results"]:
                shown = result.get("error") or duration.show(result["rtt"] / 1e9)
                click.echo(f"   {result['address']}: {shown}")
            click.echo()
    return int(any("error" in result for entry in report for result in entry["results"]))


def _hosts(address: Address) -> list[str]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return [address.host]
    hosts = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    # A certificate is for the name, so an encrypted server is reached by it.
    return [address.host] if address.is_encrypted else hosts


def _measure(target: Target, address: Address, host: str, iterations: int) -> dict[str, Any]:
    shown = f"[{host}]" if ":" in host else host
    place = f"{address.scheme}://{shown}:{address.port}"
    result: dict[str, Any] = {"time": datetime.now().astimezone().isoformat(), "address": place}
    identity = (
        f"{address.user}:{address.password}@" if address.password else address.user and f"{address.user}@"
    )
    try:
        with target.connect(place.replace("://", f"://{identity}", 1)) as connection:
            times_s = [connection.rtt_s() for _ in range(iterations)]
    except ClientError as error:
        return result | {"rtt": 0, "error": str(error)}
    return result | {"rtt": int(statistics.fmean(times_s) * 1e9), "url": place}
