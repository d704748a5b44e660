"""Every script for JetStream gets the same answers from the original and from us; and a difference would be seen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conform.jetstream import mask
from conform.jetstream.notation import parse
from conform.jetstream.pair import Pair
from conform.jetstream.pending import NOT_YET, reason
from conform.jetstream.script import Script, ScriptError, headers_and_text, load, load_all
from tidelog.testing.peer import tidelog_argv

SCRIPTS = load_all()
# The original answers within milliseconds; a busy machine may not.
PATIENCE_S = (5.0, 2.0)


@pytest.fixture(scope="module")
def pair(peer_argv: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(peer_argv, tidelog_argv(), str(tmp_path_factory.mktemp("stores")), PATIENCE_S) as pair:
        yield pair


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_both_servers_give_the_same_answers(script: Script, pair: Pair) -> None:
    if missing := reason(script.name):
        pytest.skip(missing)
    theirs, ours = pair.agree(script)
    assert theirs.late == [], "the script waits for what the original never sends"
    if script.difference:
        assert ours.text() != theirs.text(), f"take the mark away: {script.difference}"
    else:
        assert ours.text().splitlines() == theirs.text().splitlines()


def test_there_are_enough_scripts_and_the_list_of_those_left_out_names_them() -> None:
    assert len(SCRIPTS) >= 300
    assert set(NOT_YET) <= {script.name for script in SCRIPTS}


def test_another_answer_makes_another_transcript(pair: Pair, tmp_path: Path) -> None:
    first, second = (
        only_script(tmp_path, f"stream S {{subjects: [s], max_msgs: {number}}}") for number in (1, 2)
    )
    assert pair.play(first)[0].text() == pair.play(first)[0].text()
    assert pair.play(first)[0].text().splitlines()[1] != pair.play(second)[0].text().splitlines()[1]


def test_a_wait_in_vain_is_noted(peer_argv: list[str], tmp_path: Path) -> None:
    script = only_script(tmp_path, "sub p x\n    got p 1")
    with Pair(peer_argv, peer_argv, str(tmp_path), (0.05, 0.05)) as pair:
        assert pair.play(script)[0].late == ["3 got p 1"]


def only_script(directory: Path, steps: str) -> Script:
    (directory / "one.script").write_text(f"script one\n    {steps}\n")
    (script,) = load(directory / "one.script")
    return script


def test_notation() -> None:
    assert parse('{name: S, subjects: [s.>, "a b"], max_age: 100ms, n: -5, x: {y: true, z: null}}') == {
        "name": "S",
        "subjects": ["s.>", "a b"],
        "max_age": 100_000_000,
        "n": -5,
        "x": {"y": True, "z": None},
    }
    for wrong in ("{name}", "[a", "{a: b} c"):
        with pytest.raises(ValueError, match=r"."):
            parse(wrong)


def test_headers() -> None:
    assert headers_and_text("[A: b | Nats-TTL: 5s] text") == (
        "NATS/1.0\\r\\nA: b\\r\\nNats-TTL: 5s\\r\\n\\r\\n",
        "text",
    )
    assert headers_and_text("[1, 2]") == ("", "[1, 2]")


def test_what_is_no_step_is_refused(tmp_path: Path) -> None:
    for step in ("jump s", "ack p", "pull p"):
        with pytest.raises(ScriptError, match="cannot read"):
            only_script(tmp_path, step)


def test_masks() -> None:
    reply = "$JS.ACK.S.c.1.2.3.1700000000000000000.7"
    assert mask.subject(reply) == "$JS.ACK.S.c.1.2.3.<time>.7"
    assert mask.near("0001-01-01T00:00:00Z") == "0001-01-01T00:00:00Z"
    assert mask.payload(b'{"sources":[{"name":"b"},{"name":"a"}],"id":"0123456789012345678901","x":1}') == (
        '{"sources":[{"name":"a"},{"name":"b"}],"id":"<id>","x":1}'
    )
    assert mask.payload(b"plain\x00") == "plain\\x00"
