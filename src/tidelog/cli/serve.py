"""`tidelog serve`, and `nats-server` when it is called by that name.

Everything here happens before the socket listens, so only light modules are imported: the flags, the configuration
file, and the socket. The event loop and the server come after.
"""

import gc
import os
import signal
import sys
from collections.abc import Sequence

from tidelog import PROTOCOL_VERSION
from tidelog.base.errors import ConfigError
from tidelog.serve import flag
from tidelog.serve.listener import bind

HELP = {
    "help": """\
Usage: tidelog serve [flags]        (or: nats-server [flags], see `tidelog drop-in`)

Flags may have one dash or two. A flag overrides what the configuration file says.

Server
  -a, --addr, --net HOST       bind to this address (0.0.0.0)
  -p, --port PORT              port for clients (4222; -1: any free one)
  -n, --name NAME              server name
  -P, --pid FILE               write the pid to FILE
  -m, --http_port PORT         monitoring over HTTP
  -ms, --https_port PORT       monitoring over HTTPS
  -c, --config FILE            configuration file
  -t                           test the configuration file and exit
  -sl, --signal CMD[=PID]      send stop, quit, term, reopen, reload or ldm to a running server
      --client_advertise URL   address that clients are told
      --ports_file_dir DIR     write <program>_<pid>.ports there

Log
  -l, --log FILE               log to FILE
  -T, --logtime=false          lines without time; --logtime_utc: in UTC
  -s, --syslog                 log to syslog; -r, --remote_syslog ADDR: to one elsewhere
  -D, --debug   -V, --trace   -DV: both   -VV, -DVV: trace the system account as well
      --log_size_limit BYTES   rotate the file at this size
      --max_traced_msg_len N   cut payloads in the trace

Who may come in
      --user USER --pass PASSWORD      one user
      --auth TOKEN                     one token

TLS
      --tls --tlscert FILE --tlskey FILE
      --tlsverify --tlscacert FILE     ask clients for certificates and verify them

Streams
  -js, --jetstream             store streams
  -sd, --store_dir DIR         where; otherwise below the directory for temporary files

Other
  -h, --help   -v, --version   --help_tls
""",
    "help_tls": """\
TLS in the configuration file:

  tls {
    cert_file: "server.pem"
    key_file:  "server-key.pem"
    ca_file:   "ca.pem"        # with verify: who vouches for clients
    verify:    true
    timeout:   2
  }

docs/reference/configuration.md lists every option.
""",
}


def main(arguments: Sequence[str]) -> int:
    """Run until told to stop. Returns the exit status."""
    try:
        invocation = flag.parse_arguments(arguments)
    except flag.FlagError as error:
        print(f"nats-server: {error}\n(--help lists the flags)", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    if invocation.action == "version":
        print(f"nats-server: v{PROTOCOL_VERSION}")
        return 0
    if invocation.action in ("help", "help_tls"):
        print(HELP[invocation.action], end="")
        return 0
    if invocation.action == "signal":
        from tidelog.serve.signal import send_signal

        return send_signal(invocation.signal)
    try:
        options = flag.load(invocation, os.environ)
        if invocation.action == "test_config":
            print(f"nats-server: {flag.tested(options)}", file=sys.stderr)
            return 0
    except ConfigError as error:
        print(f"nats-server: {error}", file=sys.stderr)
        return 1
    # Whoever can connect may send these, and they would end a process that does not handle them yet.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2))
    try:
        client_socket = bind(options.host, options.port)
    except ConfigError as error:
        from tidelog.serve.log import open_log

        open_log(options.log).fatal(error.message)
        return 1
    # What is made until the server is ready stays: to look through it again and again would only cost time.
    gc.disable()
    from tidelog.serve.process import run

    return run(invocation, options, client_socket)
