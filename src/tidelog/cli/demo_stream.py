"""The part of `tidelog demo` with a stream: written, read in both directions, worked on, killed, and nothing lost.

Everything but the look backwards is what nats-py offers; that is the snippet of docs/how-to/read-backwards.md.
"""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any

from rich.console import Console

from tidelog.cli.demo_figure import Figure, expect
from tidelog.testing.peer import ServerProcess, tidelog_argv

ORDERS = 10_000
CUSTOMERS = 100
# Publishes that are under way at a time.
WINDOW = 500
# What is acknowledged before the server dies; the rest comes after.
WORKED_ON = 4_000
BATCH = 500
READ_TIMEOUT_S = 10.0
ACK_WAIT_S = 1
DRAIN_TIMEOUT_S = 30.0


def stream_figures(console: Console, nats: Any) -> list[Figure]:
    console.rule("A stream, and kill -9")
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as store:
        flags = ["-js", "-sd", store]
        with ServerProcess(tidelog_argv(), flags=flags) as server:
            found = asyncio.run(before_the_kill(server.url, nats))
            server.signal(signal.SIGKILL)
            server.wait()
        console.print("The server was killed with SIGKILL; another one opens its directory.")
        start_s = time.perf_counter()
        with ServerProcess(tidelog_argv(), flags=flags) as server:
            ready_s = time.perf_counter() - start_s
            found += asyncio.run(after_the_kill(server.url, nats))
        return [*found, Figure("start on the directory of the killed server", f"{ready_s * 1000:,.0f} ms")]


async def before_the_kill(url: str, nats: Any) -> list[Figure]:
    client = await nats.connect(url)
    try:
        js = client.jetstream()
        await js.add_stream(name="ORDERS", subjects=["orders.>"], storage="file", allow_direct=True)
        found = [await write(js)]
        found += await read_both_ways(client, js)
        await js.add_consumer("ORDERS", durable_name="billing", ack_policy="explicit", ack_wait=ACK_WAIT_S)
        found.append(await work(js, range(1, WORKED_ON + 1)))
        return found
    finally:
        await client.close()


async def after_the_kill(url: str, nats: Any) -> list[Figure]:
    """Every acknowledged message is there once, and the consumer goes on where it was."""
    client = await nats.connect(url)
    try:
        js = client.jetstream()
        state = (await js.stream_info("ORDERS")).state
        expect(
            (state.messages, state.last_seq) == (ORDERS, ORDERS), "every acknowledged message after the kill"
        )
        seqs = [seq async for seq, _ in backwards(client, "ORDERS", "orders.>")]
        expect(seqs == list(range(ORDERS, 0, -1)), "each of them once")
        rest = await work_off(js)
        left_over = set(range(WORKED_ON + 1, ORDERS + 1))
        expect(left_over <= set(rest), "every message that was not worked on")
        return [
            Figure("stored before kill -9, and there behind it", f"{ORDERS:,} of {state.messages:,}"),
            Figure("worked on before it, and behind it", f"{WORKED_ON:,} + {len(left_over):,}"),
            Figure("acknowledged in its last 0.1 s, and delivered again", f"{len(rest) - len(left_over):,}"),
        ]
    finally:
        await client.close()


async def write(js: Any) -> Figure:
    """Each is acknowledged when it is on the medium: file streams are `strict` unless told otherwise."""
    start_s = time.perf_counter()
    for first in range(1, ORDERS + 1, WINDOW):
        publishes = [
            js.publish(f"orders.{number % CUSTOMERS}.created", b"%d" % number)
            for number in range(first, first + WINDOW)
        ]
        acks = await asyncio.gather(*publishes)
        expect([ack.seq for ack in acks] == list(range(first, first + WINDOW)), "sequences in order")
    rate = ORDERS / (time.perf_counter() - start_s)
    return Figure("stored and synced per second (by a Python client)", f"{rate:,.0f}")


async def read_both_ways(client: Any, js: Any) -> list[Figure]:
    subscription = await js.subscribe("orders.>", ordered_consumer=True)
    start_s = time.perf_counter()
    forwards = [int((await subscription.next_msg(READ_TIMEOUT_S)).data) for _ in range(ORDERS)]
    middle_s = time.perf_counter()
    await subscription.unsubscribe()
    newest_s = 0.0
    back: list[int] = []
    async for _, data in backwards(client, "ORDERS", "orders.>"):
        newest_s = newest_s or time.perf_counter() - middle_s
        back.append(int(data))
    expect(forwards == list(range(1, ORDERS + 1)), "every message, in order")
    expect(back == forwards[::-1], "the same messages backwards")
    one = [int(data) async for _, data in backwards(client, "ORDERS", "orders.7.*")]
    expect(
        one == [number for number in reversed(forwards) if number % CUSTOMERS == 7], "one customer's orders"
    )
    return [
        Figure("read forwards per second, by an ordered consumer", f"{ORDERS / (middle_s - start_s):,.0f}"),
        Figure("the newest message, reading backwards, after", f"{newest_s * 1000:,.1f} ms"),
        Figure("read backwards, all and one customer's", f"{len(back):,} + {len(one):,}"),
    ]


async def backwards(
    client: Any, stream: str, subject: str, batch: int = 500
) -> AsyncIterator[tuple[int, bytes]]:
    pending = 1
    anchor: dict[str, object] = {"last_by_subj": subject}
    while pending:
        inbox = client.new_inbox()
        replies = await client.subscribe(inbox)
        ask = {"reverse": True, "batch": batch, **anchor}
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(ask).encode(), inbox)
        while "Nats-Sequence" in (message := await replies.next_msg(READ_TIMEOUT_S)).headers:
            seq = int(message.headers["Nats-Sequence"])
            yield seq, message.data
            anchor = {"seq": seq - 1, "prev_by_subj": subject}
        await replies.unsubscribe()
        pending = int(message.headers["Nats-Num-Pending"])


async def work(js: Any, wanted: range) -> Figure:
    """Fetch and acknowledge, each acknowledgement confirmed."""
    subscription = await js.pull_subscribe_bind("billing", "ORDERS")
    done: list[int] = []
    start_s = time.perf_counter()
    while len(done) < len(wanted):
        messages = await subscription.fetch(min(BATCH, len(wanted) - len(done)), READ_TIMEOUT_S)
        await asyncio.gather(*(message.ack_sync(READ_TIMEOUT_S) for message in messages))
        done += [int(message.data) for message in messages]
    expect(done == list(wanted), "every message once, in order")
    rate = len(done) / (time.perf_counter() - start_s)
    await subscription.unsubscribe()
    return Figure("worked on and acknowledged per second, each confirmed", f"{rate:,.0f}")


async def work_off(js: Any) -> list[int]:
    """All that is left for the consumer. What was on its way when the server died comes when its time is up."""
    subscription = await js.pull_subscribe_bind("billing", "ORDERS")
    done: list[int] = []
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while time.monotonic() < deadline:
        info = await js.consumer_info("ORDERS", "billing")
        if (info.num_pending, info.num_ack_pending) == (0, 0):
            break
        try:
            messages = await subscription.fetch(BATCH, ACK_WAIT_S)
        except TimeoutError:
            continue
        await asyncio.gather(*(message.ack_sync(READ_TIMEOUT_S) for message in messages))
        done += [int(message.data) for message in messages]
    else:
        expect(False, "a consumer that has done it all")
    await subscription.unsubscribe()
    return done
