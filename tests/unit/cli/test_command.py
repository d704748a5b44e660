import click
import pytest

import tidelog
from tidelog.base.errors import ClientError
from tidelog.cli import command


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    @click.command()
    def fails() -> None:
        raise error

    monkeypatch.setattr(command.Tree, "get_command", lambda *_: fails)
    return command.run(["fails"])


def test_every_command_of_the_tree_can_be_imported() -> None:
    context = click.Context(command.tree)
    for name in set(command.COMMANDS) - {"serve"}:
        found = command.tree.get_command(context, name)
        assert found is not None
        assert found.help
    for alias, name in command.ALIASES.items():
        assert command.tree.get_command(context, alias) is command.tree.get_command(context, name)


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in command.COMMANDS)


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["--version"]) == 0
    assert capsys.readouterr().out == f"tidelog {tidelog.__version__}\n"


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["nope"]) == 2
    assert "No such command 'nope'" in capsys.readouterr().err


def test_a_failure_is_one_line_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(monkeypatch, ClientError("no luck")) == 1
    assert capsys.readouterr().err == "tidelog: no luck\n"


def test_an_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(monkeypatch, KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""
