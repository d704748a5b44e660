"""Starting servers that are not servers, and the text of the configuration."""

import sys
from pathlib import Path

import pytest

from tidelog.bench.case import Access
from tidelog.bench.fault import ServerFailed
from tidelog.bench.server import config_text, serving

# Writes a ports file as servers do, half of it first, and waits to be ended.
GOOD = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("--ports_file_dir") + 1])
path = folder / "fake_1.ports"
path.write_text('{"nats":["tls://127.0')
time.sleep(0.05)
path.write_text('{"nats":["tls://127.0.0.1:4999"],"monitoring":["http://127.0.0.1:5000"]}')
signal.pause()
"""
BAD = "import sys; print('no such port', file=sys.stderr); sys.exit(3)"


def test_where_it_listens_is_read_from_the_ports_file() -> None:
    with serving(Access.OPEN, (sys.executable, "-c", GOOD)) as (server,):
        assert (server.ports.host, server.ports.port) == ("127.0.0.1", 4999)
        assert server.ports.monitor == "http://127.0.0.1:5000"
        assert server.cpu_s() >= 0
        process = server.process
    assert process.poll() is not None


def test_server_that_ends_at_once_is_quoted() -> None:
    with (
        pytest.raises(ServerFailed, match="ended with 3: no such port"),
        serving(Access.OPEN, (sys.executable, "-c", BAD)),
    ):
        pass


def test_missing_executable() -> None:
    with pytest.raises(ServerFailed, match="cannot start"), serving(Access.OPEN, ("/nonexistent/server",)):
        pass


def test_one_that_fails_takes_the_others_down() -> None:
    started = []
    with (
        pytest.raises(ServerFailed),
        serving(Access.OPEN, (sys.executable, "-c", GOOD), (sys.executable, "-c", BAD)) as servers,
    ):
        started += servers
    assert started == []


def test_configuration_of_each_access() -> None:
    paths = Path("/c.pem"), Path("/k.pem")
    texts = {access: config_text(access, *paths) for access in Access}
    assert all('host: "127.0.0.1"\nport: -1' in text for text in texts.values())
    assert 'tls { cert_file: "/c.pem", key_file: "/k.pem"' in texts[Access.TLS]
    assert '"rights.t19.*"' in texts[Access.RIGHTS]
    assert "users" not in texts[Access.OPEN]
