"""The fuzz target on the ordinary build, so that it does not rot between two runs of `make fuzz`."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fuzz import target
from fuzz.build import BuildError, build, modules, translate
from fuzz.rules import SETTINGS
from fuzz.seed import seeds, write
from fuzz.target import Finding, run
from tidy.repository import ROOT


def test_the_first_inputs_find_nothing() -> None:
    kinds = set()
    for _, data in seeds():
        kinds.add(data[:1])
        run(data)
    assert kinds == {b"B", b"C", b"S"}


def test_every_setting_and_every_turn_can_be_played() -> None:
    for number in range(len(SETTINGS)):
        stream = b"".join(b"\xfe" + bytes([letter]) + b"PING\r\n" for letter in b"0123qrtTwABCDEFGH")
        run(b"B" + bytes([number, 3, 0]) + stream)
    run(b"B\xf0\3\0SUB a 1\r\nPUB a 1\r\nx\r\n")
    run(b"")


def test_what_the_cut_changes_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def loses_a_byte(stream: bytes) -> Iterator[bytes]:
        yield stream[:-1]

    monkeypatch.setattr(target, "byte_by_byte", loses_a_byte)
    for kind in (b"B", b"C"):
        with pytest.raises(Finding, match="not the same"):
            run(kind + b"\0\3\0PING\r\n")


def test_what_no_client_can_read_is_a_finding() -> None:
    for heard in (b"MSG a 1 5\r\nabc\r\n", b"PONG\r\nMSG a 1", b"nonsense\r\n"):
        with pytest.raises(Finding):
            target.understand(heard)


def test_cuts_keep_every_byte() -> None:
    stream = bytes(range(256))
    cuts: Iterable[Iterator[bytes]] = [target.at_random(seed, stream) for seed in range(1, 50)]
    assert all(b"".join(cut) == stream for cut in cuts)
    assert len({len(list(target.at_random(seed, stream))) for seed in range(1, 50)}) > 5


def test_first_inputs_are_written_by_name(tmp_path: Path) -> None:
    write(tmp_path / "seed")
    assert {path.name: path.read_bytes() for path in (tmp_path / "seed").iterdir()} == dict(seeds())


def test_the_dictionary_is_one_for_libfuzzer() -> None:
    lines = (ROOT / "fuzz" / "nats.dict").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r'"(?:[^"\\]|\\x[0-9a-f]{2}|\\["\\])+"', line)] == []


def test_the_door_fits_the_rooms(tmp_path: Path) -> None:
    """Cython checks what the door takes from them; a C compiler is not needed for that."""
    translate(tmp_path / "door.c")
    assert (tmp_path / "door.c").stat().st_size > 0


def test_who_has_no_clang_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(BuildError, match="apt-get install clang"):
        build()


def test_all_that_the_target_imports_is_built() -> None:
    """Else it ends before the first input."""
    script = (
        "import sys, fuzz.target; print(*(name for name in sys.modules if name.split('.')[0] == 'tidelog'))"
    )
    search_path = f"{ROOT}:{ROOT / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        check=True,
    )
    built = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for suffix in (".py", ".pyx")
        for path in modules(suffix)
    }
    assert set(done.stdout.split()) - built == set()
