"""Starts a server with a file stream, lets stock clients publish and consume, kills it, and starts it again.

The clients are nats-py as it is: they reconnect by themselves. One publishes with message ids and tries each message
until it is acknowledged; one consumes through a durable consumer and acknowledges, half of it with confirmation. They
notice the kills by what their calls raise, and do not stop for them. What they were told goes to a `StreamLedger`.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

from crash.stream_ledger import StreamLedger
from tidelog.base.chance import Chance
from tidelog.bench.startup import free_port
from tidelog.testing.peer import ServerProcess, tidelog_argv

STREAM = "CRASH"
SUBJECTS = 7
IN_FLIGHT = 8
# Between one message and the next of each publisher: what is wanted is many kills, not many messages.
PAUSE_S = 0.01
# Small enough that the client comes to every message long before it is delivered again.
PENDING = 256
ACK_WAIT_S = 1.0
# What a client may wait for one answer, and the whole store for its clients to come to an end.
ANSWER_S = 2.0
FETCH_S = 0.3
# What a kill made the server forget that it had delivered gets no confirmation, and there may be many of it.
CONFIRM_S = 0.3
PATIENCE_S = 60.0
READY_S = 30.0
FAULTS = (nats.errors.Error, nats.js.errors.Error, asyncio.TimeoutError, ConnectionError, OSError)


@dataclass(frozen=True)
class StreamPlan:
    """What a store is given, all from its seed."""

    seed: int
    sync: str
    compression: str
    kind: str  # of consumer

    @classmethod
    def drawn(cls, seed: int) -> "StreamPlan":
        chance = Chance(seed)
        return cls(
            seed,
            ("strict", "durable", "balanced", "throughput")[chance.integer(4)],
            ("none", "s2")[chance.integer(2)],
            ("pull", "pull", "push")[chance.integer(3)],
        )


class StreamSupervisor:
    """One store, from an empty directory to the check at the end."""

    def __init__(self, root: str, plan: StreamPlan) -> None:
        self.plan = plan
        self.chance = Chance(plan.seed + 7)
        self.ledger = StreamLedger()
        self.port = free_port()
        flags = ["-p", str(self.port), "-js", "-sd", root]
        self.server = ServerProcess(tidelog_argv(), flags=flags, ready_s=READY_S)
        self.clients: list[Client] = []
        self.next_number = 0
        self.publishing = self.consuming = True
        self.batch: list[Msg] = []  # fetched, and still to be looked at
        self.queue: asyncio.Queue[Msg] = asyncio.Queue()  # of the client's subscription
        self.log = ""

    async def run(self, kills: int) -> StreamLedger:
        self.server.start()
        try:
            async with contextlib.AsyncExitStack() as stack:
                publisher, consumer = [await self.client(stack) for _ in range(2)]
                await self.prepare(publisher)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.consume(consumer))
                    publishers = [tasks.create_task(self.publish(publisher)) for _ in range(IN_FLIGHT)]
                    for _ in range(kills):
                        await self.round()
                    self.publishing = False
                    await asyncio.wait_for(asyncio.gather(*publishers), PATIENCE_S)
                    await self.until(self.ledger.all_delivered)
                    # Not cancelled: the client's calls may take that for something else.
                    self.consuming = False
                self.ledger.check(await self.read(publisher))
        finally:
            if self.server.running:
                self.log = self.server.log
            self.server.stop()
        return self.ledger

    async def client(self, stack: contextlib.AsyncExitStack) -> Client:
        async def quiet(_error: Exception) -> None:
            """Kills are expected."""

        client = await nats.connect(
            f"nats://127.0.0.1:{self.port}",
            reconnect_time_wait=0.02,
            max_reconnect_attempts=-1,
            error_cb=quiet,
        )
        stack.push_async_callback(client.close)
        self.clients.append(client)
        return client

    async def prepare(self, client: Client) -> None:
        stream = client.jetstream(timeout=ANSWER_S)
        await stream.add_stream(
            StreamConfig(
                name=STREAM,
                subjects=["crash.*"],
                storage=StorageType.FILE,
                compression=self.plan.compression,  # type: ignore[arg-type]
                metadata={"tidelog.sync": self.plan.sync},
                allow_direct=True,
            )
        )
        deliver = {"deliver_subject": "crash-deliveries"} if self.plan.kind == "push" else {}
        await stream.add_consumer(
            STREAM,
            ConsumerConfig(
                durable_name="worker",
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=ACK_WAIT_S,
                max_ack_pending=PENDING,
                **deliver,  # type: ignore[arg-type]
            ),
        )

    # ---- kills ----

    async def round(self) -> None:
        """Wait until there was progress, and a moment more; then kill, and start again."""
        published, delivered = len(self.ledger.seqs), self.ledger.deliveries.total()
        await self.until(
            lambda: len(self.ledger.seqs) > published and self.ledger.deliveries.total() > delivered
        )
        await asyncio.sleep(self.chance.fraction() * (0.05, 0.3, 1.0)[self.chance.integer(3)])
        os.kill(self.server.pid, signal.SIGKILL)
        self.ledger.killed()
        await asyncio.to_thread(self.server.wait)
        self.log = self.server.log
        self.server.stop()
        await asyncio.to_thread(self.server.start)

    async def until(self, reached: Any) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline_s, f"nothing goes on:\n{await self.situation()}"
            await asyncio.sleep(0.01)

    async def situation(self) -> str:
        """What both sides say of their connections, and of the consumer."""
        lines = [
            f"client: {client.stats}, {client.pending_data_size} bytes unsent" for client in self.clients
        ]
        for path in ("/connz?subs=1", "/jsz?consumers=1"):
            lines.append(json.dumps(await asyncio.to_thread(self.server.monitor_json, path)))
        return "\n".join(lines)

    # ---- clients ----

    async def publish(self, client: Client) -> None:
        stream = client.jetstream(timeout=ANSWER_S)
        while self.publishing:
            number = self.next_number
            self.next_number += 1
            while True:
                try:
                    answer = await stream.publish(
                        f"crash.{number % SUBJECTS}",
                        b"%d " % number + b"x" * (number % 200),
                        headers={"Nats-Msg-Id": str(number)},
                    )
                except FAULTS:
                    await asyncio.sleep(0.01)
                    continue
                self.ledger.published(number, answer.seq, duplicate=bool(answer.duplicate))
                await asyncio.sleep(PAUSE_S)
                break

    async def consume(self, client: Client) -> None:
        if self.plan.kind == "push":
            subscription = await client.subscribe("crash-deliveries")
            self.queue = subscription._pending_queue
            while self.consuming:
                with contextlib.suppress(*FAULTS):
                    await self.handle(await subscription.next_msg(timeout=FETCH_S))
            return
        stream = client.jetstream(timeout=ANSWER_S)
        pulled = await stream.pull_subscribe_bind("worker", STREAM)
        self.queue = pulled._sub._pending_queue
        while self.consuming:
            try:
                self.batch = await pulled.fetch(32, timeout=FETCH_S)
            except FAULTS:
                await asyncio.sleep(0.005)
                continue
            while self.batch:
                await self.handle(self.batch.pop(0))

    async def handle(self, message: Msg) -> None:
        seq = message.metadata.sequence.stream
        self.ledger.delivered(int(message.data.split()[0]), seq)
        try:
            if seq % 8:
                await message.ack()
            else:
                asked_s = time.monotonic()
                await message.ack_sync(timeout=CONFIRM_S)
                self.ledger.confirmed(seq, asked_s, self.waiting(seq))
        except FAULTS:
            return

    def waiting(self, seq: int) -> int:
        """How many copies of a message have come and are still to be looked at."""
        queued = list(self.queue._queue)  # type: ignore[attr-defined]
        there = [message for message in [*self.batch, *queued] if message.reply.startswith("$JS.ACK.")]
        return sum(message.metadata.sequence.stream == seq for message in there)

    async def read(self, client: Client) -> list[tuple[int, int]]:
        """Every message of the stream: sequence and number."""
        stream = client.jetstream(timeout=ANSWER_S)
        count = (await stream.stream_info(STREAM)).state.messages
        pulled = await stream.pull_subscribe(
            "crash.*", stream=STREAM, config=ConsumerConfig(ack_policy=AckPolicy.NONE)
        )
        stored = list[tuple[int, int]]()
        while len(stored) < count:
            for message in await pulled.fetch(500, timeout=ANSWER_S):
                stored.append((message.metadata.sequence.stream, int(message.data.split()[0])))
        return stored
