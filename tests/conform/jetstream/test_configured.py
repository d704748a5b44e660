"""Like test_script, with servers that are configured otherwise: `configured/<name>.conf`, and scripts beside it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conform.jetstream.pair import Pair
from conform.jetstream.script import Script, load
from tidelog.testing.peer import tidelog_argv

DIRECTORY = Path(__file__).parent / "configured"
CONFIGS = sorted(DIRECTORY.glob("*.conf"))
# The original answers within milliseconds; a busy machine may not.
PATIENCE_S = (5.0, 2.0)
USER = re.compile(r"\buser: (\w+)")


SCRIPTS = [(config, script) for config in CONFIGS for script in load(config.with_suffix(".script"))]


@pytest.fixture(scope="module")
def pair(
    request: pytest.FixtureRequest, peer_argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    text = request.param.read_text()
    directory = str(tmp_path_factory.mktemp("stores"))
    with Pair(peer_argv, tidelog_argv(), directory, PATIENCE_S, text, USER.findall(text)) as pair:
        yield pair


@pytest.mark.parametrize(
    ("pair", "script"), SCRIPTS, indirect=["pair"], ids=lambda one: getattr(one, "name", "")
)
def test_both_servers_give_the_same_answers(pair: Pair, script: Script) -> None:
    theirs, ours = pair.agree(script)
    assert theirs.late == [], "the script waits for what the original never sends"
    if script.difference:
        assert ours.text() != theirs.text(), f"take the mark away: {script.difference}"
    else:
        assert ours.text().splitlines() == theirs.text().splitlines()
