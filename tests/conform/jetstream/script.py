"""Scripts: what is asked of both servers, one step a line, in files by topic.

    # a comment
    script the name of a script
        stream S {subjects: [s.>]}
        pub s.a hello

After `script` come the steps, indented by four spaces. Bodies are written as `notation` says; after `|` they are
sent as they stand, with \\r \\n \\t \\0 \\\\ \\xNN for bytes and `\\[ab*3]` for `ababab`. What was asked is answered
before the next step begins, unless it says otherwise, and every answer is compared.

Requests:

    api SUBJECT [body]              a request to $JS.API.SUBJECT
    req SUBJECT [headers] [text]    a request to any subject; a text is a payload, sent as it stands
    stream S [fields]               STREAM.CREATE.S: in memory and with this name, if not said otherwise
    update S [fields]               STREAM.UPDATE.S, the same way
    consumer S C [fields]           CONSUMER.CREATE.S.C: durable, with explicit acknowledgements, if not said otherwise
    info S [C]                      of a stream, or a consumer

Messages, and what comes of them; p names an inbox, c a consumer as `S.C`:

    pub SUBJECT [headers] [text]    publish and wait for the answer; headers are `[Nats-Msg-Id: a | Nats-TTL: 5s]`
    put SUBJECT [headers] [text]    publish and want no answer
    fast SUBJECT REPLY [headers] [text]  publish with this reply subject, and want no answer here
    pubs N SUBJECT [headers] [text] N times `put`, then once `pub`; `#` in subject, headers and text is the number
    sub p SUBJECT [queue]           an inbox for what is sent to SUBJECT
    unsub p [N]                     as the protocol has it
    pull p c [body]                 a request for messages, answered to the inbox p (which is made if there is none)
    ask p SUBJECT [headers] [text]  a request with answers to the inbox p, such as several messages
    got p N                         wait until p has N messages in all
    got p N > 0.1                   the same, and say whether that took longer than 0.1 s from the step before
    ack p N [text]                  answer the Nth message of p with text or nothing, and wait until that is confirmed
    say p N [text]                  the same, but want no answer
    seen p                          how many messages p has so far
    forget p                        leave out of the comparison what has come to p
    unordered p                     compare what came to p without its order

The rest:

    on b [fields]                   what follows is done by the connection b (the first is a); fields of CONNECT
    close b                         close a connection, without a word
    elapse 0.1                      let time pass
    filled S N                      wait until the stream S has N messages
    mark t                          `\\(t)` is the time now, from here on
    loose KEY ...                   leave out the values of these keys in JSON, in this script
    differs why                     the servers are known to answer otherwise, for this reason

In texts `\\(p.2.reply)` is the reply subject of the second message of p, `\\(p.2.Name)` its header `Name`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parent / "scripts"
# Verbs, and how many words follow before the text.
WORDS = {
    "api": 1, "req": 1, "stream": 1, "update": 1, "consumer": 2, "info": 0, "pub": 1, "fast": 2, "put": 1, "pubs": 2,
    "sub": 1, "unsub": 1, "pull": 2, "ask": 2, "got": 1, "ack": 2, "say": 2, "seen": 1, "forget": 1, "unordered": 1,
    "on": 1, "close": 1, "elapse": 1, "filled": 1, "mark": 1, "loose": 0, "differs": 0,
}  # fmt: skip
HEADERS = re.compile(r"\[((?:[\w-]+: ?(?:\\\[[^\]]*\]|[^|\]])*(?:\| ?)?)+)\] ?")


class ScriptError(Exception):
    """A script cannot be understood."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line: a verb of those above, the words after it, and the rest of the line."""

    verb: str
    words: tuple[str, ...]
    text: str
    line: int

    def __str__(self) -> str:
        shown = " ".join([self.verb, *self.words, self.text])
        return f"{self.line} {shown if len(shown) <= 200 else shown[:200] + '...'}".rstrip()


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    steps: tuple[Step, ...]

    @property
    def loose(self) -> frozenset[str]:
        """Keys whose values are not compared."""
        return frozenset(key for step in self.steps if step.verb == "loose" for key in step.text.split())

    @property
    def difference(self) -> str:
        """Why ours is known to answer otherwise; empty if it is not."""
        return "; ".join(step.text for step in self.steps if step.verb == "differs")


def load_all(directory: Path = DIRECTORY) -> list[Script]:
    """Every script; names are `file/words-of-its-title` and unique."""
    scripts = [script for path in sorted(directory.glob("*.script")) for script in load(path)]
    names = [script.name for script in scripts]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ScriptError(f"two scripts with the same name: {sorted(twice)}")
    return scripts


def load(path: Path) -> Iterator[Script]:
    name, steps = "", list[Step]()
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.startswith("    ") and name:
            steps.append(_step(path, number, line[4:]))
        elif line.startswith("script "):
            if name:
                yield Script(name, tuple(steps))
            name, steps = f"{path.stem}/{line.removeprefix('script ').strip().replace(' ', '-')}", []
        elif line.strip() and not line.startswith("#"):
            raise ScriptError(f"{path.name}:{number}: neither a script nor a step: {line!r}")
    if name:
        yield Script(name, tuple(steps))


def _step(path: Path, number: int, line: str) -> Step:
    verb, _, rest = line.partition(" ")
    count = WORDS.get(verb)
    words = rest.split(" ", count or 0)
    if count is None or len(words) < count or (count and not words[count - 1]):
        raise ScriptError(f"{path.name}:{number}: cannot read {line!r}")
    return Step(verb, tuple(words[:count]), words[count] if len(words) > count else "", number)


def headers_and_text(text: str) -> tuple[str, str]:
    """A header block as lines, or nothing, and what follows it."""
    found = HEADERS.match(text)
    if found is None:
        return "", text
    lines = "".join(f"{line.strip()}\\r\\n" for line in found[1].split("|"))
    return f"NATS/1.0\\r\\n{lines}\\r\\n", text[found.end() :]
