"""How soon a server is there: from exec to the first connection, and to the first INFO.

    python -m tidelog.bench.startup [--rounds N]

prints the medians. The server is started on a port that was free a moment ago, and knocked at until it answers; a
refused connection on loopback costs 50 microseconds, so the knocking is not what is measured.
"""

import argparse
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

OURS = (sys.executable, "-m", "tidelog", "serve")
ROUNDS = 20
GIVE_UP_S = 20.0
KNOCK_S = 0.0005


class StartupError(Exception):
    """The server did not come to listen."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def measure(argv: Sequence[str] = OURS) -> tuple[float, float]:
    """Start a server and end it. Seconds from exec to a connection, and to the end of INFO."""
    port = free_port()
    start = time.monotonic()
    process = subprocess.Popen(
        [*argv, "-a", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with knock(process, port, start + GIVE_UP_S) as sock:
            connected = time.monotonic()
            sock.settimeout(GIVE_UP_S)
            said = b""
            while not said.endswith(b"\r\n"):
                part = sock.recv(4096)
                if not part:
                    raise StartupError("the connection ended before INFO")
                said += part
            return connected - start, time.monotonic() - start
    finally:
        process.terminate()
        process.wait()


def knock(process: subprocess.Popen[bytes], port: int, deadline: float) -> socket.socket:
    """Connect as soon as somebody listens."""
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if process.poll() is not None:
                raise StartupError(f"the server ended with exit code {process.returncode}") from None
            time.sleep(KNOCK_S)
    raise StartupError(f"nobody listens after {GIVE_UP_S:g} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidelog.bench.startup", description="Time the start.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often (default: %(default)s)")
    parser.add_argument("argv", nargs="*", help="another server, which takes nats-server's flags")
    given = parser.parse_args()
    times = [measure(given.argv or OURS) for _ in range(given.rounds)]
    for name, column in zip(("connect", "INFO"), zip(*times, strict=True), strict=True):
        middle, best, worst = (1000 * pick(column) for pick in (statistics.median, min, max))
        print(f"exec to {name}: median {middle:.0f} ms, {best:.0f} to {worst:.0f} ms, {given.rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
