"""Nonsense where TLS or a websocket is expected."""

import base64
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import certificate
from crash.bystander import Bystander
from crash.raw import LogTail, Raw, resident_size
from tidelog.testing.peer import ServerProcess, tidelog_argv

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """TLS for clients, plain websocket."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = certificate.issue().write(folder, "server")
    Path(folder, "ca.pem").write_bytes(certificate.authority().cert_pem)
    config = f"""
        tls {{ cert_file: "{cert}", key_file: "{key}", timeout: 0.4 }}
        websocket {{ host: 127.0.0.1, port: -1, no_tls: true, handshake_timeout: "400ms" }}
        max_payload: 65536
        debug: true
        # {folder}
    """
    with ServerProcess(tidelog_argv(), config=config) as running:
        running.ca_path = str(folder / "ca.pem")  # type: ignore[attr-defined]
        yield running
        assert "Traceback" not in running.log


def trust(server: ServerProcess) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=server.ca_path)  # type: ignore[attr-defined]
