import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli import command
from tidelog.testing import Server


def run(*arguments: str) -> int:
    return command.run(["context", *arguments])


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run and read the JSON document that it writes."""

    def read(*arguments: str) -> Any:
        capsys.readouterr()
        assert run(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return read


def test_add_takes_the_connection_flags(read: Any, tmp_path: Path) -> None:
    flags = ["-s", "nats://a", "--user", "u", "--password", "hush", "--tlsca", "/ca", "--tlsfirst"]
    assert run("add", "one", *flags, "--description", "d") == 0
    shown = read("show", "one")
    assert (shown["url"], shown["user"], shown["ca"], shown["tls_first"]) == ("nats://a", "u", "/ca", True)
    assert shown["password"] == "********"
    assert shown["path"] == str(tmp_path / "config" / "nats" / "context" / "one.json")
    assert json.loads(Path(shown["path"]).read_text())["password"] == "hush"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://a:hush@h:4222", "nats://a:********@h:4222"),
        ("nats://hush@h,tls://a:hush@i", "nats://********@h,tls://a:********@i"),
        ("a:hush@h", "a:********@h"),
        ("wss://h:443/path", "wss://h:443/path"),
    ],
)
def test_a_url_is_shown_without_its_secrets(
    read: Any, capsys: pytest.CaptureFixture[str], url: str, shown: str
) -> None:
    assert run("add", "one", "-s", url) == 0
    assert read("show", "one")["url"] == shown
    assert read("ls")[0]["url"] == shown
    assert (run("ls"), run("show", "one")) == (0, 0)
    assert "hush" not in capsys.readouterr().out


def test_add_changes_what_is_there_and_copies_by_context(read: Any) -> None:
    assert run("add", "one", "-s", "nats://a", "--user", "u", "--password", "p") == 0
    assert run("add", "one", "-s", "nats://b") == 0
    assert run("add", "two", "--context", "one", "--description", "copy") == 0
    one, two = read("ls")
    assert (one["url"], one["user"]) == ("nats://b", "u")
    assert (two["url"], two["user"], two["description"]) == ("nats://b", "u", "copy")


def test_select_and_back(read: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert run("add", name, "--select") == 0
    assert [entry["name"] for entry in read("ls") if entry["selected"]] == ["two"]
    assert run("select", "--previous") == 0
    assert read("show")["name"] == "one"
    assert run("select", "--none") == 0
    assert run("show") == 2
    assert run("select", "three") == 1
    assert "unknown context 'three'" in capsys.readouterr().err


def test_names_and_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls") == 0
    assert capsys.readouterr().out == "No known contexts\n"
    assert run("add", "one", "--select", "--description", "what for") == 0
    capsys.readouterr()
    assert run("ls", "--names") == 0
    assert capsys.readouterr().out == "one\n"
    assert run("ls") == 0
    shown = capsys.readouterr().out
    assert "one*" in shown
    assert "what for" in shown


def test_rm_needs_force_or_a_yes(capsys: pytest.CaptureFixture[str], type_in: Any) -> None:
    assert run("add", "one") == 0
    type_in(b"n\n")
    assert run("rm", "one") == 130
    assert run("rm", "one", "-f") == 0
    assert run("rm", "one", "-f") == 1
    assert "unknown context 'one'" in capsys.readouterr().err


def test_show_can_try_it(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add", "here", "-s", server.url) == 0
    assert run("add", "gone", "-s", "nats://127.0.0.1:1") == 0
    assert run("show", "here", "--connect") == 0
    assert f"Connected to {server.url}" in capsys.readouterr().err
    assert run("show", "gone", "--connect") == 1


def test_a_selected_context_is_used_by_other_commands(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NATS_URL")
    assert run("add", "here", "-s", server.url, "--select") == 0
    assert command.run(["rtt", "1"]) == 0
    assert server.url in capsys.readouterr().out
