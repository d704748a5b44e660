"""A log and an archive over a store that fails half of its requests, some of them when they were done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from sim.worker import SimWorker
from tidelog.base.chance import Chance
from tidelog.base.errors import ColdError
from tidelog.cold.archive import Archive, Place
from tidelog.cold.bucket import Bucket, open_bucket
from tidelog.cold.depot import Warehouse
from tidelog.log.depot import Depot, Tiering
from tidelog.log.read import Message
from unit.cold.test_object_store import endpoint, url
from unit.log.house import House
from unit.log.test_ferry import SETTINGS, ColdHouse

__all__ = ["endpoint", "url"]  # fixtures

Answer = TypeVar("Answer")


class HalfBucket:
    """Half of the calls fail; half of these have done what was asked all the same."""

    def __init__(self, bucket: Bucket, chance: Chance) -> None:
        self.bucket = bucket
        self.chance = chance
        self.failures = 0

    def call(self, work: Callable[[], Answer]) -> Answer:
        kind = self.chance.integer(4)
        if kind == 0:
            self.failures += 1
            raise ColdError("the store is busy")
        answer = work()
        if kind == 1:
            self.failures += 1
            raise ColdError("nobody has heard the answer")
        return answer

    def put_new(self, name: str, data: bytes) -> bool:
        return self.call(lambda: self.bucket.put_new(name, data))

    def replace(self, name: str, data: bytes) -> None:
        self.call(lambda: self.bucket.replace(name, data))

    def get(self, name: str) -> bytes:
        return self.call(lambda: self.bucket.get(name))

    def names(self, prefix: str) -> list[str]:
        return self.call(lambda: self.bucket.names(prefix))

    def remove(self, name: str) -> None:
        self.call(lambda: self.bucket.remove(name))


class ArchiveHouse(ColdHouse):
    """With an archive for a shed."""

    def __init__(self, url: str) -> None:
        self.warehouse = Warehouse(url, SimWorker(), SimWorker())
        super().__init__(Tiering(self.warehouse.depot("$G", "S"), local_size=0))

    def depot(self) -> Depot:
        return self.warehouse.depot("$G", "S")

    def others(self) -> int:
        fetcher, sender = self.warehouse.fetcher, self.warehouse.sender
        assert isinstance(fetcher, SimWorker)
        assert isinstance(sender, SimWorker)
        return fetcher.run_all() + sender.run_all()


def go_round(house: ArchiveHouse) -> list[Message]:
    plain = House(replace(SETTINGS))
    for one in (house, plain):
        one.fill(200)
        one.settle()
    assert house.husks() == len(house.log.store.segments) - 1
    messages = plain.messages()
    assert house.walk() == messages
    assert house.walk(backward=True) == messages
    return messages


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_requests_may_fail(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """COLD-5, COLD-6, COLD-9"""
    where = tmp_path_factory.mktemp("bucket").as_uri()
    house = ArchiveHouse(where)
    flaky = HalfBucket(open_bucket(where), Chance(seed))
    house.warehouse.set_bucket(flaky)
    go_round(house)
    assert flaky.failures > 20
    place = Place("$G", "S", house.log.store.log_id)
    archive = Archive(open_bucket(where), place)
    assert archive.bucket.names(f"{place.folder}/data") == [entry.name for entry in archive.manifest.entries]
    assert archive.manifest.end_seq == house.log.store.segments[-1].base_seq


def test_over_s3(url: str) -> None:
    """COLD-9"""
    house = ArchiveHouse(url)
    messages = go_round(house)
    house.crash(power=True)
    assert house.walk(backward=True) == messages
    house.log.purge(before_seq=100)
    house.log.commit()
    house.settle()
    assert [message.seq for message in house.walk()] == list(range(100, 201))
