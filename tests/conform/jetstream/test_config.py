"""The original and our checks give the same verdict on every configuration: the same refusal, or the same result."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conform.conftest import StartServer
from conform.jetstream.api import Api
from conform.jetstream.case import Step, consumer_cases, stream_cases
from conform.jetstream.judge import Judge

SUBJECTS = {"create": "STREAM.CREATE.{}", "update": "STREAM.UPDATE.{}", "consumer": "CONSUMER.{}"}


@pytest.fixture
def peer(start_peer: StartServer, tmp_path: Path) -> Iterator[Api]:
    server = start_peer(flags=["-js", "-sd", str(tmp_path)])
    with Api(server.port) as api:
        yield api


def their_verdict(api: Api, step: Step) -> Any:
    verb, rest, body = step
    answer = api.ask(SUBJECTS[verb].format(rest), body)
    return answer.get("error") or answer["config"]


def masked(verdict: Any) -> str:
    """In its order, without what differs from server to server."""
    for key in ("_nats.ver", "_nats.level"):
        verdict.get("metadata", {}).pop(key, None)
    return json.dumps(verdict)


def differences(api: Api, cases: Iterator[list[Step]]) -> tuple[int, list[str]]:
    count, found = 0, []
    for case in cases:
        judge = Judge()
        for step in case:
            theirs, ours = masked(their_verdict(api, step)), masked(json.loads(judge.take(step)))
            count += 1
            if theirs != ours:
                found.append(f"{json.dumps(case)[:600]}\n  theirs {theirs[:900]}\n  ours   {ours[:900]}")
                break
        for name in ("S", "T", "O"):
            api.ask(f"STREAM.DELETE.{name}")
    return count, found


def test_streams(peer: Api) -> None:
    count, found = differences(peer, stream_cases())
    assert count > 500
    assert not found, "\n".join(found)


def test_consumers(peer: Api) -> None:
    count, found = differences(peer, consumer_cases())
    assert count > 500
    assert not found, "\n".join(found)
