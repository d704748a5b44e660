r"""The script format: what is sent to a server over which connection, and when to wait.

A `.script` file is read line by line. `#` at the start of a line is a comment. A section begins with a line
at the margin; what belongs to it is indented by four spaces:

    config                      the server's configuration for the scripts that follow, until the next one
        max_payload: 100
    script one message too long
        login a
        a> PUB foo 101
        closed a

What is sent (`a`, `b` are names of connections):

    a> text                     a line; \r\n is appended
    a>| text                    exactly this
    a --                        boundary: what follows is sent only after the server has read what went before
    frame a 89 text             one masked websocket frame with this first byte; unmasked with `89u`

How connections begin:

    open a [listener]           connect and wait for INFO; to `websocket` wait for nothing
    raw a [listener]            connect and wait for nothing; what comes is not taken for NATS
    login a [json]              open, send CONNECT with this JSON (verbose and pedantic off unless said), sync
    upgrade a [header lines]    a websocket handshake on a raw connection; then lines are sent as frames
    answered a                  wait for the whole answer to a handshake written by hand
    tls a                       a TLS handshake as client, without verifying
    first a                     the same on a raw connection, then wait for INFO (TLS before INFO)

What is waited for, and how they end:

    sync a b                    PING on each, wait for the PONG of each
    await a text                wait until a frame that begins with text arrives (after those awaited before)
    closed a                    wait until the server closes the connection
    quit a                      close our side
    leave a                     no PING on this connection at the end of the script

What is compared:

    greeting a                  the first INFO of this connection too, not only those that come later
    hasty a                     neither -ERR nor websocket close: the original may close before saying why
    blind a                     nothing but whether the server closes: how much it gets before is chance
    differs why                 first step: ours is known to answer otherwise, and must for as long as this stands
    pool a b                    who of these gets a message is chance: only what all of them got together

What happens to the server:

    fresh                       first step: a server of its own, since the script changes it
    flags -DV                   first step: a server of its own with these flags
    signal USR2                 send the server a signal
    reload                      the indented lines below become the configuration; SIGHUP, wait for the answer
    elapse 0.1                  let time pass, in seconds: only where the server must count time

Lines sent to one connection without a step between go out in one write. Escapes in texts: \r \n \t \0 \\
\xNN, `\[ab*3]` for `ababab` (around such a one `\{..*3}`), `\(pub:name)` the public nkey made from a name,
`\(sig:name)` its signature over the nonce of this connection, `\(tls)` a directory with certificates.

When the script ends, every open connection is synced twice (so that what one caused at the others has
arrived), closed from our side, and read to its end.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parent / "scripts"
# What follows the verb: names of connections, one name and a text, or a text alone.
OF_MANY = frozenset({"sync", "pool"})
OF_ONE = frozenset(
    {"open", "raw", "login", "upgrade", "answered", "tls", "first", "frame", "await", "closed"}
    | {"quit", "leave", "greeting", "hasty", "blind"}
)
OF_NONE = frozenset({"differs", "fresh", "flags", "signal", "elapse"})
SEND = re.compile(r"(\w+)(>\|?) ?(.*)", re.DOTALL)
BOUNDARY = re.compile(r"(\w+) --$")
ESCAPE = re.compile(
    rb"\\(?:x(?P<code>[0-9a-fA-F]{2})|\[(?P<unit>.+?)\*(?P<times>\d+)\]|\{(?P<outer>.+?)\*(?P<again>\d+)\}"
    rb"|\((?P<name>.+?)\)|(?P<letter>.))",
    re.DOTALL,
)
PLAIN = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a script: `verb` as documented, or `send` or `boundary`; `text` is not yet unescaped."""

    verb: str
    names: tuple[str, ...] = ()
    text: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    config: str
    steps: tuple[Step, ...]

    @property
    def alone(self) -> bool:
        """Whether it wants a server of its own."""
        return any(step.verb in ("fresh", "flags", "reload", "signal") for step in self.steps)

    @property
    def difference(self) -> str:
        """Why ours is known to answer otherwise; empty if it is not."""
        return "; ".join(step.text for step in self.steps if step.verb == "differs")

    @property
    def flags(self) -> list[str]:
        return [flag for step in self.steps if step.verb == "flags" for flag in step.text.split()]


class ScriptError(Exception):
    """A script cannot be understood."""


def load_all(directory: Path = DIRECTORY) -> list[Script]:
    """Every script, in the order of files and lines; names are `file/words-of-its-title` and unique."""
    scripts = [script for path in sorted(directory.glob("*.script")) for script in load(path)]
    names = [script.name for script in scripts]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ScriptError(f"two scripts with the same name: {sorted(twice)}")
    return scripts


def load(path: Path) -> Iterator[Script]:
    config = ""
    for number, head, body in _sections(path):
        if head == "config":
            config = "\n".join(text for _, text in body) + "\n"
        elif head.startswith("script "):
            name = f"{path.stem}/{head.removeprefix('script ').strip().replace(' ', '-')}"
            yield Script(name, config, tuple(_steps(path, body)))
        else:
            raise ScriptError(f"{path.name}:{number}: neither config nor script: {head!r}")


def unescape(text: str, variable: Callable[[str], str]) -> bytes:
    """The bytes that `text` stands for; `variable` answers what is between `\\(` and `)`."""

    def one(match: re.Match[bytes]) -> bytes:
        part = match.groupdict()
        if part["code"]:
            return bytes([int(part["code"], 16)])
        if part["unit"] or part["outer"]:
            return ESCAPE.sub(one, part["unit"] or part["outer"]) * int(part["times"] or part["again"])
        if part["name"]:
            return variable(part["name"].decode()).encode()
        if part["letter"] not in PLAIN:
            raise ScriptError(f"unknown escape {match[0]!r} in {text!r}")
        return PLAIN[part["letter"]]

    return ESCAPE.sub(one, text.encode())


def connect_line(text: str) -> str:
    """The CONNECT that `login` sends: the given fields; verbose and pedantic false unless among them."""
    if text and not text.startswith("{"):
        raise ScriptError(f"login wants a JSON object, not {text!r}")
    silent = [f'"{field}":false' for field in ("verbose", "pedantic") if f'"{field}"' not in text]
    return "CONNECT {" + ",".join(silent + [text[1:-1]] * bool(text[1:-1])) + "}"


def _sections(path: Path) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    head, started, body = "", 0, list[tuple[int, str]]()
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.startswith("#"):
            continue
        if line.startswith("    "):
            body.append((number, line[4:]))
        elif line.strip():
            if head:
                yield started, head, body
            head, started, body = line.strip(), number, []
    if head:
        yield started, head, body


def _steps(path: Path, body: list[tuple[int, str]]) -> Iterator[Step]:
    rest = iter([*body, (0, "")])
    number, line = next(rest)
    while number:
        following = next(rest)
        if line == "reload":
            lines = list[str]()
            while following[1].startswith("    "):
                lines.append(following[1][4:])
                following = next(rest)
            yield Step("reload", (), "\n".join(lines) + "\n", number)
        elif line.strip():
            yield _step(path, number, line)
        number, line = following


def _step(path: Path, number: int, line: str) -> Step:
    if match := BOUNDARY.match(line):
        return Step("boundary", (match[1],), "", number)
    if match := SEND.match(line):
        return Step("send", (match[1],), match[3] if match[2] == ">|" else match[3] + "\\r\\n", number)
    verb, _, rest = line.partition(" ")
    if verb in OF_MANY:
        return Step(verb, tuple(rest.split()), "", number)
    if verb in OF_NONE:
        return Step(verb, (), rest, number)
    name, _, text = rest.partition(" ")
    if verb not in OF_ONE or not name:
        raise ScriptError(f"{path.name}:{number}: cannot read {line!r}")
    return Step(verb, (name,), connect_line(text) if verb == "login" else text, number)
