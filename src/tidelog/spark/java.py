"""Finding a Java that runs Spark, or saying how to get one.

`make setup` runs `main`: where Java is missing, and apt-get is there and may be used, it installs one.

Spark 4 needs Java 17 or newer, as a whole: trimmed runtimes lack the module `jdk.incubator.vector`, with which
Spark's launcher always starts.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidelog.base.errors import TidelogError

OLDEST = 17
# Where systems put what they install.
PLACES = ("/usr/lib/jvm/*", "/opt/java/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")
ANSWER_S = 20.0
# The first that a distribution has.
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "openjdk-25-jre-headless")
INSTALL_S = 900.0


class JavaMissing(TidelogError):
    """There is no Java that Spark could use."""


def find_java(environment: Mapping[str, str] | None = None, places: tuple[str, ...] | None = None) -> Path:
    """The home of a Java that is new enough: JAVA_HOME, then the one on PATH, then where systems put them."""
    known = os.environ if environment is None else environment
    seen = []
    for home in _homes(known, PLACES if places is None else places):
        version = java_version(home)
        if version >= OLDEST:
            return home
        seen.append(f"{home} is Java {version}" if version else f"{home} does not run")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise JavaMissing(
        f"Spark needs Java {OLDEST} or newer, and there is none{found}. Install one (Debian and Ubuntu: apt-get "
        "install openjdk-17-jre-headless; Fedora: dnf install java-17-openjdk-headless; macOS: brew install "
        "openjdk@17) and, if it is in a place of its own, set JAVA_HOME to it"
    )


def java_version(home: Path) -> int:
    """The feature release, such as 17; 0 if it does not run."""
    try:
        ran = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr)
    return int(found[1]) if found and not ran.returncode else 0


def _homes(environment: Mapping[str, str], places: tuple[str, ...]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path).resolve().parent.parent
    for place in places:
        base = Path(place.partition("*")[0])
        for path in sorted(base.glob(place[len(str(base)) + 1 :]), reverse=True) if base.is_dir() else ():
            if (path / "bin" / "java").is_file():
                yield path


def install_java(packages: tuple[str, ...] = PACKAGES) -> None:
    """With apt-get, as root. Whether it worked, `find_java` says."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in ("update", *(f"install -y --no-install-recommends {package}" for package in packages)):
        ran = subprocess.run(
            ["apt-get", "-q", *command.split()],
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=INSTALL_S,
            check=False,
        )
        if command != "update" and ran.returncode == 0:
            return


def main() -> int:
    """Java is there, is installed, or it is said how to get it; all of these are a success of the setup."""
    try:
        find_java()
    except JavaMissing:
        install_java()
        try:
            print(f"installed Java: {find_java()}")
        except JavaMissing as error:
            print(f"note: {error}", file=sys.stderr)
    return 0
