"""Staying awake for a moment at the end of a tick: it ends with what comes, and is given up where nothing does."""

import asyncio
import os
from collections.abc import Iterator

import pytest
import uvloop

from tidelog.base.limits import LINGER_PAUSE
from tidelog.serve.linger import Linger, waited_on


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_waits_in_vain_become_rare(pipe: tuple[int, int]) -> None:
    linger = Linger(pipe[0])
    pauses = []
    for _ in range(200):
        linger.wait()
        if linger.pause not in pauses:
            pauses.append(linger.pause)
    assert pauses == [1, 3, 7, 15, 31, LINGER_PAUSE]


def test_what_comes_brings_them_back(pipe: tuple[int, int]) -> None:
    linger = Linger(pipe[0])
    for _ in range(200):
        linger.wait()
    os.write(pipe[1], b"x")
    for _ in range(2 * LINGER_PAUSE):
        linger.wait()
    assert linger.pause == 0


def test_without_a_descriptor_there_is_no_wait() -> None:
    linger = Linger(-1)
    for _ in range(3):
        linger.wait()
    assert linger.pause == 0


def test_the_descriptor_of_a_loop_is_readable_when_the_loop_has_something_to_do(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    heard: list[bytes] = []

    async def watch() -> int:
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe[0], lambda: heard.append(os.read(pipe[0], 1)))
        await asyncio.sleep(0)
        linger = Linger(waited_on(loop))
        linger.wait()
        idle = linger.pause
        os.write(pipe[1], b"x")
        linger.wait()  # sits this one out
        linger.wait()
        await asyncio.sleep(0.01)
        loop.remove_reader(pipe[0])
        assert linger.pause == 0
        return idle

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(watch()) == 1
    assert heard == [b"x"]


def test_one_processor_or_another_loop_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = uvloop.new_event_loop()
    plain = asyncio.new_event_loop()
    try:
        assert waited_on(plain) == -1
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
        assert waited_on(loop) == -1
    finally:
        loop.close()
        plain.close()
