"""The real `nats` command cannot tell the servers apart: the same output and exit codes, command by command."""

import os
from pathlib import Path

import pytest

from conform.conftest import StartServer
from conform.natscli.session import masked, names, nats_command, play

NATS = nats_command(os.environ.get("NATS_CLI"))
HOW = "no `nats` command on PATH or in NATS_CLI; with Go: go install github.com/nats-io/natscli/nats@v0.4.0"


@pytest.mark.skipif(NATS is None, reason=HOW)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", names())
def test_a_session_ends_alike(
    name: str, start_peer: StartServer, start_ours: StartServer, tmp_path: Path
) -> None:
    assert NATS is not None
    answers = []
    for kind, start in (("theirs", start_peer), ("ours", start_ours)):
        scratch = tmp_path / kind
        scratch.mkdir()
        server = start(flags=["-js", "-sd", str(tmp_path / f"{kind}.store")])
        answers.append(play(name, NATS, server.url, scratch))
    different = [
        f"nats {theirs.command}\n--- theirs: exit {theirs.code}\n{theirs.text}\n--- ours: exit {ours.code}\n{ours.text}"
        for theirs, ours in zip(*answers, strict=True)
        if theirs != ours
    ]
    assert not different, f"{len(different)} of {len(answers[0])} differ\n" + "\n\n".join(different)


def test_masks_hide_what_differs_and_nothing_else(tmp_path: Path) -> None:
    text = f"at 2026-11-19 20:51:15.139852587 +0000 UTC (40ms) {tmp_path}/x  │ 12 messages, Ack Wait: 30.00s   \n"
    assert masked(text, tmp_path) == "at <time> (<duration>) <dir>/x │ 12 messages, Ack Wait: 30.00s"
