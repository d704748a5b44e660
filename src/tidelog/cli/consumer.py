"""`tidelog consumer`: consumers of a stream, with the nouns, verbs and flags of the `nats` command."""

from typing import Any

import click

from tidelog.base.errors import Timeout
from tidelog.cli import output
from tidelog.cli.consumer_config import add, copy, edit
from tidelog.cli.duration import DURATION
from tidelog.cli.jetstream import (
    AFTER,
    age_text,
    confirm,
    console,
    force_option,
    json_option,
    opened,
    plain,
    sections,
    span_text,
    table,
)
from tidelog.cli.target import connection_options
from tidelog.cli.tree import Nouns
from tidelog.client.jetstream import ConsumerInfo, Delivered, PullConsumer
from tidelog.client.jetstream.answer import SequencePair


@click.group(
    cls=Nouns,
    aliases={
        "create": "add", "new": "add", "list": "ls", "nfo": "info", "update": "edit", "delete": "rm", "del": "rm",
        "cp": "copy",
    },
)  # fmt: skip
def consumer() -> None:
    """Manage consumers, and take messages from them."""


for command in (add, edit, copy):
    consumer.add_command(command)

stream_argument = click.argument("stream", metavar="STREAM")
name_argument = click.argument("name", metavar="CONSUMER")


@consumer.command(name="ls")
@stream_argument
@click.option("--names", "-n", is_flag=True, help="Names only.")
@json_option
@connection_options
def list_consumers(stream: str, names: bool, as_json: bool) -> None:
    """List the consumers of a stream."""
    with opened() as js:
        found = sorted(js.consumers(stream), key=lambda info: info.name)
    if as_json:
        output.write_json([info.name if names else info.document for info in found])
        return
    if names:
        for info in found:
            click.echo(info.name)
        return
    made = table(
        f"{len(found)} consumers of {stream}", ["Name", "Mode", "Filter", "Last delivery"], ["Pending"]
    )
    for info in found:
        last = age_text(info.delivered.last_active).partition(" (")[0] or "never"
        made.add_row(info.name, mode_of(info), plain(filters_of(info)), last, f"{info.num_pending:,}")
    console().print(made)


@consumer.command()
@stream_argument
@name_argument
@json_option
@connection_options
def info(stream: str, name: str, as_json: bool) -> None:
    """Show configuration and state of a consumer."""
    with opened() as js:
        found = js.consumer_info(stream, name)
    show_info(found, as_json=as_json)


@consumer.command()
@stream_argument
@name_argument
@json_option
@connection_options
def state(stream: str, name: str, as_json: bool) -> None:
    """Show the state of a consumer."""
    with opened() as js:
        found = js.consumer_info(stream, name)
    if as_json:
        output.write_json({key: value for key, value in found.document.items() if key != "config"})
    else:
        console().print(sections(f"Consumer {name} of {stream}", {"State": _state(found)}))


def show_info(info: ConsumerInfo, *, as_json: bool) -> None:
    if as_json:
        output.write_json(info.document)
        return
    parts = {"Configuration": _configuration(info), "State": _state(info)}
    made = info.created[:19].replace("T", " ")
    console().print(sections(f"Consumer {info.name} of {info.stream_name}, made {made}", parts))


def _configuration(info: ConsumerInfo) -> dict[str, Any]:
    config = info.config
    metadata = config.get("metadata") or {}
    return {
        "Description": config.get("description"),
        "Mode": mode_of(info),
        "Durable": bool(config.get("durable_name")),
        "Delivers to": config.get("deliver_subject"),
        "Group": config.get("deliver_group"),
        "Filter": filters_of(info),
        "Begins": config.get("opt_start_seq") or config.get("opt_start_time") or config["deliver_policy"],
        "Acknowledgements": config["ack_policy"],
        "Wait for them": span_text(config.get("ack_wait", 0)),
        "Backoff": [span_text(each) for each in config.get("backoff") or []],
        "Deliveries at most": config.get("max_deliver") if config.get("max_deliver", -1) > 0 else None,
        "Unacknowledged at most": config.get("max_ack_pending"),
        "Requests at most": config.get("max_waiting"),
        "Replay": config["replay_policy"],
        "Headers only": config.get("headers_only") or None,
        "Flow control": config.get("flow_control") or None,
        "Heartbeat": span_text(config.get("idle_heartbeat", 0)),
        "Goes when idle for": span_text(config.get("inactive_threshold", 0)),
        "Priority": config.get("priority_policy"),
        "Groups": config.get("priority_groups"),
        "Metadata": {key: value for key, value in metadata.items() if not key.startswith("_nats.")},
    }


def _state(info: ConsumerInfo) -> dict[str, Any]:
    return {
        "Last delivered": pair_text(info.delivered),
        "Acknowledged up to": pair_text(info.ack_floor),
        "Waiting for acknowledgement": info.num_ack_pending,
        "Delivered again": info.num_redelivered,
        "Still to come": info.num_pending,
        "Requests waiting": info.num_waiting,
        "Somebody listens": info.push_bound if info.config.get("deliver_subject") else None,
        "Paused for": span_text(info.pause_remaining) if info.paused else None,
    }


def pair_text(pair: SequencePair) -> str:
    return f"{pair.consumer_seq:,}, stream {pair.stream_seq:,}  {age_text(pair.last_active)}".rstrip()


def mode_of(info: ConsumerInfo) -> str:
    return "push" if info.config.get("deliver_subject") else "pull"


def filters_of(info: ConsumerInfo) -> list[str]:
    one = info.config.get("filter_subject")
    return [one] if one else list(info.config.get("filter_subjects") or [])


@consumer.command()
@stream_argument
@click.option("--raw", "-r", is_flag=True, help="Plain numbers.")
@json_option
@connection_options
def report(stream: str, raw: bool, as_json: bool) -> None:
    """Show how far all consumers of a stream are."""
    with opened() as js:
        found = sorted(js.consumers(stream), key=lambda info: info.name)
        last_seq = js.stream_info(stream).state.last_seq
    if as_json:
        output.write_json([info.document for info in found])
        return
    numbers = ["Ack pending", "Redelivered", "Unprocessed", "Ack floor", "Behind"]
    made = table(f"{len(found)} consumers of {stream}", ["Consumer", "Mode", "Ack"], numbers)
    for info in found:
        behind = max(0, last_seq - info.ack_floor.stream_seq)
        counts = (
            info.num_ack_pending,
            info.num_redelivered,
            info.num_pending,
            info.ack_floor.stream_seq,
            behind,
        )
        cells = [str(count) if raw else f"{count:,}" for count in counts]
        made.add_row(info.name, mode_of(info), info.config["ack_policy"], *cells)
    console().print(made)


@consumer.command()
@stream_argument
@name_argument
@force_option
@connection_options
def rm(stream: str, name: str, force: bool) -> None:
    """Remove a consumer."""
    confirm(f"Remove consumer {name} of {stream}", force=force)
    with opened() as js:
        js.delete_consumer(stream, name)


@consumer.command()
@stream_argument
@name_argument
@click.argument("until", type=AFTER)
@force_option
@json_option
@connection_options
def pause(stream: str, name: str, until: str, force: bool, as_json: bool) -> None:
    """Deliver nothing until a time, or for so long (2026-12-24T18:00:00Z, 1h30m)."""
    confirm(f"Pause consumer {name} of {stream} until {until}", force=force)
    with opened() as js:
        answer = js.pause_consumer(stream, name, until)
    if as_json:
        output.write_json(answer.document)
    elif answer.paused:
        click.echo(f"{name} is paused for {span_text(answer.pause_remaining)}, until {answer.pause_until}")
    else:
        click.echo(f"{name} is not paused: {until} is over")


@consumer.command()
@stream_argument
@name_argument
@force_option
@json_option
@connection_options
def resume(stream: str, name: str, force: bool, as_json: bool) -> None:
    """Let a paused consumer deliver again."""
    confirm(f"Resume consumer {name} of {stream}", force=force)
    with opened() as js:
        answer = js.pause_consumer(stream, name)
    if as_json:
        output.write_json(answer.document)
    else:
        click.echo(f"{name} delivers")


@consumer.command()
@stream_argument
@name_argument
@click.option("--sequence", "seq", default=0, type=click.IntRange(min=0), help="From there on.")
@force_option
@json_option
@connection_options
def reset(stream: str, name: str, seq: int, force: bool, as_json: bool) -> None:
    """Deliver again what was not acknowledged, or everything from a sequence on."""
    confirm(f"Reset consumer {name} of {stream}", force=force)
    with opened() as js:
        answer = js.reset_consumer(stream, name, seq)
    if as_json:
        output.write_json(answer.document)
    else:
        click.echo(f"{name} goes on at {answer.document.get('reset_seq', seq):,}")


@consumer.command(name="next")
@stream_argument
@name_argument
@click.option("--count", default=1, show_default=True, type=click.IntRange(min=1), help="How many messages.")
@click.option("--wait", "wait_s", default="5s", show_default=True, type=DURATION, help="How long at most.")
@click.option("--ack/--no-ack", default=True, help="Acknowledge them.")
@click.option("--nak", is_flag=True, help="Have them delivered again.")
@click.option("--term", is_flag=True, help="Never have them delivered again.")
@click.option("--raw", "-r", is_flag=True, help="Payloads only.")
@json_option
@connection_options
def next_messages(
    stream: str,
    name: str,
    count: int,
    wait_s: float,
    ack: bool,
    nak: bool,
    term: bool,
    raw: bool,
    as_json: bool,
) -> None:
    """Take messages from a pull consumer, and acknowledge them. Fails when there is none in time."""
    with opened() as js:
        needs_ack = js.consumer_info(stream, name).config["ack_policy"] != "none"
        messages = PullConsumer(js, stream, name).fetch(count, timeout_s=wait_s)
        for message in messages:
            output.write(_line(message, raw=raw, as_json=as_json))
            if nak:
                message.nak()
            elif term:
                message.term()
            elif ack and needs_ack:
                message.ack_sync()
        output.flush()
        js.connection.flush()
    if not messages:
        raise Timeout(f"{name} had no message within {wait_s:g} s")


def _line(message: Delivered, *, raw: bool, as_json: bool) -> bytes:
    place = message.place
    if as_json:
        facts = {"seq": place.seq, "deliveries": place.deliveries, "pending": place.pending}
        return output.json_line(message.message, **facts)
    if raw:
        return message.payload + b"\n"
    words = f"[{place.seq}] {message.subject}, delivery {place.deliveries}, {place.pending:,} to come\n"
    return words.encode("utf-8", "surrogateescape") + output.body_lines(message.message)
