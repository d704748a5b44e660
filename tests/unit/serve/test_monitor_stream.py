"""What the monitor says of streams: /jsz, /varz, /healthz, /accountz and the metrics."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidelog.base.errors import DiskFailed
from tidelog.broker.desk.desk import DeskSettings
from tidelog.log.policy import BALANCED
from tidelog.serve.http import Request, Response
from tidelog.serve.monitor.desk import Monitor, whole
from tidelog.serve.monitor.system import Asker, SystemDesk
from tidelog.serve.options import Options
from tidelog.stream.engine import EngineSettings
from tidelog.stream.surroundings import AccountLimits
from unit.broker.desk.harbor import Harbor
from unit.serve.view_fake import make_monitor

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor(
        limits={"$G": AccountLimits(max_storage=10**6)},
        engine=EngineSettings(max_memory_size=10**9, max_file_size=10**9, policy=BALANCED, domain="hub"),
        desk=DeskSettings(server_name="here", domain="hub"),
    )
    harbor.stream("A", max_bytes=5000)
    harbor.stream("B", storage="memory")
    for _ in range(3):
        harbor.publish("A.x", b"payload")
    harbor.ask("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": {"durable_name": "C", "name": "C"}})
    return harbor


def monitor_of(harbor: Harbor, prefix: str = "") -> Monitor:
    monitor = make_monitor(options=Options(compat_metrics=prefix))
    monitor.state.desk = harbor.desk
    monitor.state.store_path = "/data/jetstream"
    monitor.state.options = replace(monitor.state.options)
    return monitor


def ask(monitor: Monitor, path: str, **query: str) -> Response:
    answer = monitor.answer(Request("GET", path, query))
    return answer if isinstance(answer, Response) else whole(answer)


def read(harbor: Harbor, path: str, **query: str) -> Any:
    return json.loads(ask(monitor_of(harbor), path, **query).body)


def test_jsz_counts_everything(harbor: Harbor) -> None:
    found = read(harbor, "/jsz")
    assert (found["streams"], found["consumers"], found["messages"], found["total"]) == (2, 1, 3, 1)
    assert found["bytes"] == found["storage"] > 0
    assert (found["reserved_memory"], found["reserved_storage"]) == (0, 5000)
    assert found["config"]["store_dir"] == "/data/jetstream"
    assert found["config"]["sync_interval"] == 10**9
    assert found["config"]["domain"] == "hub"
    assert found["api"]["total"] == 3
    assert "account_details" not in found
    assert "disabled" not in found


@pytest.mark.parametrize(
    ("query", "accounts", "streams", "consumers", "config"),
    [
        ({"accounts": "1"}, 1, 0, 0, False),
        ({"accounts": "1", "offset": "1"}, 0, 0, 0, False),
        ({"streams": "1"}, 1, 2, 0, False),
        ({"acc": "$G"}, 1, 0, 0, False),
        ({"acc": "other"}, 0, 0, 0, False),
        ({"acc": "$G", "consumers": "1", "config": "1"}, 1, 2, 1, True),
    ],
)
def test_jsz_shows_what_is_asked_for(
    harbor: Harbor, query: dict[str, str], accounts: int, streams: int, consumers: int, config: bool
) -> None:
    details = read(harbor, "/jsz", **query).get("account_details", [])
    assert len(details) == accounts
    shown = [stream for account in details for stream in account.get("stream_detail", [])]
    assert len(shown) == streams
    asked = [consumer for stream in shown for consumer in stream.get("consumer_detail", [])]
    assert len(asked) == consumers
    assert all(("config" in each) == config for each in shown + asked)


def test_an_account_has_its_limits(harbor: Harbor) -> None:
    (detail,) = read(harbor, "/jsz", acc="$G")["account_details"]
    assert (detail["reserved_storage"], detail["reserved_memory"]) == (10**6, 2**64 - 1)


def test_varz_and_accountz_know_of_streams(harbor: Harbor) -> None:
    found = read(harbor, "/varz")["jetstream"]
    assert found["stats"]["accounts"] == 1
    assert found["config"]["max_memory"] == 10**9
    assert read(harbor, "/accountz", acc="$G")["account_detail"]["jetstream_enabled"]
    assert not read(harbor, "/accountz", acc="$SYS")["account_detail"]["jetstream_enabled"]


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ({}, 200, ""),
        ({"account": "$G", "stream": "A", "consumer": "C"}, 200, ""),
        ({"account": "X"}, 404, 'JetStream account "X" not found'),
        ({"account": "$G", "stream": "X"}, 404, 'JetStream stream "X" not found on account "$G"'),
        (
            {"account": "$G", "stream": "A", "consumer": "X"},
            404,
            'JetStream consumer "X" not found for stream "A" on account "$G"',
        ),
    ],
)
def test_health_may_be_asked_of_one(harbor: Harbor, query: dict[str, str], status: int, error: str) -> None:
    response = ask(monitor_of(harbor), "/healthz", **query)
    assert response.status == status
    assert json.loads(response.body).get("error", "") == error


def test_a_stream_that_takes_nothing_is_unhealthy(harbor: Harbor) -> None:
    stream = harbor.engine.accounts["$G"].find("A")
    stream.log.committer.fail(DiskFailed("sync", "log", OSError(5, "gone")))
    harbor.engine.failures = {"$G/streams/Z": "damaged"}
    found = ask(monitor_of(harbor), "/healthz", details="1")
    assert found.status == 503
    errors = [fault["error"] for fault in json.loads(found.body)["errors"]]
    assert errors[0] == "JetStream stream '$G > Z' could not be recovered"
    assert errors[1].startswith("JetStream stream '$G > A' write error: ")
    assert ask(monitor_of(harbor), "/healthz", account="$G", stream="B").status == 200
    assert ask(monitor_of(harbor), "/healthz", **{"js-enabled-only": "1"}).status == 200


def test_the_system_account_may_ask(harbor: Harbor) -> None:
    desk = SystemDesk(monitor_of(harbor))

    def answer(subject: str, body: bytes = b"") -> Any:
        return json.loads(desk.answer(f"$SYS.REQ.{subject}", body, Asker("$SYS")) or b"{}")

    found = answer("SERVER.PING.JSZ", b'{"streams": true, "leader_only": true}')
    assert found["server"]["jetstream"]
    assert len(found["data"]["account_details"][0]["stream_detail"]) == 2
    assert answer("ACCOUNT.$G.JSZ")["data"]["name"] == "$G"
    assert answer("ACCOUNT.X.JSZ")["error"]["description"] == 'account "X" not found'
    assert answer("SERVER.PING")["statsz"]["jetstream"]["stats"]["api"]["total"] == 3
    assert answer("ACCOUNT.$G.INFO")["data"]["jetstream_enabled"]


def test_metrics_are_exposed_and_documented(harbor: Harbor) -> None:
    text = ask(monitor_of(harbor, "gnatsd_"), "/metrics").body.decode()
    labels = '{account="$G",stream="A"}'
    assert f"tidelog_stream_messages{labels} 3.0" in text
    assert f"tidelog_stream_writable{labels} 1.0" in text
    assert re.search(rf"tidelog_stream_unsynced_bytes{re.escape(labels)} [1-9]", text)
    assert 'tidelog_stream_sync_seconds_bucket{account="$G",le="+Inf",stream="A"} ' in text
    assert 'tidelog_consumer_pending{account="$G",consumer="C",stream="A"} 3.0' in text
    assert "tidelog_api_requests_total 3.0" in text
    assert re.search(r'jetstream_stream_total_messages\{[^}]*stream_name="A"[^}]*\} 3.0', text)
    assert re.search(r'jetstream_consumer_num_pending\{[^}]*consumer_name="C"[^}]*\} 3.0', text)
    section = REFERENCE.read_text(encoding="utf-8").partition("## Streams and consumers")[2]
    # Those of the cold tier: test_cold_store.
    section = section.partition("## The cold tier")[0]
    documented = dict(re.findall(r"^\| `(tidelog_\w+)` \| (\w+) \|", section, re.M))
    kinds = re.findall(r"^# TYPE (tidelog_(?:stream|consumer|api|storage)\w*) (\w+)$", text, re.M)
    assert documented == dict(kinds)
