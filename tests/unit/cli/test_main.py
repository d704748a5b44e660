import subprocess
import sys
import types

import pytest

from tidelog.cli import main


@pytest.fixture
def serve_calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stands in for the server; what it was started with."""
    calls: list[list[str]] = []
    fake = types.ModuleType("tidelog.cli.serve")
    fake.main = lambda words: calls.append(list(words)) or 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tidelog.cli.serve", fake)
    monkeypatch.setattr("tidelog.cli.serve", fake, raising=False)
    return calls


def test_serve_gets_its_flags_as_they_are(serve_calls: list[list[str]]) -> None:
    assert main.main(["serve", "-p", "4222", "--help"]) == 3
    assert serve_calls == [["-p", "4222", "--help"]]


def test_under_the_peers_name_everything_is_for_the_server(
    serve_calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/nats-server", "serve"])
    assert main.main() == 3
    assert serve_calls == [["serve"]]


def test_the_server_starts_without_click_rich_and_the_client() -> None:
    check = (
        "import sys; from tidelog.cli.main import main; code = main(['serve', '-v']);"
        "bad = {'click', 'rich', 'tidelog.client', 'asyncio'} & set(sys.modules); assert not bad, bad;"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
