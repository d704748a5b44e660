"""What `--help` and `--help_tls` print. `{name}` is what the program was called by."""

from tidelog.serve.option_tls import CURVES, SAFE_CIPHERS, UNSAFE_CIPHERS

HELP = """\
Usage: {name} [options]

Server
    -a, --addr, --net <host>         listen on this address (default 0.0.0.0)
    -p, --port <port>                listen on this port (default 4222; -1: any free port)
    -n, --name, --server_name <name> what the server calls itself (default: its id)
    -c, --config <file>              read this configuration; flags win over it
    -t                               check the configuration and exit
    -P, --pid <file>                 write the process id into this file
        --ports_file_dir <dir>       write the ports in use into <dir>/<program>_<pid>.ports
        --client_advertise <address> the address that clients are told to come back to
    -m, --http_port <port>           serve monitoring over HTTP
    -ms, --https_port <port>         serve monitoring over HTTPS
    -sl, --signal <signal>[=<pid>]   send ldm, stop, quit, term, reopen or reload to a running server;
                                     <pid> is a process id or a file that holds one

Log
    -l, --log <file>                 write the log into this file
        --log_size_limit <bytes>     start a new file at this size
    -T, --logtime                    begin lines with the time (default true)
        --logtime_utc                ... in UTC
    -s, --syslog                     write the log to syslog
    -r, --remote_syslog <address>    ... to a remote one, such as udp://localhost:514
    -D, --debug                      log what the server does
    -V, --trace                      log every protocol line
    -VV, -DV, -DVV                   trace the system account, too; debug and trace; both
        --max_traced_msg_len <bytes> cut traced messages at this length

Streams (accepted, not built yet)
    -js, --jetstream                 enable JetStream
    -sd, --store_dir <dir>           where streams are kept

Who may come in
        --user <name>                one user ...
        --pass <password>            ... and its password
        --auth <token>               a token instead

TLS
        --tls                        speak TLS
        --tlscert <file>             the server's certificate
        --tlskey <file>              its key
        --tlsverify                  want certificates from clients, and verify them
        --tlscacert <file>           ... with this authority

Cluster (accepted, not built)
        --cluster, --cluster_listen <url>  --cluster_name <name>  --cluster_advertise <address>
        --routes <url,...>  --no_advertise  --connect_retries <number>  --profile <port>

Other
    -h, --help                       this text
        --help_tls                   what can stand in a tls block
    -v, --version                    the version
"""

HELP_TLS = """\
A tls block in the configuration:

    tls {{
        cert_file: "server-cert.pem"
        key_file:  "server-key.pem"
        ca_file:   "ca.pem"        # verify clients against this authority
        verify:    true            # ... and refuse those without a certificate
        timeout:   "2s"
        handshake_first: auto      # or true, false, or how long to wait for one, as in "300ms"
    }}

cipher_suites may hold
{ciphers}

and with allow_insecure_cipher_suites
{unsafe_ciphers}

curve_preferences may hold
{curves}
"""


def help_text(name: str) -> str:
    return HELP.format(name=name)


def help_tls_text() -> str:
    def listed(names: frozenset[str]) -> str:
        return "\n".join(f"    {name}" for name in sorted(names))

    return HELP_TLS.format(
        ciphers=listed(SAFE_CIPHERS), unsafe_ciphers=listed(UNSAFE_CIPHERS), curves=listed(CURVES)
    )
