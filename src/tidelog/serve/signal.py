"""`--signal command[=pid|pidfile]`: tell a running server something, as `nats-server --signal` does."""

import os
import signal
import subprocess
import sys

SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}


def send_signal(request: str) -> int:
    """Carry out `request`. Returns the exit status."""
    command, _, target = request.partition("=")
    if command not in SIGNALS:
        return fail(f"unknown signal {command!r}; one of {', '.join(SIGNALS)}")
    try:
        pid = find_pid(target)
        os.kill(pid, SIGNALS[command])
    except (ValueError, OSError) as error:
        return fail(str(error))
    return 0


def find_pid(target: str) -> int:
    """The pid itself, the one in a pid file, or that of the only server that runs. Raises ValueError."""
    if target.isdigit():
        return int(target)
    if target:
        with open(target, encoding="ascii") as file:
            text = file.read().strip()
        if not text.isdigit():
            raise ValueError(f"{target} does not hold a pid")
        return int(text)
    # pgrep never lists itself, but it does list us when we are called nats-server too.
    answer = subprocess.run(["pgrep", "-x", "nats-server"], capture_output=True, text=True, check=False)
    pids = [int(line) for line in answer.stdout.split() if int(line) != os.getpid()]
    if len(pids) == 1:
        return pids[0]
    if not pids:
        raise ValueError("no nats-server processes running")
    raise ValueError(f"multiple nats-server processes running: {pids}; say which with `--signal command=pid`")


def fail(text: str) -> int:
    print(f"nats-server: {text}", file=sys.stderr)
    return 1
