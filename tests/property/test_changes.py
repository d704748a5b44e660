"""Whoever asks for what, and in whatever order the disk gets to it: everybody is answered, and the disk agrees."""

from typing import Any

import msgspec
import pytest

from sim.worker import SimWorker
from tidelog.base.chance import Chance
from unit.broker.desk.harbor import Harbor, replies
from unit.broker.house import Client

CLIENTS = 6
REQUESTS = 30
Consumers = dict[str, set[str]]


def request(chance: Chance, inbox: bytes) -> bytes:
    """One of all that make, change, delete or describe a stream or a consumer."""
    name, consumer = "STUV"[chance.integer(4)], "cd"[chance.integer(2)]
    config: dict[str, Any] = {"name": name, "subjects": [f"{name}.>"]}
    durable = {"durable_name": consumer, "ack_policy": "explicit", "description": str(chance.integer(3))}
    subject, body = [
        (f"STREAM.CREATE.{name}", config),
        (f"STREAM.UPDATE.{name}", {**config, "max_msgs": chance.integer(50)}),
        (f"STREAM.DELETE.{name}", None),
        (f"STREAM.INFO.{name}", None),
        ("STREAM.NAMES", None),
        (f"CONSUMER.CREATE.{name}.{consumer}", {"stream_name": name, "config": durable}),
        (f"CONSUMER.DELETE.{name}.{consumer}", None),
        (f"CONSUMER.PAUSE.{name}.{consumer}", {"pause_until": "2100-01-01T00:00:00Z"}),
        (f"CONSUMER.INFO.{name}.{consumer}", None),
    ][chance.integer(9)]
    data = msgspec.json.encode(body) if body is not None else b""
    return b"PUB $JS.API.%b %b %d\r\n%b\r\n" % (subject.encode(), inbox, len(data), data)


def consumers(harbor: Harbor) -> Consumers:
    streams = harbor.desk.accounts["$G"].streams
    assert streams is not None
    return {name: set(stream.consumers) for name, stream in streams.streams.items()}


@pytest.mark.parametrize("seed", range(40))
def test_everybody_is_answered_once_and_the_disk_agrees(seed: int) -> None:
    """ENGINE-1, CONSUMER-8"""
    chance, worker = Chance(seed), SimWorker()
    harbor = Harbor(worker=worker)
    clients: list[tuple[Client, bytes]] = []
    for number in range(CLIENTS):
        client, inbox = harbor.house.client(headers=True, no_responders=True), b"_Q%d.1" % number
        client.send(b"SUB %b 1\r\n" % inbox)
        clients.append((client, inbox))
    for _ in range(REQUESTS):
        client, inbox = clients[chance.integer(CLIENTS)]
        client.send(request(chance, inbox))
        for _ in range(chance.integer(4)):
            worker.half_step(chance)
        if chance.integer(3) == 0:
            harbor.tick()
    while len(worker):
        worker.half_step(chance)
    harbor.tick()
    worker.run_all()
    assert sum(len(replies(client.read())) for client, _ in clients) == REQUESTS
    assert not harbor.engine.changing
    assert not harbor.house.log.of("error")
    there = consumers(harbor)
    harbor.engine.close()
    again = Harbor(disk=harbor.disk)
    assert consumers(again) == there
    assert again.engine.failures == {}
