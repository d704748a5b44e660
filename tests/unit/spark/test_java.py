"""Finding Java: by variable, on PATH, where systems put it; and what is said when there is none."""

from pathlib import Path

import pytest

from tidelog.spark.java import PACKAGES, JavaMissing, find_java, install_java


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_the_one_that_is_named_comes_first_then_path_then_the_usual_places(tmp_path: Path) -> None:
    named, on_path, usual = (make_java(tmp_path / name, "21.0.1") for name in ("named", "path", "jvm/usual"))
    places = (str(tmp_path / "jvm" / "*"),)
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment, places) == named
    assert find_java({"PATH": str(on_path / "bin")}, places) == on_path
    assert find_java({"PATH": str(tmp_path)}, places) == usual


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "1.8.0_292"), make_java(tmp_path / "jvm" / "new", "17.0.15")
    assert find_java({"JAVA_HOME": str(old), "PATH": ""}, (str(tmp_path / "jvm" / "*"),)) == new


def test_without_one_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing, match=r"is Java 11.*apt-get install openjdk-17-jre-headless.*JAVA_HOME"):
        find_java({"JAVA_HOME": str(old), "PATH": ""}, ())


def test_the_setup_installs_what_a_distribution_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An apt-get that knows the second package only."""
    asked = tmp_path / "asked"
    program = tmp_path / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {asked}\ncase "$*" in *update*|*21*) exit 0;; esac\nexit 100\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    install_java()
    assert [line.split()[-1] for line in asked.read_text().splitlines()] == ["update", *PACKAGES[:2]]
    asked.unlink()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    install_java()
    assert not asked.exists()
