"""With retention by interest, what goes is what nobody needs, however many consumers there are."""

import random
from typing import Any

import pytest

from tidelog.base.limits import TAKER_PLACES_KEPT, TAKER_SUBJECTS_KEPT
from tidelog.stream.consumer import Consumer
from unit.stream.quay import Delivered, Quay
from unit.stream.shore import contents

FILTERS = (["S.>"], ["S.1"], ["S.*"], ["S.2", "S.3"], ["S.1.a", "S.*.b"], ["S.3", "S.*.*"])
SUBJECTS = (b"S.1", b"S.2", b"S.3", b"S.1.a", b"S.2.b", b"S.3.c")


def needed(consumers: dict[str, Consumer], subjects: dict[int, bytes]) -> set[int]:
    """What has to be there, by asking everybody about everything."""
    return {
        seq
        for seq, subject in subjects.items()
        if any(one.filter.accepts(subject) and one.needs(seq) for one in consumers.values())
    }


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_what_somebody_needs(seed: int) -> None:
    """STREAM-4"""
    chance = random.Random(seed)
    quay = Quay()
    stream = quay.stream(retention="interest", storage="memory")
    subjects: dict[int, bytes] = {}
    got: list[Delivered] = []
    quay.consumer("c0")
    names = 1
    for _ in range(400):
        consumers: dict[str, Consumer] = dict(stream.consumers)
        draw = chance.random()
        if draw < 0.35:
            subject = chance.choice(SUBJECTS)
            quay.send(subject, b"", reply=None)
            quay.engine.commit()
            seq = stream.log.store.last_seq
            if any(one.filter.accepts(subject) for one in consumers.values()):
                subjects[seq] = subject
        elif draw < 0.6 and consumers:
            got += quay.fetch(chance.choice(list(consumers.values())), chance.randint(1, 5))
        elif draw < 0.9 and got:
            quay.ack(got.pop(chance.randrange(len(got))))
        elif draw < 0.95:
            quay.consumer(f"c{names}", filter_subjects=chance.choice(FILTERS))
            names += 1
        elif draw < 0.97 and len(consumers) > 1:
            name = chance.choice(list(consumers))
            stream.keeper.delete(name)
            got = [one for one in got if f".S.{name}." not in str(one.reply)]
        elif consumers:
            name = chance.choice(list(consumers))
            quay.consumer(name, filter_subjects=chance.choice(FILTERS))
        quay.engine.commit()
        kept = {seq for seq, _, _ in contents(stream)}
        must = needed(stream.consumers, subjects)
        assert must <= kept
        # What somebody stopped to want while others were done stays until it is looked at again.
        subjects = {seq: subject for seq, subject in subjects.items() if seq in kept}


def crowd(quay: Quay, count: int, **fields: Any) -> list[Consumer]:
    return [quay.consumer(f"c{number}", max_ack_pending=-1, **fields) for number in range(count)]


def test_the_last_one_who_is_done_lets_a_message_go() -> None:
    """STREAM-4: in whatever order they are."""
    quay = Quay()
    stream = quay.stream(retention="interest", storage="memory")
    consumers = crowd(quay, 20)
    quay.fill(30)
    acks = [message for consumer in consumers for message in quay.fetch(consumer, 30)]
    random.Random(1).shuffle(acks)
    waited = dict.fromkeys(range(1, 31), 20)
    for message in acks:
        quay.ack(message)
        # Twice is once.
        quay.ack(message)
        waited[message.seq] -= 1
        assert (stream.get(message.seq) is None) == (waited[message.seq] == 0)


def test_who_goes_back_needs_it_again() -> None:
    """STREAM-4"""
    quay = Quay()
    stream = quay.stream(retention="interest", storage="memory")
    one, other = crowd(quay, 2)
    quay.fill(3)
    for message in quay.fetch(one, 3):
        quay.ack(message)
    stream.keeper.reset("c0", 1)
    for message in quay.fetch(other, 3):
        quay.ack(message)
    assert [seq for seq, _, _ in contents(stream)] == [1, 2, 3]
    for message in quay.fetch(one, 3):
        quay.ack(message)
    assert contents(stream) == []


def test_more_than_is_remembered() -> None:
    """STREAM-4"""
    quay = Quay()
    stream = quay.stream(retention="interest", storage="memory")
    one, other = crowd(quay, 2, filter_subject="S.>")
    quay.consumer("third", filter_subject="S.0", max_ack_pending=-1)
    count = TAKER_PLACES_KEPT + 2
    quay.fill(count, subjects=TAKER_SUBJECTS_KEPT + 1)
    assert stream.log.store.count == count
    for consumer in (one, other):
        left = count
        while left:
            batch = quay.fetch(consumer, min(left, 1000))
            left -= len(batch)
            for message in batch:
                quay.ack(message)
    # One of them is still waited for, of the subject that comes again and again.
    rest = [seq for seq, _, _ in contents(stream)]
    assert rest == list(range(1, count + 1, TAKER_SUBJECTS_KEPT + 1))
