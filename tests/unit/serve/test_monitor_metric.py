"""/metrics: what is exposed parses, agrees with the broker, and is documented."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidelog.serve.http import Request, Response
from tidelog.serve.options import Options
from unit.serve.view_fake import NOW_NS, FakeBroker, make_monitor, session

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"

BROKER = FakeBroker(
    open=[
        session(1, [b"a"], pending_size=3, in_msgs=4, account_name="A"),
        session(2, [b"b", b"c"], pending_size=4, in_msgs=5),
    ],
    account_names=("A", "$G"),
    in_msgs=11,
    in_bytes=12,
    out_msgs=13,
    out_bytes=14,
    total_connections=9,
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(prefix: str = "") -> tuple[Samples, dict[str, str]]:
    """Samples by name and labels, and kinds by name."""
    monitor = make_monitor(BROKER, Options(compat_metrics=prefix))
    response = monitor.answer(Request("GET", "/metrics", {}))
    assert isinstance(response, Response)
    assert response.status == 200
    assert response.content_type.startswith("text/plain; version=0.0.4")
    samples: Samples = {}
    kinds = {}
    for family in text_string_to_metric_families(response.body.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples
            samples[key] = sample.value
            kinds[sample.name] = family.type
    return samples, kinds


def test_figures_are_those_of_the_broker() -> None:
    samples, kinds = scrape()
    assert samples["tidelog_received_messages_total", ()] == 11
    assert samples["tidelog_sent_bytes_total", ()] == 14
    assert samples["tidelog_connections", ()] == 2
    assert samples["tidelog_connections_accepted_total", ()] == 9
    assert samples["tidelog_subscriptions", ()] == 3
    assert samples["tidelog_pending_bytes", ()] == 7
    assert samples["tidelog_ready", ()] == 1
    assert samples["tidelog_config_load_time_seconds", ()] == NOW_NS / 1e9
    assert samples["tidelog_account_subscriptions", (("account", "A"),)] == 1
    assert samples["tidelog_account_connections", (("account", "$G"),)] == 1
    assert kinds["tidelog_received_messages_total"] == "counter"
    assert kinds["tidelog_connections"] == "gauge"


def test_names_say_what_they_count() -> None:
    _, kinds = scrape()
    for name, kind in kinds.items():
        assert name.startswith("tidelog_")
        assert (kind == "counter") == name.endswith("_total"), name


def test_other_names_only_on_demand() -> None:
    own = set(scrape()[0])
    both = set(scrape("gnatsd_")[0])
    assert own < both
    assert {re.sub("_.*", "", name) for name, _ in both - own} == {"gnatsd", "jetstream"}


@pytest.mark.parametrize(("prefix", "streams"), [("gnatsd_", "jetstream_"), ("nats_", "nats_")])
def test_exporter_names(prefix: str, streams: str) -> None:
    samples, _ = scrape(prefix)
    labels = (("server_id", "N" * 56),)
    assert samples[f"{prefix}varz_in_msgs", labels] == 11
    assert samples[f"{prefix}varz_connections", labels] == 2
    assert samples[f"{prefix}varz_max_payload", labels] == 1048576
    assert f"{prefix}varz_cpu" in {name for name, _ in samples}
    assert samples[f"{prefix}varz_version", (*labels, ("value", "2.15.0"))] == 1
    assert samples[f"{prefix}connz_pending_bytes", labels] == 7
    assert samples[f"{prefix}connz_in_msgs", labels] == 9
    assert samples[f"{prefix}connz_num_connections", labels] == 2
    assert samples[f"{prefix}subsz_num_subscriptions", labels] == 0
    assert samples[f"{prefix}healthz_status", labels] == 0
    account = (("account", "A"), ("account_id", "A"), ("account_name", "A"), *labels)
    assert samples[f"{prefix}accstatz_current_connections", account] == 1
    assert {name for name, _ in samples if name.startswith(f"{streams}server_")} >= {
        f"{streams}server_jetstream_disabled",
        f"{streams}server_total_streams",
    }


def test_every_number_at_the_top_of_varz_has_an_exporter_name() -> None:
    monitor = make_monitor(BROKER)
    response = monitor.answer(Request("GET", "/varz", {}))
    assert isinstance(response, Response)
    document = json.loads(response.body)
    names = {name for name, _ in scrape("gnatsd_")[0]}
    for key, value in document.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert f"gnatsd_varz_{key}" in names


def test_reference_lists_exactly_our_metrics_with_their_kinds() -> None:
    listed = {
        found["name"]: found["kind"]
        for found in re.finditer(
            r"^\| `(?P<name>tidelog_\w+)` \| (?P<kind>\w+) \|",
            # Those of streams: test_monitor_stream.
            REFERENCE.read_text().partition("## Streams and consumers")[0],
            re.M,
        )
    }
    # The monitor of this test has answered no request before, so the family without samples is added.
    _, kinds = scrape()
    assert listed == {**kinds, "tidelog_http_requests_total": "counter"}
