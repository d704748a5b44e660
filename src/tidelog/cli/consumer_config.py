"""`tidelog consumer add`, `edit` and `copy`: what a consumer is."""

import json
from pathlib import Path
from typing import Any

import click

from tidelog.cli import output
from tidelog.cli.duration import DURATION
from tidelog.cli.field import Field, given, merged, options
from tidelog.cli.jetstream import (
    AFTER,
    BEFORE,
    DURATION_NS,
    PAIR,
    SECOND_NS,
    SIZE,
    confirm,
    json_option,
    opened,
    read_config,
)
from tidelog.cli.stream_config import tell_differences
from tidelog.cli.target import connection_options
from tidelog.client.jetstream import ConsumerInfo

POLICIES = {"all": "all", "new": "new", "last": "last", "subject": "last_per_subject"}
ACKS = {"none": "none", "all": "all", "explicit": "explicit", "flow_control": "flow_control"}
REPLAYS = {"instant": "instant", "original": "original"}

FIELDS = (
    Field("--description", "description", "What it is for."),
    Field(
        "--filter", "filter_subjects", "Only these subjects; may be repeated, or have commas.", several=True
    ),
    Field("--ack", "ack_policy", "What is acknowledged.", names=ACKS, when="add"),
    Field("--wait", "ack_wait", "How long an acknowledgement is waited for.", DURATION_NS),
    Field("--max-deliver", "max_deliver", "Deliveries of a message at most.", int),
    Field("--max-pending", "max_ack_pending", "Unacknowledged messages at most.", int),
    Field("--max-waiting", "max_waiting", "Requests waiting at most.", int, when="add"),
    Field("--max-pull-batch", "max_batch", "Messages of a request at most.", int),
    Field("--max-pull-bytes", "max_bytes", "Bytes of a request at most.", SIZE),
    Field("--max-pull-expire", "max_expires", "Time of a request at most.", DURATION_NS),
    Field("--replay", "replay_policy", "As fast as possible, or as they came.", names=REPLAYS, when="add"),
    Field("--target", "deliver_subject", "Push to this subject."),
    Field("--deliver-group", "deliver_group", "Push to members of this queue group.", when="add"),
    Field("--flow-control", "flow_control", "Of a push consumer.", bool, when="add"),
    Field("--heartbeat", "idle_heartbeat", "Of a push consumer.", DURATION_NS, when="add"),
    Field("--headers-only", "headers_only", "Without payloads.", bool),
    Field("--bps", "rate_limit_bps", "Bits per second at most.", int),
    Field("--inactive-threshold", "inactive_threshold", "Goes when idle for so long.", DURATION_NS),
    Field("--memory", "mem_storage", "State in memory.", bool, when="add"),
    Field("--replicas", "num_replicas", "Copies, in a cluster.", int),
    Field("--metadata", "metadata", "Anything; may be repeated.", PAIR, several=True),
    Field("--pause", "pause_until", "Deliver nothing until then.", AFTER, when="add"),
    Field("--pinned-ttl", "priority_timeout", "When a pinned client has gone.", DURATION_NS),
)
GROUPS = {
    "pinned_groups": "pinned_client",
    "overflow_groups": "overflow",
    "prioritized_groups": "prioritized",
}
group_options = [
    click.option("--pinned-groups", multiple=True, help="Groups of which one client gets all."),
    click.option("--overflow-groups", multiple=True, help="Groups that help when there is much."),
    click.option("--prioritized-groups", multiple=True, help="Groups whose clients have priorities."),
]


def deliver(text: str) -> dict[str, Any]:
    """`all`, `new`, `last`, `subject`, a sequence, a time, or how long ago."""
    if text in POLICIES:
        return {"deliver_policy": POLICIES[text]}
    if text.isdigit():
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(text)}
    return {"deliver_policy": "by_start_time", "opt_start_time": BEFORE.convert(text, None, None)}


def steps(low_s: float, high_s: float, count: int) -> list[int]:
    """From the lowest to the highest, evenly."""
    gap_s = (high_s - low_s) / (count - 1) if count > 1 else 0.0
    return [round((low_s + gap_s * number) * SECOND_NS) for number in range(count)]


@click.command()
@click.argument("stream", metavar="STREAM")
@click.argument("name", metavar="CONSUMER", required=False)
@options(FIELDS, "add")
@click.option("--pull", is_flag=True, help="Messages are asked for; so it is unless there is a --target.")
@click.option(
    "--deliver", "start", default="", metavar="START", help="all, new, last, subject, SEQ, TIME or 1h."
)
@click.option("--ephemeral", is_flag=True, help="Goes when nobody needs it.")
@click.option("--sample", type=click.IntRange(0, 100), help="Percentage of acknowledgements to tell of.")
@click.option("--backoff", type=click.Choice(["none", "linear"]), default="none", help="Growing waits.")
@click.option("--backoff-steps", default=10, type=click.IntRange(min=1), help="How many.")
@click.option("--backoff-min", default="1m", type=DURATION, help="The first of them.")
@click.option("--backoff-max", default="20m", type=DURATION, help="The last of them.")
@group_options[0]
@group_options[1]
@group_options[2]
@click.option(
    "--config", "config_path", type=click.Path(dir_okay=False), help="JSON file with the configuration."
)
@click.option(
    "--output", "output_path", type=click.Path(dir_okay=False), help="Write the configuration there instead."
)
@click.option("--defaults", is_flag=True, help="Nothing is asked in any case; known to the `nats` command.")
@json_option
@connection_options
def add(stream: str, name: str | None, output_path: str | None, as_json: bool, **flags: Any) -> None:
    """Make a consumer; it pulls unless there is a --target."""
    config = flagged(flags)
    name = name or config.get("durable_name") or config.get("name")
    if not name and not flags["ephemeral"]:
        raise click.UsageError("CONSUMER is missing (or --ephemeral).")
    if name:
        config["name"] = name
        if not flags["ephemeral"]:
            config["durable_name"] = name
    pushes = bool(config.get("deliver_subject"))
    if pushes and flags["pull"]:
        raise click.UsageError("--pull and --target exclude each other.")
    config.setdefault("ack_policy", "none" if pushes else "explicit")
    if output_path:
        Path(output_path).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        return
    with opened() as js:
        made = js.create_consumer(stream, config, action="create")
    show(made, as_json=as_json)


def flagged(flags: dict[str, Any]) -> dict[str, Any]:
    """What the flags of `add` say, over the file's."""
    changes = filtered(given(FIELDS, flags))
    if flags["start"]:
        changes |= deliver(flags["start"])
    if flags["sample"] is not None:
        changes["sample_freq"] = f"{flags['sample']}%"
    if flags["backoff"] == "linear":
        changes["backoff"] = steps(flags["backoff_min"], flags["backoff_max"], flags["backoff_steps"])
        changes.setdefault("max_deliver", flags["backoff_steps"] + 1)
    for key, policy in GROUPS.items():
        if flags[key]:
            changes |= {"priority_groups": list(flags[key]), "priority_policy": policy}
    return merged(read_config(flags["config_path"]), changes) if flags["config_path"] else changes


def filtered(changes: dict[str, Any]) -> dict[str, Any]:
    """One filter has a field of its own."""
    subjects = changes.get("filter_subjects")
    if subjects is not None and len(subjects) == 1:
        changes["filter_subject"] = changes.pop("filter_subjects")[0]
    return changes


@click.command()
@click.argument("stream", metavar="STREAM")
@click.argument("name", metavar="CONSUMER")
@options(FIELDS, "edit")
@click.option(
    "--config", "config_path", type=click.Path(dir_okay=False), help="JSON file with the configuration."
)
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@click.option("--force", "-f", is_flag=True, help="Do not ask.")
@json_option
@connection_options
def edit(
    stream: str, name: str, config_path: str | None, dry_run: bool, force: bool, as_json: bool, **flags: Any
) -> None:
    """Change the configuration of a consumer."""
    changes = filtered(given(FIELDS, flags))
    with opened() as js:
        before = js.consumer_info(stream, name).config
        after = merged(before, merged(read_config(config_path), changes) if config_path else changes)
        # The other of the two fields for filters would contradict.
        if "filter_subject" in changes:
            after.pop("filter_subjects", None)
        elif "filter_subjects" in changes:
            after.pop("filter_subject", None)
        if not tell_differences(before, after, as_json=as_json) or dry_run:
            return
        confirm(f"Change consumer {name} of {stream}", force=force)
        show(js.create_consumer(stream, after, action="update"), as_json=as_json)


@click.command()
@click.argument("stream", metavar="STREAM")
@click.argument("source", metavar="SOURCE")
@click.argument("name", metavar="CONSUMER")
@options(FIELDS, "add")
@json_option
@connection_options
def copy(stream: str, source: str, name: str, as_json: bool, **flags: Any) -> None:
    """Make a consumer with the configuration of another."""
    with opened() as js:
        config = merged(js.consumer_info(stream, source).config, filtered(given(FIELDS, flags)))
        config |= {"name": name} | ({"durable_name": name} if "durable_name" in config else {})
        show(js.create_consumer(stream, config, action="create"), as_json=as_json)


def show(info: ConsumerInfo, *, as_json: bool) -> None:
    if as_json:
        output.write_json(info.document)
        return
    from tidelog.cli.consumer import show_info

    show_info(info, as_json=False)
