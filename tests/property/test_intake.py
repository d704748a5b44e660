"""Whatever publishers write into headers: a stream goes on, keeps what it has over restarts, and so does its mirror."""

from random import Random
from typing import Any

import pytest

from tidelog.stream.publish import NAME_TEXTS
from tidelog.stream.stream_config import StreamSource
from unit.stream.shore import Shore, block, contents

SECOND = 1_000_000_000
NAMES = [name.decode() for name in NAME_TEXTS]
VALUES = [
    "", "1", "0", "-1", "+5", "never", "10s", "x" * 70, "9" * 5000, "1e5", "sub", "all", "eob", "b1", "b2", "2",
    "S.a", "S.b", "S.*", ">", "@at 2023-11-14T22:13:30Z", "@every 1s", "@hourly", "* * * * * *", "0 0 0 30 2 *",
    "@at x", "Europe/Berlin", "../../etc/passwd", "purge", "2023-11-14T22:13:30Z", "{}", '{"a":{"b":"c"}}',
    "ORIGIN 1 > > o.1", "S 1", "1 2 3 4 5 6", "9" * 22, "18446744073709551615", "1.5", "0x10", " ", "é",
]  # fmt: skip


def drawn_config(chance: Random) -> dict[str, Any]:
    fields: dict[str, Any] = {"allow_atomic": chance.random() < 0.6, "allow_batched": chance.random() < 0.5}
    kind = chance.randrange(4)
    if kind == 0:
        fields |= {"allow_msg_counter": True}
    elif kind == 1:
        fields |= {"allow_msg_schedules": True, "allow_rollup_hdrs": True, "allow_msg_ttl": True}
    elif kind == 2:
        fields |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": SECOND, "allow_rollup_hdrs": True}
    if chance.random() < 0.3:
        fields |= {"max_msgs": 20, "discard": chance.choice(["old", "new"])}
    return fields


def drawn_headers(chance: Random) -> list[str]:
    headers = [f"{chance.choice(NAMES)}: {chance.choice(VALUES)}" for _ in range(chance.randrange(4))]
    if chance.random() < 0.3:
        headers += [
            f"Nats-Batch-Id: b{chance.randrange(2)}",
            f"Nats-Batch-Sequence: {chance.randrange(1, 5)}",
        ]
    if chance.random() < 0.1:
        headers += [f"Nats-Schedule: {chance.choice(VALUES)}", "Nats-Schedule-Target: S.out"]
    return headers


@pytest.mark.parametrize("seed", range(12))
def test_a_stream_goes_on_whatever_is_published(seed: int) -> None:
    chance = Random(seed)
    shore = Shore()
    fields = drawn_config(chance)
    shore.stream(**fields)
    counts = {key: fields[key] for key in fields if key in ("allow_msg_ttl", "allow_msg_counter")}
    shore.stream("ALL", subjects=["g.>"], sources=[StreamSource(name="S")], **counts)
    shore.stream("MIRROR", subjects=[], mirror=StreamSource(name="S"))
    for _ in range(200):
        headers = drawn_headers(chance)
        reply = (
            f"reply.b.2.ok.{chance.randrange(4)}.{chance.randrange(6)}.$FI"
            if chance.random() < 0.2
            else "reply.1"
        )
        shore.account.post.publish(
            chance.choice([b"S.a", b"S.b", b"S.out"]),
            chance.choice([b"", b"p"]),
            header=block(*headers) if headers else b"",
            reply=reply.encode(),
        )
        if chance.random() < 0.3:
            shore.engine.commit()
        if chance.random() < 0.05:
            shore.advance(chance.random() * 3)
        if chance.random() < 0.02:
            shore.engine.commit()
            before = contents(shore.account.find("S"))
            shore.crash()
            assert contents(shore.account.find("S")) == before
    shore.engine.commit()
    assert set(contents(shore.account.find("S"))) <= set(contents(shore.account.find("MIRROR")))
