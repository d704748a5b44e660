"""Plays a script against a server and writes down what it said: answers in order, then every inbox.

What a script made is gone when it has been played: its connections are closed and all streams deleted. A wait that
was in vain does not end a script; it is noted, so that the difference shows where it is.
"""

import datetime
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from conform.jetstream import mask
from conform.jetstream.api import Api
from conform.jetstream.connection import Connection, Inbox, Message, wait
from conform.jetstream.notation import parse
from conform.jetstream.script import Script, ScriptError, Step, headers_and_text
from conform.protocol.script import unescape

CONNECT = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "echo": True}
ANSWERS = "_A"
# The original tells consumers of new messages, and takes their acknowledgements, a little later, in another thread;
# what counts is what is true then.
SETTLE_S = 0.003


@dataclass
class Transcript:
    lines: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def text(self) -> str:
        return "".join(f"{line}\n" for line in [*self.lines, *(f"in vain: {step}" for step in self.late)])


def play(script: Script, port: int, patience_s: float, users: Sequence[str] = ()) -> Transcript:
    player = _Player(script, port, patience_s)
    try:
        return player.play()
    finally:
        for connection in player.connections.values():
            connection.socket.close()
        for user in users or ("",):
            sweep(port, user)


def sweep(port: int, user: str = "") -> None:
    """Delete every stream of a user's account."""
    with Api(port, user=user) as api:
        for name in api.ask("STREAM.NAMES").get("streams") or []:
            api.request(f"$JS.API.STREAM.DELETE.{name}")


class _Player:
    def __init__(self, script: Script, port: int, patience_s: float) -> None:
        self.script = script
        self.port = port
        self.patience_s = patience_s
        self.connections = dict[str, Connection]()
        self.users = dict[int, str]()  # of connections
        self.inboxes = dict[str, Inbox]()
        self.times = dict[str, str]()
        self.transcript = Transcript()
        self.asked = 0
        self.connect("a", {})

    def play(self) -> Transcript:
        for step in self.script.steps:
            try:
                said = getattr(self, f"do_{step.verb}")(step)
            except (ValueError, KeyError, IndexError) as error:
                raise ScriptError(f"{self.script.name}: line {step}: {error!r}") from error
            if said is not None:
                self.transcript.lines.append(f"{step}\n    {said}")
        for connection in self.connections.values():
            self.sync(connection)
        for name, inbox in self.inboxes.items():
            if inbox.shown:
                lines = [shown(message, self.script.loose) for message in inbox.messages]
                self.transcript.lines += [
                    f"{name}: {line}" for line in (lines if inbox.ordered else sorted(lines))
                ]
        for name, connection in self.connections.items():
            self.transcript.lines += [f"{name} {error}" for error in connection.errors]
        return self.transcript

    # ---- connections ----

    def connect(self, name: str, fields: dict[str, Any]) -> None:
        connection = Connection(self.port, json.dumps({**CONNECT, **fields}).encode(), self.patience_s)
        self.connections[name] = self.here = connection
        self.users[id(connection)] = fields.get("user", "")
        answers = Inbox(f"{name} answers", shown=False)
        self.answers = {**getattr(self, "answers", {}), id(connection): answers}
        connection.subscribe(answers, f"{ANSWERS}.{name}.*".encode())
        self.sync(connection)

    def sync(self, connection: Connection) -> None:
        """Until the server has read what was sent, and said what it had to say by then."""
        if connection.closed:
            return
        pongs = connection.pongs
        connection.send(b"PING\r\n")
        self.wait(lambda: connection.pongs > pongs or connection.closed, "PING")

    def wait(self, enough: Any, what: object) -> bool:
        come = wait(list(self.connections.values()), enough, time.monotonic() + self.patience_s)
        if not come:
            self.transcript.late.append(str(what))
        return come

    def inbox(self, name: str) -> Inbox:
        if name not in self.inboxes:
            self.inboxes[name] = Inbox(name)
        return self.inboxes[name]

    # ---- texts ----

    def bytes_of(self, text: str) -> bytes:
        return unescape(text, self.variable)

    def variable(self, name: str) -> str:
        if name in self.times:
            return self.times[name]
        inbox, number, what = name.split(".", 2)
        return self.message(inbox, number).value_of(what)

    def message(self, inbox: str, number: str) -> Message:
        messages = self.inboxes[inbox].messages
        if int(number) > len(messages):
            # It was waited for in vain, which is noted.
            return Message("", f"{ANSWERS}.nowhere", b"", b"")
        return messages[int(number) - 1]

    def body(self, text: str, defaults: dict[str, Any] | None = None) -> bytes:
        if text.startswith("|"):
            return self.bytes_of(text.removeprefix("|").removeprefix(" "))
        if not text and defaults is None:
            return b""
        value = parse(self.bytes_of(text).decode()) if text else {}
        if defaults is not None:
            value = {**defaults, **value}
        return json.dumps(value, ensure_ascii=False).encode()

    # ---- requests ----

    def request(self, step: Step, subject: str, body: bytes, header: bytes = b"") -> str:
        """The answer, as it is written down."""
        self.asked += 1
        connection = self.here
        answers = self.answers[id(connection)].messages
        count = len(answers)
        name = next(name for name, one in self.connections.items() if one is connection)
        reply = f"{ANSWERS}.{name}.{self.asked}"
        connection.publish(self.bytes_of(subject), reply.encode(), header, body)

        def answered() -> bool:
            return connection.closed or any(message.subject == reply for message in answers[count:])

        if not self.wait(answered, step) or connection.closed:
            return "(no answer)"
        answer = next(message for message in answers[count:] if message.subject == reply)
        return shown(answer, self.script.loose, with_subject=False)

    def do_api(self, step: Step) -> str:
        return self.request(step, f"$JS.API.{step.words[0]}", self.body(step.text))

    def do_req(self, step: Step) -> str:
        header, text = headers_and_text(step.text)
        return self.request(step, step.words[0], self.bytes_of(text), self.bytes_of(header))

    do_pub = do_req

    def do_stream(self, step: Step) -> str:
        (name,) = step.words
        body = self.body(step.text, {"name": name, "storage": "memory"})
        return self.request(step, f"$JS.API.STREAM.CREATE.{name}", body)

    def do_update(self, step: Step) -> str:
        (name,) = step.words
        body = self.body(step.text, {"name": name, "storage": "memory"})
        return self.request(step, f"$JS.API.STREAM.UPDATE.{name}", body)

    def do_consumer(self, step: Step) -> str:
        stream, name = step.words
        fields = parse(self.bytes_of(step.text).decode()) if step.text else {}
        config = {"durable_name": name, "ack_policy": "explicit", **fields}
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        return self.request(step, f"$JS.API.CONSUMER.CREATE.{stream}.{name}", body)

    def settle(self) -> None:
        wait(list(self.connections.values()), lambda: False, time.monotonic() + SETTLE_S)

    def do_info(self, step: Step) -> str:
        self.settle()
        kind = "CONSUMER" if " " in step.text else "STREAM"
        return self.request(step, f"$JS.API.{kind}.INFO.{step.text.replace(' ', '.')}", b"")

    # ---- messages ----

    def do_put(self, step: Step) -> None:
        self.put(step.words[0], step.text)
        self.sync(self.here)

    def put(self, subject: str, text: str) -> None:
        header, text = headers_and_text(text)
        self.here.publish(self.bytes_of(subject), b"", self.bytes_of(header), self.bytes_of(text))

    def do_fast(self, step: Step) -> None:
        header, text = headers_and_text(step.text)
        subject, reply = (self.bytes_of(word) for word in step.words)
        self.here.publish(subject, reply, self.bytes_of(header), self.bytes_of(text))
        self.sync(self.here)

    def do_pubs(self, step: Step) -> str:
        count = int(step.words[0])
        for number in range(1, count):
            self.put(step.words[1].replace("#", str(number)), step.text.replace("#", str(number)))
        header, text = headers_and_text(step.text.replace("#", str(count)))
        subject = step.words[1].replace("#", str(count))
        return self.request(step, subject, self.bytes_of(text), self.bytes_of(header))

    def do_sub(self, step: Step) -> None:
        subject, _, queue = step.text.partition(" ")
        self.here.subscribe(self.inbox(step.words[0]), self.bytes_of(subject), queue.encode())
        self.sync(self.here)

    def do_unsub(self, step: Step) -> None:
        sid = self.here.sids[step.words[0]]
        self.here.send(f"UNSUB {sid}{' ' * bool(step.text)}{step.text}\r\n".encode())
        self.sync(self.here)

    def do_pull(self, step: Step) -> None:
        name, consumer = step.words
        self.settle()
        self.ask(name, f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", self.body(step.text), b"")

    def do_ask(self, step: Step) -> None:
        header, text = headers_and_text(step.text)
        self.ask(step.words[0], step.words[1], self.bytes_of(text), self.bytes_of(header))

    def ask(self, name: str, subject: str, body: bytes, header: bytes) -> None:
        inbox = self.inbox(name)
        reply = f"_I.{name}".encode()
        if name not in self.here.sids:
            self.here.subscribe(inbox, reply)
        self.here.publish(self.bytes_of(subject), reply, header, body)
        self.sync(self.here)

    def do_got(self, step: Step) -> str | None:
        started = time.monotonic()
        count, _, longer_s = step.text.partition(" > ")
        inbox = self.inboxes[step.words[0]]
        self.wait(lambda: len(inbox.messages) >= int(count), step)
        if not longer_s:
            return None
        return "in time" if time.monotonic() - started > float(longer_s) else "too soon"

    def do_ack(self, step: Step) -> str:
        message = self.message(*step.words)
        return self.request(step, message.reply, self.bytes_of(step.text))

    def do_say(self, step: Step) -> None:
        message = self.message(*step.words)
        self.here.publish(message.reply.encode(), b"", b"", self.bytes_of(step.text))
        self.sync(self.here)

    def do_seen(self, step: Step) -> str:
        self.sync(self.here)
        return f"{len(self.inboxes[step.words[0]].messages)} messages"

    def do_forget(self, step: Step) -> None:
        self.inboxes[step.words[0]].shown = False

    def do_unordered(self, step: Step) -> None:
        self.inbox(step.words[0]).ordered = False

    # ---- the rest ----

    def do_on(self, step: Step) -> None:
        name = step.words[0]
        if name in self.connections:
            self.here = self.connections[name]
        else:
            self.connect(name, parse(step.text) if step.text else {})

    def do_close(self, step: Step) -> None:
        connection = self.connections[step.words[0]]
        connection.flush()
        connection.socket.close()
        connection.closed = True

    def do_elapse(self, step: Step) -> None:
        until = time.monotonic() + float(step.words[0])
        wait(list(self.connections.values()), lambda: False, until)

    def do_filled(self, step: Step) -> None:
        until = time.monotonic() + self.patience_s
        with Api(self.port, user=self.users.get(id(self.here), "")) as api:
            while api.ask(f"STREAM.INFO.{step.words[0]}").get("state", {}).get("messages") != int(step.text):
                if time.monotonic() > until:
                    self.transcript.late.append(str(step))
                    return
                self.settle()

    def do_mark(self, step: Step) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self.times[step.words[0]] = now.isoformat().replace("+00:00", "Z")

    def do_differs(self, step: Step) -> None:
        """It is for those who compare."""

    do_loose = do_differs


def shown(message: Message, loose: frozenset[str], with_subject: bool = True) -> str:
    """A message as a line of a transcript."""
    words = [mask.subject(message.subject)] * with_subject
    if message.reply:
        words.append(f"({mask.subject(message.reply)})")
    if message.header:
        words.append(mask.header(message.header))
    return " ".join([*words, "|", mask.payload(message.payload, loose)])
