"""The same configuration files through `nats-server -t` and through ours: the same verdict, lines and digest.

Each text is written to a file, tested by the original, and loaded by us in this process. Both must accept it, and
then print the same digest (so they read the same tree), or both refuse it, naming the same lines. Texts that are
judged differently on purpose stand in a table of their own, with the reason, and must stay so.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidelog.base.errors import ConfigError
from tidelog.broker.nkey import Kind, encode_public
from tidelog.serve import flag

TEST_S = 10.0
PASSWORD = "$2a$11$UP3xizk94sWF9SHF/wkklOfBT9jphTGNrhZqz2OHoBdk9yO1kvErG"
USER_KEY = encode_public(Kind.USER, bytes(32))
ACCOUNT_KEY = encode_public(Kind.ACCOUNT, bytes(32))
# Any tree may stand in this place, unread: here the grammar itself is compared.
ANY = "leafnodes { remotes: [ { url: 'nats://a:1', js_cluster_migrate: %s } ] }\n"

ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "SIZE": "2MB", "LIST": "[a, b]", "LOOP": "$LOOP"}


@dataclass(frozen=True)
class Verdict:
    accepts: bool
    digest: str
    lines: frozenset[int]


def verdict(accepts: bool, text: str) -> Verdict:
    digest = re.search(r"sha256:[0-9a-f]+", text)
    named = re.findall(r"main\.conf:(\d+)", text) or re.findall(r"on line (\d+)", text)[:1]
    return Verdict(accepts, digest.group() if digest and accepts else "", frozenset(map(int, named)))


def theirs(argv: list[str], directory: Path) -> Verdict:
    done = subprocess.run(
        [*argv, "-t", "-c", "main.conf"],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=TEST_S,
        check=False,
    )
    return verdict(done.returncode == 0, done.stderr)


def ours(directory: Path) -> Verdict:
    invocation = flag.parse_arguments(["-t", "-c", str(directory / "main.conf")])
    try:
        return verdict(True, flag.tested(flag.load(invocation, ENVIRONMENT)))
    except ConfigError as error:
        return verdict(False, str(error))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "users.conf").write_text("authorization { user: a, password: b }\n")
    (tmp_path / "inner.conf").write_text("inner: 1\nouter: { x: 2 }\n")
    (tmp_path / "bad.conf").write_text("\n\nport = \n")
    return tmp_path


GRAMMAR = [
    "{}",
    "{ a: 1, b: 2; c: 3 }",
    "{ a 1\n b = 2\n c: 3\n }",
    "{ a\n: 1 }",
    "{ a:\n1 }",
    "{ a { b { c { d: e } } } }",
    "{ \"a b\": 1, 'c d': 2 }",
    "{ a: [1 , 2 , 3 ] }",
    "{ a: [\n x\n y,\n\n z\n] }",
    "{ a: [ {b: 1}, {b: 2} ] }",
    "{ a: [ [x], [y, z] ] }",
    "{ a: [] , b: {} }",
    "{ i: -5, k: 1k, kb: 1kb, ki: 1Ki, kib: 1KiB, m: 1m, mb: 1MB, g: 1g, gb: 1gb, t: 1t, e: 1e }",
    "{ f: 1.5, n: -0.25, z: 0.0, small: 0.0000001, large: 123456789012345678901234.5 }",
    "{ a: true, b: YES, c: on, d: False, e: no, f: OFF }",
    "{ a: 127.0.0.1:4222, b: 1.2.3, c: 1k2, d: 10x, e: 1_000 }",
    "{ a: 2026-11-18T12:00:00Z }",
    '{ a: "x\\ty\\n\\x41\\xc3\\xa9\\"\\\\" }',
    "{ a: 'raw \\n', b: bare\\x41word, c: nats://u:p@h:1/x?y#z }",
    '{ a: "one\ntwo" }',
    "{ a: (\n  block ) of\n text\n)\n}",
    "{ a: 1 # comment\n # more\n // other\n b: 2 // end\n }",
    '{ a: é, b: "<&>\\u" }'.replace("\\u", ""),
    "{ a: 1, a: 2, A: 3 }",
    "{ x: 1, a: $x, b { c: $x } }",
    "{ x { y: 1 }, a: $x, l: [ $x ] }",
    "{ a: $SIZE, b: $LIST }",
    f"{{ a: {PASSWORD} }}",
    "{ include inner.conf }",
    "{ include 'inner.conf'\n a: $outer }",
    "{ a: 1/2, b: a/ }",
    # And what neither reads.
    "{ a: [1,2] }",
    "{ a: 1 b: 2 }",
    "{ a: [ x y ] }",
    "{ a: [ x, , y ] }",
    "{ a: , }",
    "{ : 1 }",
    "{ ] }",
    "{ a: 1.5k }",
    "{ a: .5 }",
    "{ a: - }",
    "{ a: 1. }",
    "{ a: 2026-11-18 }",
    "{ a: 2026-02-30T00:00:00Z }",
    "{ a: 99999999999999999999 }",
    '{ a: "\\q" }',
    '{ a: "\\x4" }',
    '{ a: "open }',
    "{ a: 'open }",
    "{ a: (\nopen }",
    "{ a: $nobody }",
    "{\n\n a: $LOOP }",
    "{ include 'none.conf' }",
    "{ include bad.conf }",
    "{ include [x] }",
]

FILES = [
    "port: 4222",
    "port: 4222 # end\nhost: localhost; debug: true, trace: false",
    '{\n  "port": 4222,\n  "debug": true\n}\n',
    "port: 4222\n}\n",
    "listen: 127.0.0.1:4222\nhttp: 8222\nserver_name: n\nclient_advertise: 'h:1'",
    "include 'users.conf'\nport: 1\n",
    "SIZE: 1MB\nmax_payload: $SIZE\n",
    "max_payload: $SIZE\n",
    "max_control_line: 8KB\nmax_pending: 64MB\nmax_connections: 10\nmax_subs: 5\nmax_sub_tokens: 8",
    "ping_interval: '30s'\nping_max: 3\nwrite_deadline: '2s'\nlame_duck_duration: '1m'\nmax_traced_msg_len: 10",
    "log_file: 'x.log'\nlogtime: false\nlog_size_limit: 1MB\nlog_max_num: 3\npid_file: x\nports_file_dir: y",
    "server_tags: [a, b]\nserver_metadata { a: b }\nno_fast_producer_stall: true\nno_header_support: false",
    "authorization { token: t, timeout: 1.5 }",
    f"authorization {{ user: a, password: {PASSWORD} }}",
    f"authorization {{ users: [ {{user: a, password: b}}, {{nkey: {USER_KEY}}} ] }}\nno_auth_user: a",
    "authorization { users: [ {user: a, permissions: {publish: [a.>, b], subscribe: {allow: 'a q', deny: c}}} ] }",
    "authorization { default_permissions { sub: _INBOX.> }, users [ {user: a, connection_types: [STANDARD]} ] }",
    "authorization { users: [ {user: a, permissions {allow_responses: {max: 3, ttl: '1m'}, sub: 'a.*'}} ] }",
    f"accounts {{ A {{ nkey: {ACCOUNT_KEY}, users: [ {{user: a}} ], limits {{ max_conn: 3 }} }}, B {{}} }}",
    "accounts { A { mappings { foo: bar, 'x.*': [ {dest: 'y.$1', weight: 50% } ] } } }\nsystem_account: A",
    "accounts {\n A { exports: [ {stream: 's.>'}, {service: q, accounts: [B]} ] }\n"
    " B { imports: [ {stream: {account: A, subject: 's.>'}, prefix: p} ] }\n}",
    "accounts [A, B]",
    "mappings { a: b }",
    "websocket { port: -1, no_tls: true, compression: true, same_origin: true, headers { X-A: b } }",
    "leafnodes { port: -1, authorization { user: a, password: b }, compression: off }",
    "cluster { name: c, port: -1, routes: ['nats-route://a:1'], no_advertise: true }",
    "gateway { name: c, port: -1, gateways: [ {name: d, url: 'nats://a:1'} ] }",
    "mqtt { port: -1, ack_wait: '1s' }",
    "jetstream { store_dir: x, max_mem: 1GB, max_file: '10G', sync_interval: always }",
    "jetstream: enabled",
    "write_timeout: retry\nfeature_flags { a: true }\nocsp: false\ndisable_sublist_cache: true",
    # Refused by both.
    "",
    "# nothing\n",
    "port\n",
    "port = \n4222",
    "\nport: x",
    "port: 4222 host: a",
    "\n\nbogus: 1",
    "port: 1\nunused_variable: 2",
    "include 'bad.conf'",
    "listen: 'localhost'",
    "listen: 'a:b:c'",
    "http: true",
    "server_name: 'a b'",
    "\nmax_payload: 3GB",
    "max_sub_tokens: 300",
    "ping_interval: 5",
    "ping_interval: '5'",
    "\nlame_duck_duration: '10s'",
    "lame_duck_grace_period: '-1s'",
    "write_timeout: x",
    "debug: 1\n\ntrace: x\nbogus: 2",
    "authorization { user: a, token: b }",
    "authorization { user: a, users: [] }",
    "authorization {\n users: [ {user: a}, {user: a} ] }",
    "authorization { users: [ {\n password: a} ] }".replace("\n", ""),
    "authorization {\n bogus: 1\n}",
    "authorization { timeout: 100 }",
    "authorization {\n users: [ {user: a, permissions: {publish: 'a..b'}} ]\n}",
    "authorization { users: [ {user: a, permissions:\n {publish: {x: y}}} ] }",
    "authorization { users: [ {nkey: UABC} ] }",
    f"authorization {{ users: [ {{nkey: {USER_KEY}, user: a}} ] }}",
    "authorization { users: [ {user: a, clients: [TELEX]} ] }",
    "accounts { '$G' {} }",
    "accounts { A {\n bogus: 1 } }",
    "accounts { A { nkey: x } }",
    "accounts {\n A { users: [ {user: a}, {user: a} ] }\n}",
    "accounts { A { mappings { a: 'b.$2' } } }",
    "accounts { A { mappings {\n a: [ {dest: b, weight: 101 } ] } } }",
    "accounts { A { imports: [ {stream: {account: NONE, subject: a}} ] } }",
    "accounts [A, A]",
    "tls { cert_file: a }",
    "tls { bogus: a }",
    "tls {\n cipher_suites: [x] }",
    "tls { verify: 1 }",
    "tls {\n timeout: x\n}",
    "tls { min_version: '1.1' }",
    "tls { pinned_certs: [xyz] }",
    "websocket { bogus: 1 }",
    "leafnodes { min_version: x }",
    "leafnodes { remotes: x }",
    "cluster { name: 'a b' }",
    "cluster { authorization { token: x } }",
    "cluster {\n ping_interval: '1m' }",
    "mqtt { max_ack_pending: 70000 }",
    "jetstream: maybe",
    "jetstream { cipher: x }",
    "jetstream { bogus: 1 }",
    "server_tags: 5",
    "proxies { trusted: [ {\n key: x} ] }",
    "trusted: [x]",
    "operator: nowhere.jwt",
]

# Refused here although nats-server accepts it, and why.
STRICTER = {
    ANY % "{ a: 10e }": "it does not fit into 64 bits, and wraps there",
    ANY % "{ /a: 1 }": "the slash would be lost",
    "port: 70000": "there is no such port",
    "max_payload: 2MB\nmax_pending: 1MB": "nats-server finds out when it starts",
    "no_auth_user: nobody": "nats-server finds out when it starts",
    "websocket { port: 1 }": "nats-server finds out when it starts",
    "http: 1\nhttps: 2": "nats-server finds out when it starts",
    "system_account: NONE": "nats-server finds out when it starts",
    f"authorization {{ auth_callout {{ issuer: {ACCOUNT_KEY}, auth_users: [a] }}, users: [ {{user: a}} ] }}": "unsafe",
    "resolver: MEMORY": "operator mode is not built",
    "authorization { proxy_required: true }": "unsafe to overlook",
    "proxy_protocol: true": "nobody could connect",
    "tls { ocsp_peer: true }": "unsafe to overlook",
    "jetstream { key: k }": "unsafe to overlook",
}
# Accepted here although nats-server refuses it, and why.
LAXER = {
    "tls { cert_file: none.pem, key_file: none.pem }": "certificates are read by `serve.tls`, not by `load`",
    "tidelog { compat_metrics: true }": "our own",
}


@pytest.mark.parametrize("text", [ANY % tree for tree in GRAMMAR] + FILES)
def test_both_judge_a_file_alike(text: str, directory: Path, peer_argv: list[str]) -> None:
    (directory / "main.conf").write_text(text, encoding="utf-8")
    our, their = ours(directory), theirs(peer_argv, directory)
    assert (our.accepts, our.digest) == (their.accepts, their.digest)
    # Some of its faults have no place; all of ours do.
    assert our.lines == (their.lines or our.lines)
    assert our.accepts or our.lines or not text.strip() or text.startswith("#")


@pytest.mark.parametrize("text", STRICTER, ids=lambda text: STRICTER[text])
def test_what_only_we_refuse(text: str, directory: Path, peer_argv: list[str]) -> None:
    (directory / "main.conf").write_text(text, encoding="utf-8")
    assert not ours(directory).accepts
    assert theirs(peer_argv, directory).accepts


@pytest.mark.parametrize("text", LAXER, ids=lambda text: LAXER[text])
def test_what_only_we_accept(text: str, directory: Path, peer_argv: list[str]) -> None:
    (directory / "main.conf").write_text(text, encoding="utf-8")
    assert ours(directory).accepts
    assert not theirs(peer_argv, directory).accepts


def test_the_tables_hold_good_and_bad_files() -> None:
    assert len(GRAMMAR) + len(FILES) >= 60
    assert len(set(GRAMMAR + FILES)) == len(GRAMMAR) + len(FILES)
