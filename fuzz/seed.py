"""The first inputs: what clients say in the protocol scripts, once as it is for the parser and once for a broker."""

import sys
from collections.abc import Iterator
from pathlib import Path

from conform.protocol.script import Script, load_all, unescape
from fuzz.target import MARK

# Which of the settings of `rules` stands for the configurations of a file.
SETTINGS_OF = {
    "permission": 2,
    "account": 3,
    "auth": 4,
    "reload": 2,
    "limit": 0,
    "noresponders": 1,
    "queue": 1,
}
# These talk of connections, not of what is said on them.
LEFT_OUT = {"tls", "websocket"}
# What is longer than an input may be (`Makefile`) shows bounds that are not those of the fuzzed settings.
MOST_SIZE = 2048
# What the parser in the role of a client reads; the scripts know it only as answers.
FROM_SERVERS = (
    b'INFO {"server_id":"x","headers":true}\r\n',
    b"MSG foo 1 5\r\nhello\r\nMSG foo.bar 22 inbox.1 0\r\n\r\n",
    b"HMSG foo 1 inbox.1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPING\r\n",
    b"+OK\r\n-ERR 'Unknown Protocol Operation'\r\nPONG\r\n",
    b"hmsg\tfoo 1  12 12\nNATS/1.0\r\n\r\n\r\nmsg foo 1 005\nhello\r\n",
)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Names and inputs."""
    return ((name, data) for name, data in inputs() if len(data) <= MOST_SIZE)


def inputs() -> Iterator[tuple[str, bytes]]:
    for script in load_all():
        kind, _, title = script.name.partition("/")
        if kind not in LEFT_OUT:
            yield f"{kind}-{title}", broker_input(script, SETTINGS_OF.get(kind, 0))
    for number, stream in enumerate(FROM_SERVERS):
        yield f"client-role-{number}", b"C\0\7\0" + stream
    for script in load_all():
        if script.name.startswith(("publish/", "verb/")):
            yield f"server-role-{script.name.replace('/', '-')}", b"S\0\7\0" + words_of(script)


def broker_input(script: Script, settings: int) -> bytes:
    """Every connection as a client of its own, in the order of the script."""
    stream, speakers = b"", list[str]()
    for step in script.steps:
        for name in step.names[:1] if step.verb not in ("sync", "pool") else step.names:
            if name not in speakers:
                speakers.append(name)
            words = said(step.verb, step.text)
            if words or step.verb == "quit":
                stream += MARK + b"%d" % (speakers.index(name) % 4) + words
            if step.verb == "quit":
                stream += MARK + b"q"
        if step.verb == "reload":
            stream += MARK + b"D"
        elif step.verb == "elapse":
            stream += MARK + b"T"
        elif step.verb == "sync":
            stream += MARK + b"r"
    return bytes([ord("B"), settings, 7, 0]) + stream


def words_of(script: Script) -> bytes:
    return b"".join(said(step.verb, step.text) for step in script.steps)


def said(verb: str, text: str) -> bytes:
    """The bytes of one step; keys and signatures are stood for by their names."""
    if verb == "login":
        return unescape(text, str) + b"\r\n"
    if verb == "send":
        return unescape(text, str)
    return b"PING\r\n" if verb == "sync" else b""


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (directory / name).write_bytes(data)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
