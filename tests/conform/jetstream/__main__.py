"""By hand: `PYTHONPATH=src:tests python -m conform.jetstream [--against peer] [--times 20] [word ...]`.

Plays the scripts whose names contain all the words against the original and against ours (or, with `--against
peer`, a second original: that must never differ), and prints what differs. `--show` prints the original's
transcripts, `--slow` names the scripts that take more than 0.3 s.
"""

import argparse
import collections
import difflib
import sys
import tempfile
import time

from conform.jetstream.pair import Pair
from conform.jetstream.pending import reason
from conform.jetstream.script import Script, load_all
from tidelog.testing.peer import nats_server_path, tidelog_argv


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--against", choices=("ours", "peer"), default="ours")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--names", action="store_true", help="say only which differ")
    parser.add_argument("--patience", type=float, default=0.5, help="how long ours is waited for, in seconds")
    options = parser.parse_args()
    scripts = [script for script in load_all() if all(word in script.name for word in options.words)]
    peer = [str(nats_server_path())]
    other = peer if options.against == "peer" else tidelog_argv()
    patience_s = (2.0, 2.0 if options.against == "peer" else options.patience)
    different = collections.Counter[str]()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, Pair(peer, other, directory, patience_s) as pair:
        for _ in range(options.times):
            for script in scripts:
                different[script.name] += compare(script, pair, options)
    taken_s = time.monotonic() - started
    failed = [name for name, times in different.items() if times]
    print(f"{len(scripts)} scripts, {options.times} times, {len(failed)} differ, {taken_s:.1f} s")
    return 1 if failed else 0


def compare(script: Script, pair: Pair, options: argparse.Namespace) -> bool:
    """Play a script to both; say what differs, and whether anything does."""
    started = time.monotonic()
    theirs, ours = pair.play(script) if options.against == "peer" else pair.agree(script, 2)
    taken_s = time.monotonic() - started
    if options.slow and taken_s > 0.3:
        print(f"slow {script.name}: {taken_s:.3f} s")
    if options.show:
        print(f"== {script.name}\n{theirs.text()}")
    same = theirs.text() == ours.text()
    known = options.against == "ours" and (script.difference or reason(script.name))
    if theirs.late:
        print(f"== {script.name}\nthe original was waited for in vain: {theirs.late}")
    elif same and known:
        print(f"== {script.name}\ndoes not differ any more: {known}")
    elif not same:
        print(f"== {script.name} {known or ''}")
        if not options.names:
            print(difference(theirs.text(), ours.text()))
    return bool(theirs.late) or same == bool(known)


def difference(theirs: str, ours: str) -> str:
    """Long lines are cut at commas, and of what is alike only the steps are shown."""
    left, right = (text.replace(',"', ',\n        "').splitlines() for text in (theirs, ours))
    lines = list(difflib.ndiff(left, right))
    kept = list[str]()
    for at, line in enumerate(lines):
        step = line.startswith("  ") and line[2:3] not in (" ", "")
        if line.startswith(("- ", "+ ")) or (step and any(x[0] in "+-" for x in lines[at + 1 : at + 60])):
            while step and kept and kept[-1].startswith("  "):
                kept.pop()
            kept.append(line[:600])
    return "\n".join(kept)


if __name__ == "__main__":
    sys.exit(main())
