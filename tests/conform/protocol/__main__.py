"""By hand: `PYTHONPATH=src:tests python -m conform.protocol [--against peer] [--times 20] [word ...]`.

Plays the scripts whose names contain all the words against the original and against ours (or, with `--against
peer`, a second original: that must never differ), and prints what differs. `--show` prints the original's
transcripts, `--slow` names the scripts that take more than 100 ms.
"""

import argparse
import difflib
import sys
import tempfile
import time
from pathlib import Path

from conform.protocol.identity import write_certificates
from conform.protocol.script import Script, load_all
from conform.protocol.stage import Stage
from tidelog.testing.peer import ServerProcessError, nats_server_path, tidelog_argv


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--against", choices=("ours", "peer"), default="ours")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    scripts = [script for script in load_all() if all(word in script.name for word in options.words)]
    peer = [str(nats_server_path())]
    other = peer if options.against == "peer" else tidelog_argv()
    different = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        certificates = Path(directory)
        write_certificates(certificates)
        for _ in range(options.times):
            with Stage(peer, certificates) as theirs, Stage(other, certificates) as ours:
                different += sum(compare(script, theirs, ours, options) for script in scripts)
    taken_s = time.monotonic() - started
    print(f"{len(scripts)} scripts, {options.times} times, {different} differ, {taken_s:.1f} s")
    return 1 if different else 0


def compare(script: Script, theirs: Stage, ours: Stage, options: argparse.Namespace) -> bool:
    """Play a script to both; say what differs, and whether anything does."""
    started = time.monotonic()
    expected = theirs.play(script)
    between = time.monotonic()
    try:
        got = ours.play(script).text()
    except (ServerProcessError, OSError) as error:
        got = f"no answer: {error}\n"
    if options.slow and time.monotonic() - started > 0.1:
        print(f"slow {script.name}: {between - started:.3f} s, {time.monotonic() - between:.3f} s")
    if options.show:
        print(f"== {script.name}\n{expected.text()}")
    if expected.late:
        print(f"== {script.name}\nthe original was waited for in vain: {expected.late}")
    elif got != expected.text():
        print(f"== {script.name} {script.difference}\n{difference(expected.text(), got)}")
    elif script.difference and options.against == "ours":
        print(f"== {script.name}\ndoes not differ any more: {script.difference}")
        return True
    return bool(expected.late) or (got != expected.text() and not script.difference)


def difference(theirs: str, ours: str) -> str:
    return "\n".join(
        line.rstrip("\n")
        for line in difflib.unified_diff(
            theirs.splitlines(), ours.splitlines(), "nats-server", "tidelog", n=2, lineterm=""
        )
    )


if __name__ == "__main__":
    sys.exit(main())
