"""`$TIDELOG.API.READ.<stream>`: a range of sequences in bulk, as blocks of Arrow.

    {"start_seq": 1, "end_seq": 0, "filters": ["a.>"], "max_bytes": 0}

`end_seq` is not included, and 0 means all that is committed now. The answer is some messages, each of them an Arrow IPC
stream of its own, in the order of sequences, then `204 EOB`, which says from where to go on:

    Tidelog-First-Seq, Tidelog-Last-Seq, Tidelog-Messages      of a block
    Tidelog-Next-Seq, Nats-UpTo-Sequence, Nats-Num-Pending     at the end: ask on from there, up to here, for so many
    Tidelog-Lost, Tidelog-Trimmed                              at the end, if there was something: `5-9,12-12`

Promises
  * What is answered is committed. Everything that matches in [start_seq, next_seq) is in the blocks, once, or told of
    as lost or trimmed; what was deleted is left out.
  * A block is made by the worker; the loop only looks up where messages lie. One request has one block under way, and
    gets no more than `max_bytes`, or READ_ANSWER_SIZE.
  * A refusal is a document, as everywhere in the API, and has no header.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.base.limits import READ_ANSWER_SIZE, READ_BLOCK_COUNT, READ_BLOCK_SIZE
from tidelog.broker.desk.cursor import TYPE_PREFIX
from tidelog.broker.desk.request import LATER, Entry, Later, Request
from tidelog.cold.block import encode_block
from tidelog.log.fact import Lost, Trimmed
from tidelog.log.filter import Filter
from tidelog.log.read import Batch
from tidelog.stream import failure
from tidelog.stream.patience import Patience
from tidelog.stream.strict import Int, Uint64


class ReadRequest(msgspec.Struct):
    start_seq: Uint64 = 1
    end_seq: Uint64 = 0
    filters: list[str] = []
    max_bytes: Int = 0


class Reading:
    """One request, block after block."""

    def __init__(self, request: Request, asked: ReadRequest) -> None:
        stream = request.stream(1)
        try:
            filter = Filter(*(subject.encode() for subject in asked.filters))
        except ValueError as error:
            raise failure.STREAM_GENERAL(err=f"filters: {error}") from None
        self.request = request
        self.stream = stream
        self.up_to_seq = stream.log.horizon.committed_seq
        if asked.end_seq:
            self.up_to_seq = min(self.up_to_seq, asked.end_seq - 1)
        self.start_seq = max(asked.start_seq, 1)
        self.reader = stream.log.reader(filter, start_seq=self.start_seq, stop_seq=self.up_to_seq)
        self.left = min(asked.max_bytes, READ_ANSWER_SIZE) if asked.max_bytes > 0 else READ_ANSWER_SIZE
        self.facts: list[Lost | Trimmed] = []
        self.due_ns = 0  # until when what is in the cold tier is waited for; 0: nothing is

    def go_on(self) -> None:
        """Begin the next block, or end."""
        if self.stream.stopped:
            self.request.refuse(failure.STREAM_NOT_FOUND())
            return
        batch = None
        if self.left > 0:
            batch = self.reader.read(READ_BLOCK_COUNT, min(READ_BLOCK_SIZE, self.left))
            self.facts += batch.facts
        if batch is not None and batch.awaited and not len(batch):
            self.wait()
            return
        self.due_ns = 0
        if batch is None or not len(batch):
            self.end()
            return
        self.left -= batch.size
        self.request.desk.engine.worker.submit(
            lambda: encode_block(batch), lambda block, error: self.made(batch, block, error)
        )

    def wait(self) -> None:
        """What is next is in the cold tier. The asker has what there was, if that takes long."""
        desk = self.request.desk
        self.due_ns = Patience(desk.engine, self.stream.log, self.go_on, self.give_up, self.due_ns).due_ns

    def give_up(self, why: str) -> None:
        if self.reader.next_seq > self.start_seq:
            self.end()
        else:
            self.request.refuse(failure.STREAM_GENERAL(err=why))

    def made(self, batch: Batch, block: bytes | None, error: BaseException | None) -> None:
        if block is None:
            text = (
                "bulk reads need pyarrow: pip install 'tidelog[cold]'"
                if isinstance(error, ImportError)
                else str(error)
            )
            self.request.refuse(failure.STREAM_GENERAL(err=text))
            return
        first_seq, last_seq = batch.bounds()
        self.say(
            "",
            block,
            ("Tidelog-First-Seq", first_seq),
            ("Tidelog-Last-Seq", last_seq),
            ("Tidelog-Messages", len(batch)),
        )
        self.go_on()

    def end(self) -> None:
        lines: list[tuple[str, object]] = [
            ("Tidelog-Next-Seq", max(self.start_seq, min(self.reader.next_seq, self.up_to_seq + 1))),
            ("Nats-UpTo-Sequence", self.up_to_seq),
            ("Nats-Num-Pending", self.reader.pending()),
        ]
        for name, kind in (("Tidelog-Lost", Lost), ("Tidelog-Trimmed", Trimmed)):
            told = [fact for fact in self.facts if isinstance(fact, kind)]
            if told:
                lines.append((name, ranges(told)))
        self.say(" 204 EOB", b"", *lines)

    def say(self, status: str, payload: bytes, *lines: tuple[str, object]) -> None:
        header = f"NATS/1.0{status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines) + "\r\n"
        if self.request.reply is not None:
            self.request.account.post.publish(self.request.reply, payload, header.encode())


def ranges(facts: Iterable[Lost | Trimmed]) -> str:
    return ",".join(f"{fact.start_seq}-{fact.end_seq - 1}" for fact in facts)


def read(request: Request) -> Later:
    Reading(request, request.decode_if_any(ReadRequest)).go_on()
    return LATER


ENTRIES = (Entry("READ.*", "read_response", read, prefix=TYPE_PREFIX),)
