import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli import dropin


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_directory_holds_one_executable_and_is_made_once(cache: Path) -> None:
    directory = dropin.make()
    assert directory.is_relative_to(cache / "tidelog")
    assert os.listdir(directory) == ["nats-server"]
    before = (directory / "nats-server").stat().st_ino
    assert dropin.make() == directory
    assert (directory / "nats-server").stat().st_ino == before


@pytest.mark.usefixtures("cache")
def test_a_damaged_file_is_written_again() -> None:
    path = dropin.make() / "nats-server"
    text = path.read_text()
    path.write_text(text[:20])
    assert (dropin.make() / "nats-server").read_text() == text
    path.chmod(0o644)
    assert os.access(dropin.make() / "nats-server", os.X_OK)


@pytest.mark.usefixtures("cache")
def test_another_interpreter_gets_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = dropin.make()
    monkeypatch.setattr(sys, "executable", "/elsewhere/python")
    assert dropin.make() != ours


@pytest.mark.usefixtures("cache")
def test_it_is_the_server_and_needs_no_environment() -> None:
    done = subprocess.run(
        [dropin.make() / "nats-server", "-v"], env={}, cwd="/", capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("nats-server: v")


@pytest.mark.parametrize("name", ["with blank", "o'clock", "x" * 140])
def test_interpreters_that_no_first_line_can_name_are_started_by_sh(tmp_path: Path, name: str) -> None:
    """And in the same process: the pid is the one that was spawned."""
    folder = tmp_path / name
    folder.mkdir()
    interpreter = folder / "python"
    interpreter.symlink_to(sys.executable)
    package = tmp_path / "tidelog" / "cli"
    package.mkdir(parents=True)
    (package / "serve.py").write_text(
        "import os\ndef main(words):\n    print(os.getpid(), words)\n    return 7\n"
    )
    script = tmp_path / "nats-server"
    script.write_text(dropin._script(str(interpreter), [str(tmp_path)]))
    script.chmod(0o755)
    with subprocess.Popen([script, "-p", "a b"], stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate(timeout=20)
    assert printed == f"{process.pid} ['-p', 'a b']\n"
    assert process.returncode == 7
