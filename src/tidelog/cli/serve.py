"""`tidelog serve`, and `nats-server` when it is called by that name.

Everything here happens before the socket listens, so only light modules are imported: the flags, the configuration
file, and the socket. The event loop and the server come after.
"""

import os
import sys
from collections.abc import Sequence

from tidelog import PROTOCOL_VERSION
from tidelog.base.errors import ConfigError
from tidelog.serve import flag
from tidelog.serve.listener import bind


def main(arguments: Sequence[str]) -> int:
    """Run until told to stop. Returns the exit status."""
    try:
        invocation = flag.parse_arguments(arguments)
    except ConfigError as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    if invocation.action == "version":
        print(f"nats-server: v{PROTOCOL_VERSION}")
        return 0
    if invocation.action == "help":
        print(flag.help_text())
        return 0
    if invocation.action == "signal":
        from tidelog.serve.signal import send_signal

        return send_signal(invocation.signal)
    try:
        options = flag.load(invocation, os.environ)
    except ConfigError as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    if invocation.action == "test_config":
        print(
            f"nats-server: configuration file {options.config_file} is valid ({options.config_digest})",
            file=sys.stderr,
        )
        return 0
    try:
        client_socket = bind(options.host, options.port)
    except ConfigError as error:
        from tidelog.serve.log import open_log

        open_log(options.log).fatal(error.message)
        return 1
    from tidelog.serve.process import run

    return run(invocation, options, client_socket)
