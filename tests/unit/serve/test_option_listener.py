from typing import Any

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import Node, parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_listener import (
    check_gateway,
    check_mqtt,
    read_cluster,
    read_leafnodes,
    read_websocket,
)
from tidelog.serve.options import CertificatePair, LeafnodeSettings, TlsSettings, WebsocketSettings

READERS = {
    "websocket": read_websocket,
    "leafnodes": read_leafnodes,
    "cluster": read_cluster,
    "gateway": check_gateway,
    "mqtt": check_mqtt,
}


def read(block: str, text: str, findings: Findings | None = None) -> Any:
    findings = findings or Findings()
    node: Node = parse_text(f"x {{ {text} }}", {}, "f")["x"]
    found = READERS[block](node, findings)
    findings.finish()
    return found


def fault(block: str, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(block, text)
    return caught.value.message


def test_websocket() -> None:
    text = """
        listen: "127.0.0.1:8080", no_tls: true, same_origin: true, allowed_origins: ["https://a:1", "http://b"]
        handshake_timeout: "1s", compression: true, no_auth_user: n, jwt_cookie: "", user_cookie: u, pass_cookie: p
        token_cookie: t, headers { X-B: "2", X-A: "1" }, ping_interval: "10s", advertise: "c:1"
        authorization { user: u, password: w, token: k, timeout: 3 }
    """
    assert read("websocket", text) == WebsocketSettings(
        host="127.0.0.1",
        port=8080,
        advertise="c:1",
        no_tls=True,
        same_origin=True,
        allowed_origins=("https://a:1", "http://b"),
        handshake_timeout_s=1.0,
        compression=True,
        user="u",
        password="w",
        token="k",
        auth_timeout_s=3.0,
        no_auth_user="n",
        user_cookie="u",
        pass_cookie="p",
        token_cookie="t",
        headers=(("X-A", "1"), ("X-B", "2")),
        ping_interval_s=10.0,
    )


def test_websocket_with_tls() -> None:
    settings = read("websocket", "port: 1, tls { cert_file: c, key_file: k }")
    assert settings.tls == TlsSettings((CertificatePair("c", "k"),))


def test_leafnodes() -> None:
    text = """
        listen: 7422, advertise: a, compression: on, min_version: "2.10.0", reconnect: "1s", isolate: false
        authorization { users: [ {user: a, password: b, account: c}, {user: d} ], timeout: 1 }
    """
    assert read("leafnodes", text) == LeafnodeSettings(port=7422, advertise="a")


def test_remotes_are_checked_and_warned_about() -> None:
    findings = Findings()
    text = """remotes: [ {
        urls: ["nats://a:1", "nats://b:2"], account: A, credentials: c, deny_imports: [x], hub: true
        compression { mode: s2_auto, rtt_thresholds: ["10ms", "50ms"] }, proxy { url: "http://p:1", timeout: "5s" }
    } ]"""
    read("leafnodes", text, findings)
    assert findings.warnings == ["f:1:5: 'remotes' of leafnodes is accepted but not yet built"]


def test_cluster() -> None:
    text = """
        name: c, host: h, port: -1, routes: ["nats-route://a:1"], no_advertise: true, connect_retries: 3
        authorization { user: u, password: p, timeout: 1 }, pool_size: 3, accounts: [A], compression: off
        permissions { import: x, export: y }, ping_interval: "10s", tls { cert_file: c, key_file: k }
    """
    found = read("cluster", text)
    assert found == {
        "name": "c",
        "host": "h",
        "port": -1,
        "routes": ("nats-route://a:1",),
        "no_advertise": True,
        "connect_retries": 3,
        "user": "u",
        "password": "p",
    }


def test_doubts_of_the_cluster() -> None:
    findings = Findings()
    read("cluster", "ping_interval: '1m', authorization { user: a, permissions { publish: x } }", findings)
    assert findings.doubts == [
        "f:1:5: Cluster 'ping_interval' will reset to 30s which is the max for routes",
        'f:1:26: invalid use of field "authorization": setting "permissions" within cluster authorization '
        "block is deprecated",
    ]


def test_gateway_and_mqtt_are_checked_for_shape() -> None:
    read(
        "gateway",
        "name: g, port: 1, gateways: [ {name: a, urls: ['nats://a:1']}, {name: b, url: 'nats://b:1'} ]",
    )
    read("mqtt", "port: 1, ack_wait: '1s', max_ack_pending: 100, authorization { user: a, timeout: 1 }")


@pytest.mark.parametrize(
    ("block", "text", "message"),
    [
        ("websocket", "port: 1", "websocket requires TLS configuration"),
        ("websocket", "bogus: 1", 'unknown field "bogus"'),
        ("websocket", "compression: x", "Expected a boolean, got string"),
        ("websocket", "handshake_timeout: true", "error parsing handshake timeout: unsupported type bool"),
        ("websocket", "headers { host: x }", 'websocket: invalid header "host" not allowed'),
        ("websocket", "headers { Sec-WebSocket-X: x }", 'websocket: invalid header "Sec-WebSocket-X", "Sec-'),
        ("websocket", "headers: x", "error parsing headers: unsupported type string"),
        ("websocket", "origins: [ftp]", 'unable to parse allowed origin "ftp": allowed origins must be'),
        ("websocket", "origins: ['http://']", 'unable to parse allowed origin "http://": host is required'),
        (
            "websocket",
            "port: 1, no_tls: true, jwt_cookie: j",
            "trusted operators or trusted keys configuration",
        ),
        ("leafnodes", "min_version: x", "invalid leafnode's minimum version: invalid semver"),
        ("leafnodes", "min_version: '2.7.9'", "the minimum version should be at least 2.8.0"),
        (
            "leafnodes",
            "authorization { user: a, users: [ {user: b} ] }",
            "can not have a single user/pass and",
        ),
        ("leafnodes", "authorization { users: [ {user: b}, {user: b} ] }", 'duplicate user "b" detected'),
        ("leafnodes", "remotes: x", "Expected remotes field to be an array, got string"),
        ("leafnodes", "remotes: [ {x: 1} ]", 'unknown field "x"'),
        (
            "leafnodes",
            "remotes: [ {js_cluster_migrate: 1} ]",
            "Expected boolean or map for jetstream_cluster",
        ),
        ("leafnodes", "compression: 1 ", 'field "compression" should be a boolean or a structure, got int64'),
        ("cluster", "name: 'a b'", "cluster name cannot contain spaces"),
        ("cluster", "routes: ['a:x']", 'error parsing route url ["a:x"]'),
        ("cluster", "routes: ['nats://a:x']", 'error parsing route url ["nats://a:x"]'),
        ("cluster", "authorization { users: [] }", "Cluster authorization does not allow multiple users"),
        ("cluster", "authorization { token: a }", "Cluster authorization does not support tokens"),
        ("cluster", "write_timeout: x", "write_timeout must be 'default', 'close' or 'retry'"),
        ("gateway", "name: 'a b'", "gateway name cannot contain spaces"),
        ("gateway", "gateways: x", "Expected gateways field to be an array, got string"),
        ("mqtt", "max_inflight: 70000 ", "invalid value 70000, should in [0..65535] range"),
    ],
)
def test_faults(block: str, text: str, message: str) -> None:
    assert fault(block, text).startswith(message)


@pytest.mark.parametrize("block", READERS)
def test_blocks_are_maps(block: str) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        READERS[block](Node("x", "", 1, 1), Findings())
