"""Inner rooms do not know outer rooms: the contracts in pyproject.toml, and that they name every room."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tidy.repository import PACKAGE, ROOT


def contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[dict[str, object]] = settings["tool"]["importlinter"]["contracts"]
    return found


def test_the_contracts_are_kept() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [tool, "--no-cache"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_room_has_its_place_in_the_layers() -> None:
    layers = next(contract["layers"] for contract in contracts() if contract["type"] == "layers")
    assert isinstance(layers, list)
    placed = {name.strip().strip("()") for layer in layers for name in layer.replace(":", "|").split("|")}
    rooms = {f"tidelog.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    assert rooms <= placed
