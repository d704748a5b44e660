"""The desk and the documents that need few words each."""

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from tidelog.base.clock import ManualClock
from tidelog.broker.settings import AccountSettings, Authorization, BrokerSettings, Mapping
from tidelog.broker.view import InterestStats
from tidelog.serve.http import Request, Response
from tidelog.serve.monitor import process
from tidelog.serve.monitor.desk import Monitor, whole
from tidelog.serve.monitor.process import ProcessorMeter, resident_size
from tidelog.serve.monitor.subsz import interest_figures
from tidelog.serve.options import LeafnodeSettings, Options, TlsSettings, WebsocketSettings
from unit.serve.view_fake import NOW_NS, SECOND_NS, FakeAccount, FakeBroker, make_monitor, session

DOCUMENTS = (
    "/varz",
    "/connz",
    "/subsz",
    "/subscriptionsz",
    "/accountz",
    "/accstatz",
    "/healthz",
    "/routez",
    "/leafz",
    "/gatewayz",
    "/jsz",
    "/ipqueuesz",
    "/debug/vars",
)


def ask(monitor: Monitor, path: str, **query: str) -> Response:
    answer = monitor.answer(Request("GET", path, query))
    return answer if isinstance(answer, Response) else whole(answer)


def read(monitor: Monitor, path: str, **query: str) -> Any:
    response = ask(monitor, path, **query)
    assert response.status == 200, response.body
    return json.loads(response.body)


def test_every_document_is_json_that_any_page_may_read() -> None:
    monitor = make_monitor()
    for path in DOCUMENTS:
        response = ask(monitor, path)
        assert (response.status, response.content_type) == (200, "application/json"), path
        assert ("Access-Control-Allow-Origin", "*") in response.headers
        assert isinstance(json.loads(response.body), dict)


def test_requests_are_counted_by_path() -> None:
    monitor = make_monitor()
    for path in ("/varz", "/subsz", "/subscriptionsz", "/", "/nope", "/stacksz"):
        ask(monitor, path)
    ask(monitor, "/connz", sort="xx")
    assert read(monitor, "/varz")["http_req_stats"] == {"/": 1, "/connz": 1, "/subsz": 2, "/varz": 2}


@pytest.mark.parametrize("path", ["/nope", "/varz/", "//varz", "", "varz", "*"])
def test_unknown_paths(path: str) -> None:
    response = ask(make_monitor(), path)
    if path:
        assert (response.status, response.body) == (404, b"404 page not found\n")


def test_base_path() -> None:
    monitor = make_monitor(options=Options(http_base_path="/mon"))
    assert ask(monitor, "/mon/varz").status == 200
    assert b'href="/mon/varz"' in ask(monitor, "/mon").body
    assert ask(monitor, "/mon/").status == 200
    assert ask(monitor, "/varz").status == 404
    assert ask(monitor, "/monvarz").status == 404
    assert read(monitor, "/mon/varz")["http_base_path"] == "/mon"


def test_bad_options_are_told_in_plain_text() -> None:
    response = ask(make_monitor(), "/connz", limit="a")
    assert (response.status, response.content_type) == (400, "text/plain; charset=utf-8")
    assert response.body == b"Error decoding int for 'limit': strconv.Atoi: parsing \"a\": invalid syntax"


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/subsz", "subs"),
        ("/subsz", "offset"),
        ("/subsz", "limit"),
        ("/accstatz", "unused"),
        ("/routez", "subs"),
        ("/leafz", "subs"),
        ("/gatewayz", "accs"),
        ("/jsz", "streams"),
        ("/jsz", "limit"),
        ("/jsz", "raft"),
        ("/healthz", "js-enabled-only"),
        ("/healthz", "details"),
        ("/ipqueuesz", "all"),
        ("/connz", "cid"),
    ],
)
def test_options_that_cannot_be_read(path: str, option: str) -> None:
    assert ask(make_monitor(), path, **{option: "x"}).status == 400


def test_index_links_to_every_page_and_escapes_the_name() -> None:
    options = Options(broker=BrokerSettings(server_name="<b>&"))
    body = ask(make_monitor(options=options), "/").body.decode()
    assert "<h1>&lt;b&gt;&amp;</h1>" in body
    monitor = make_monitor()
    for line in body.splitlines():
        if line.startswith("<a href="):
            path = line.split('"')[1]
            assert path == "/raftz" or ask(monitor, path).status == 200


# /varz


def test_varz_counts() -> None:
    broker = FakeBroker(
        open=[session(1, [b"a"]), session(2, [b"b", b"c"])],
        total_connections=7,
        in_msgs=1,
        in_bytes=2,
        out_msgs=3,
        out_bytes=4,
        slow_consumers=5,
        stale_connections=6,
        stalls=8,
    )
    found = read(make_monitor(broker), "/varz")
    expected = {
        "connections": 2,
        "total_connections": 7,
        "subscriptions": 3,
        "slow_consumers": 5,
        "stale_connections": 6,
        "stalled_clients": 8,
        "in_msgs": 1,
        "in_bytes": 2,
        "out_msgs": 3,
        "out_bytes": 4,
        "in_client_msgs": 1,
        "in_client_bytes": 2,
        "out_client_msgs": 3,
        "out_client_bytes": 4,
        "uptime": "1h1m1s",
        "port": 4222,
        "start": "2026-11-18T08:58:59Z",
        "now": "2026-11-18T10:00:00Z",
        "max_payload": 1048576,
        "ping_max": 2,
        "ping_interval": 120 * SECOND_NS,
        "auth_timeout": 2,
        "tls_timeout": 2,
        "http_host": "0.0.0.0",
    }
    assert {key: found[key] for key in expected} == expected
    assert found["slow_consumer_stats"] == {"clients": 5, "routes": 0, "gateways": 0, "leafs": 0}
    assert found["stale_connection_stats"]["clients"] == 6
    for absent in ("auth_required", "tls_required", "tags", "metadata", "git_commit", "connect_urls"):
        assert absent not in found
    for empty in ("cluster", "gateway", "leaf", "mqtt", "websocket", "jetstream"):
        assert found[empty] == {}


def test_varz_tells_the_configuration() -> None:
    broker_settings = BrokerSettings(
        authorization=Authorization(user="u", password="secret", timeout_ns=1_500_000_000),
        tags=("a:b",),
        metadata=(("k", "v"),),
    )
    options = Options(
        broker=broker_settings,
        tls=TlsSettings(verify=True, timeout_s=3),
        http_host="h",
        websocket=WebsocketSettings(port=1, no_tls=True, compression=True, allowed_origins=("o",)),
        leafnode=LeafnodeSettings(port=1),
    )
    monitor = make_monitor(FakeBroker(settings=broker_settings), options)
    monitor.state.websocket_port = 9000
    monitor.state.leafnode_port = 7422
    monitor.state.certificate_end_ns = NOW_NS
    found = read(monitor, "/varz")
    assert found["auth_required"] is found["tls_required"] is found["tls_verify"] is True
    assert (found["auth_timeout"], found["tls_timeout"], found["http_host"]) == (1.5, 3, "h")
    assert (found["tags"], found["metadata"]) == (["a:b"], {"k": "v"})
    assert found["websocket"] == {
        "host": "0.0.0.0",
        "port": 9000,
        "handshake_timeout": 2 * SECOND_NS,
        "no_tls": True,
        "allowed_origins": ["o"],
        "compression": True,
    }
    assert found["leaf"] == {"host": "0.0.0.0", "port": 7422, "auth_timeout": 2, "tls_timeout": 2}
    assert found["tls_cert_not_after"] == "2026-11-18T10:00:00Z"
    assert "secret" not in json.dumps(found)


def test_tls_that_is_not_required() -> None:
    options = Options(tls=TlsSettings(), allow_non_tls=True)
    assert "tls_required" not in read(make_monitor(options=options), "/varz")


def test_processor_meter_reads_shares_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter((3.0, 3.5))
    monkeypatch.setattr(process, "processor_seconds", lambda: next(used))
    clock = ManualClock(NOW_NS)
    meter = ProcessorMeter(clock)
    assert meter.read() == 0
    clock.advance(seconds=4)
    assert meter.read() == 75.0
    clock.advance(seconds=0.5)
    assert meter.read() == 75.0
    clock.advance(seconds=0.5)
    assert meter.read() == 50.0


def test_resident_size() -> None:
    assert 5_000_000 < resident_size() < 2_000_000_000


# /subsz


class StatsBroker(FakeBroker):
    def accounts(self) -> list[FakeAccount]:
        stats = {
            "A": InterestStats(
                3,
                cached_routes=2,
                inserts=4,
                removes=1,
                matches=10,
                cache_hits=5,
                max_fanout=2,
                total_fanout=3,
            ),
            "B": InterestStats(
                1,
                cached_routes=2,
                inserts=1,
                removes=0,
                matches=10,
                cache_hits=10,
                max_fanout=1,
                total_fanout=1,
            ),
        }
        return [replace(account, stats=stats[account.name]) for account in super().accounts()]


SUBSCRIBED = StatsBroker(
    open=[session(1, [b"a.*", b"b"], account_name="A"), session(2, [b"a.x"], account_name="B")],
    account_names=("A", "B"),
)


def test_subsz_adds_the_accounts_up() -> None:
    found = read(make_monitor(SUBSCRIBED), "/subsz")
    assert found["num_subscriptions"] == 4
    assert (found["cache_hit_rate"], found["max_fanout"], found["avg_fanout"]) == (0.75, 2, 1)
    assert (found["total"], found["offset"], found["limit"]) == (0, 0, 1024)
    assert "subscriptions_list" not in found
    assert read(make_monitor(SUBSCRIBED), "/subsz", acc="B")["num_inserts"] == 1


def test_subsz_lists_tests_and_pages() -> None:
    monitor = make_monitor(SUBSCRIBED)
    found = read(monitor, "/subsz", subs="1")
    assert [(sub["account"], sub["subject"], sub["cid"]) for sub in found["subscriptions_list"]] == [
        ("A", "a.*", 1),
        ("A", "b", 1),
        ("B", "a.x", 2),
    ]
    assert found["total"] == 3
    tested = read(monitor, "/subsz", subs="1", test="a.x")
    assert [sub["subject"] for sub in tested["subscriptions_list"]] == ["a.*", "a.x"]
    second = read(monitor, "/subsz", subs="1", offset="1", limit="1")
    assert [sub["subject"] for sub in second["subscriptions_list"]] == ["b"]
    assert second["total"] == 3
    wild = ask(monitor, "/subsz", test="a.*")
    assert (wild.status, wild.body) == (400, b"invalid test subject, must be valid publish subject: a.*")


def test_interest_of_nothing() -> None:
    figures = interest_figures([])
    assert (figures.cache_hit_rate, figures.avg_fanout, figures.max_fanout) == (0, 0, 0)


# /accountz, /accstatz


def test_accountz() -> None:
    mappings = (Mapping("src", "one", 60), Mapping("src", "two", 40))
    settings = BrokerSettings(accounts=(AccountSettings("A", mappings=mappings),))
    broker = FakeBroker(
        open=[session(1, [b"a"], account_name="A")], account_names=("A", "$SYS"), settings=settings
    )
    monitor = make_monitor(broker)
    listed = read(monitor, "/accountz")
    assert (listed["accounts"], listed["system_account"]) == (["$SYS", "A"], "$SYS")
    assert "account_detail" not in listed
    detail = read(monitor, "/accountz", acc="A")["account_detail"]
    assert detail["mappings"] == {"src": [{"subject": "one", "weight": 60}, {"subject": "two", "weight": 40}]}
    assert (detail["client_connections"], detail["subscriptions"], detail["name_tag"]) == (1, 1, "A")
    assert "is_system" not in detail
    assert read(monitor, "/accountz", acc="$SYS")["account_detail"]["is_system"] is True
    unknown = ask(monitor, "/accountz", acc="zz")
    assert (unknown.status, unknown.body) == (400, b"Account zz does not exist")


def test_accstatz_leaves_unused_accounts_out() -> None:
    monitor = make_monitor(FakeBroker(open=[session(1, [b"a"])]))
    assert [account["acc"] for account in read(monitor, "/accstatz")["account_statz"]] == ["$G"]
    every = read(monitor, "/accstatz", unused="1")["account_statz"]
    assert [account["acc"] for account in every] == ["$G", "$SYS"]
    assert (every[0]["conns"], every[0]["total_conns"], every[0]["num_subscriptions"]) == (1, 1, 1)


# /healthz and the rest


def test_healthz() -> None:
    monitor = make_monitor()
    assert ask(monitor, "/healthz").body == b'{"status":"ok"}'
    monitor.state.unready = ("server", "websocket")
    sick = ask(monitor, "/healthz")
    assert sick.status == 500
    assert json.loads(sick.body) == {
        "status": "error",
        "error": "failed to be ready for connections: server, websocket",
    }
    detailed = json.loads(ask(monitor, "/healthz", details="1").body)
    assert detailed["errors"][0]["type"] == "CONNECTION"


@pytest.mark.parametrize(
    ("query", "missing"), [({"stream": "s"}, "account"), ({"account": "a", "consumer": "c"}, "stream")]
)
def test_healthz_asked_by_halves(query: dict[str, str], missing: str) -> None:
    response = ask(make_monitor(), "/healthz", **query)
    assert response.status == 400
    assert json.loads(response.body)["error"].startswith(f'"{missing}" must not be empty')


def test_jsz_is_disabled() -> None:
    found = read(make_monitor(), "/jsz", streams="1", consumers="1")
    assert found["disabled"] is True
    assert found["config"] == {"max_memory": 0, "max_storage": 0}
    assert ask(make_monitor(), "/jsz", **{"leader-only": "1"}).status == 400


def test_raftz_has_nothing() -> None:
    response = ask(make_monitor(), "/raftz")
    assert (response.status, response.body) == (404, b"No Raft nodes registered")


def test_stacksz_shows_where_the_threads_are() -> None:
    assert b"test_stacksz_shows_where_the_threads_are" in ask(make_monitor(), "/stacksz").body


def test_expvar_hides_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["nats-server", "--pass", "secret"])
    assert read(make_monitor(), "/debug/vars")["cmdline"] == ["nats-server"]
