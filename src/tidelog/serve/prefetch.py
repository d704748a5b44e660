"""Modules that start-up leaves out and the running server may need: imported soon after it listens.

They are imported where they are used as well, so that nothing depends on this. But an import at that moment would
hold up everybody on the loop, and it would fail if the process had no file descriptor left just then.

How it works: which modules the options call for, one per wake-up, so that clients are served between them.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.broker.auth import is_bcrypt

if TYPE_CHECKING:
    import asyncio

    from tidelog.serve.options import Options

# Behind the first clients, who are there within milliseconds.
FIRST_S = 0.05
PAUSE_S = 0.01


def wanted(options: Options) -> Iterator[str]:
    """What a server with these options may come to import."""
    authorization = options.broker.authorization
    yield "json"  # CONNECT documents that msgspec cannot read
    if authorization.required or options.websocket.user or options.websocket.token:
        yield "hmac"
        secrets = [
            authorization.password,
            authorization.token,
            *(user.password for user in authorization.users),
        ]
        if any(map(is_bcrypt, secrets)):
            yield "bcrypt"
        if any(user.nkey for user in authorization.users):
            yield "cryptography.hazmat.primitives.asymmetric.ed25519"
    if options.tls is not None and (options.tls.verify_and_map or options.tls.pinned_certs):
        yield "cryptography.x509"
    if options.websocket.port:
        yield "tidelog.serve.websocket"
    if options.http_port or options.https_port:
        yield "h11"
        yield "tidelog.serve.metric"


def prefetch(loop: asyncio.AbstractEventLoop, options: Options) -> None:
    """Import what is wanted and not there yet, little by little."""
    missing = [name for name in wanted(options) if name not in sys.modules]
    for number, name in enumerate(missing):
        loop.call_later(FIRST_S + number * PAUSE_S, import_quietly, name)


def import_quietly(name: str) -> None:
    """Where the module is needed is the place to complain."""
    with contextlib.suppress(ImportError, OSError):
        importlib.import_module(name)
