"""What people type into a shell: a session of the real `nats` command, played to one server.

A session is a text file: one command per line, without its first word `nats`. `{dir}` is a scratch directory with
two files in it, `{url}` the server's URL. A line that begins with `?` has output that differs from run to run, so
that only its exit code counts; one that begins with `=` names two files that must have the same bytes.

It promises that what is kept of the output is the same from run to run: times, durations, ids, ports and versions
are masked, and tables do not depend on how wide these were. It does not know which answers are right; the test
compares those of two servers.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SESSION_DIR = Path(__file__).parent / "session"
# The slowest, a benchmark of 20,000 messages, takes two seconds on a busy machine.
COMMAND_DEADLINE_S = 40
LARGE_OBJECT_SIZE = 300_000

MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( [+-]\d{4} UTC|Z)?", "<time>"),
        (r"\b\d\d:\d\d:\d\d\b", "<time>"),
        (r"\b(\d+[hm])*\d+(\.\d+)?(ns|µs|us|ms)\b", "<duration>"),
        (r"\b(\d+[hm])*\d+(\.\d+)?s ago\b", "<duration> ago"),
        (r"\((\d+[hm])*\d+(\.\d+)?s\)", "(<duration>)"),
        # Each server has a format of its own for snapshots.
        (r"Received .* compressed data in \d+ chunks (.*), .* uncompressed", r"Received \1"),
        (r"127\.0\.0\.1:\d+", "<address>"),
        (r"\bN[A-Z2-7]{55}\b", "<server id>"),
        (r"\b[0-9A-Za-z]{22}\b", "<id>"),
        (r"(Client ID|Client IP|RTT): .*", r"\1: <connection>"),
        (r"(Version: |_nats\.ver(\": \"|: ))[0-9.]+", r"\1<version>"),
        (r"hosted at level \d+", "hosted at level <level>"),
        (r"(_nats\.level(\": \"|: ))\d+", r"\1<level>"),
        (r"[─━]+", "─"),
        # Of messages with headers in a file, the peer counts four bytes more.
        (r"(Bytes: |Storage: |\"bytes\": )[\d.]+( [KMG]?i?B)?", r"\1<bytes>"),
        (r"; [\d.]+[KM]?/s\]", "; <rate>]"),
        # Differences are indented with blanks of one kind or the other, by chance.
        (r"[ \t\u00a0]+", " "),
        (r" *\n", "\n"),
    )
]


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    command: str
    code: int
    text: str


def names() -> list[str]:
    """All sessions."""
    return sorted(path.stem for path in SESSION_DIR.glob("*.txt"))


def commands(name: str) -> list[str]:
    """The lines of a session that do something."""
    lines = (SESSION_DIR / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def masked(text: str, scratch: Path) -> str:
    """The output without what differs from run to run."""
    text = text.replace(str(scratch), "<dir>")
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


def play(name: str, nats: Path, url: str, scratch: Path) -> list[Answer]:
    """Run a whole session against the server at `url`."""
    (scratch / "small.txt").write_text("small\n", encoding="utf-8")
    (scratch / "large.bin").write_bytes(bytes(number * number % 251 for number in range(LARGE_OBJECT_SIZE)))
    # No context and no history of whoever runs the test, and no terminal.
    environment = {"HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch), "NATS_URL": url, "TZ": "UTC"}
    return [take(line, nats, url, scratch, environment) for line in commands(name)]


def take(line: str, nats: Path, url: str, scratch: Path, environment: dict[str, str]) -> Answer:
    """One line of a session."""
    kind, words = (line[0], line[1:]) if line[0] in "?=" else ("", line)
    arguments = [word.replace("{dir}", str(scratch)).replace("{url}", url) for word in shlex.split(words)]
    if kind == "=":
        first, second = (Path(path).read_bytes() for path in arguments)
        return Answer(line, int(first != second), "")
    try:
        done = subprocess.run(
            [str(nats), *arguments],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Answer(line, -1, (error.output or b"").decode(errors="replace"))
    text = done.stdout.decode(errors="replace")
    return Answer(line, done.returncode, "" if kind else masked(text, scratch))


def nats_command(given: str | None) -> Path | None:
    """The `nats` command: the one that was named, or the one on PATH."""
    found = given or shutil.which("nats")
    return Path(found) if found else None
