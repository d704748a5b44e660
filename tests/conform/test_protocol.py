"""Every raw script gets the same answers from the original and from us; and a difference would be seen."""

from dataclasses import replace
from pathlib import Path

import pytest

from conform.protocol import frame
from conform.protocol.script import Script, ScriptError, load, load_all, unescape
from conform.protocol.stage import Stage

SCRIPTS = load_all()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_both_servers_give_the_same_answers(script: Script, their_stage: Stage, our_stage: Stage) -> None:
    theirs = their_stage.play(script)
    assert theirs.late == [], "the script waits for what the original never sends"
    ours = our_stage.play(script)
    if script.difference:
        assert ours.text() != theirs.text(), f"take the mark away: {script.difference}"
    else:
        assert ours.text().splitlines() == theirs.text().splitlines()


def script_named(name: str) -> Script:
    return next(script for script in SCRIPTS if script.name == name)


def test_another_answer_makes_another_transcript(peer_argv: list[str], certificates: Path) -> None:
    plain = script_named("info/greeting")
    limited = replace(plain, config="max_payload: 1000")
    with Stage(peer_argv, certificates) as stage:
        said = stage.play(plain).text()
        assert said == stage.play(plain).text()
        assert said != stage.play(limited).text()


def test_a_wait_in_vain_is_noted(peer_argv: list[str], certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "vain.script").write_text("script silence\n    open a\n    await a MSG\n")
    (script,) = load(tmp_path / "vain.script")
    with Stage(peer_argv, certificates, patience_s=0.05) as stage:
        assert stage.play(script).late == ["line 3: await a MSG"]


def test_frames_are_cut_by_size_and_not_by_line() -> None:
    frames, rest = frame.split(
        b"PONG\r\nMSG a 1 6\r\nx\r\ny\r\n\r\nHMSG b 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG c 1 3\r\nab"
    )
    assert frames == [
        b"PONG\r\n",
        b"MSG a 1 6\r\nx\r\ny\r\n\r\n",
        b"HMSG b 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    ]
    assert rest == b"MSG c 1 3\r\nab"


def test_one_publication_to_several_subscriptions_has_no_order_but_several_publications_have() -> None:
    def message(sid: int, payload: bytes) -> bytes:
        return b"MSG a %d 1\r\n%b\r\n" % (sid, payload)

    frames = [message(2, b"x"), message(1, b"x"), message(1, b"y"), message(2, b"x")]
    assert frame.in_order(frames) == [message(1, b"x"), message(2, b"x"), message(1, b"y"), message(2, b"x")]


def test_info_is_masked_by_key_and_keeps_its_order() -> None:
    shown = frame.show(
        b'INFO {"server_id":"N1","server_name":"N1","port":1,"go":"go1","headers":true} \r\n', 1
    )
    assert shown == (
        'INFO {"server_id":"<server_id>","server_name":"<server_id>","port":"<port>","headers":true}'
    )


def test_escapes() -> None:
    assert unescape(r"a\r\n\x00\\\[xy*2]\(name)é", str.upper) == b"a\r\n\0\\xyxyNAME\xc3\xa9"
    with pytest.raises(ScriptError, match="unknown escape"):
        unescape(r"\q", str)
