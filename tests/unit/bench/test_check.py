"""The checker must pass exactly one stream (up to interleaving) and refuse every other one."""

import random
from collections.abc import Sequence

import pytest

from tidelog.base.errors import ServerError
from tidelog.bench.check import Check
from tidelog.bench.fault import WrongDelivery
from tidelog.bench.workload import Delivered, delivered, lap

SUBJECT = ("bench.data",)


def streams(publishers: int, count: int = 7, size: int = 16) -> list[Delivered]:
    return [delivered(lap(SUBJECT, size=size, count=count, publisher=number)) for number in range(publishers)]


def check_for(several: Sequence[Delivered], laps: int) -> Check:
    return Check([(one.data, one.starts) for one in several], laps=laps, mark_at=several[0].mark_at)


def frames(stream: Delivered) -> list[bytes]:
    ends = [*stream.starts[1:], len(stream.data)]
    return [stream.data[start:end] for start, end in zip(stream.starts, ends, strict=True)]


def interleaved(several: Sequence[Delivered], laps: int, chance: random.Random) -> list[bytes]:
    """Every publisher's frames in order, the publishers in any order."""
    queues = [frames(one) * laps for one in several]
    result: list[bytes] = []
    while queues:
        queue = chance.choice(queues)
        run = chance.randint(1, 4)
        result += queue[:run]
        del queue[:run]
        queues = [rest for rest in queues if rest]
    return result


def feed_in_pieces(check: Check, data: bytes, chance: random.Random) -> None:
    at = 0
    while at < len(data):
        size = chance.choice((1, 2, 3, 11, 40, 1000))
        check.feed(data[at : at + size])
        at += size


@pytest.mark.parametrize("publishers", [1, 2, 4])
@pytest.mark.parametrize("seed", range(20))
def test_any_interleaving_in_any_pieces_passes(publishers: int, seed: int) -> None:
    chance = random.Random(seed)
    several = streams(publishers)
    check = check_for(several, 3)
    feed_in_pieces(check, b"".join(interleaved(several, 3, chance)), chance)
    assert check.left == 0


@pytest.mark.parametrize("publishers", [1, 3])
@pytest.mark.parametrize("seed", range(40))
def test_any_change_is_noticed(publishers: int, seed: int) -> None:
    chance = random.Random(seed)
    several = streams(publishers)
    sent = interleaved(several, 2, chance)
    at = chance.randrange(len(sent) - 1)
    match seed % 4:
        case 0:
            del sent[at]
        case 1:
            sent.insert(at, sent[at])
        case 2:
            own = [index for index, frame in enumerate(sent) if frame[20:22] == sent[at][20:22]]
            first, second = chance.sample(own, 2)
            if sent[first] == sent[second]:
                pytest.skip("the same message of two laps")
            sent[first], sent[second] = sent[second], sent[first]
        case _:
            changed = bytearray(sent[at])
            changed[chance.randrange(len(changed))] ^= 0x01
            sent[at] = bytes(changed)
    check = check_for(several, 2)
    try:
        feed_in_pieces(check, b"".join(sent), chance)
    except WrongDelivery:
        return
    assert check.left > 0, "a changed stream passed as complete"


def test_every_single_byte_counts() -> None:
    several = streams(1, count=2)
    good = several[0].data
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x20
        check = check_for(several, 1)
        with pytest.raises(WrongDelivery):
            check.feed(bytes(bad) + b"\r\n")


def test_control_lines_may_stand_between_frames() -> None:
    several = streams(2)
    lines = [b"PING\r\n", b'INFO {"a":1}\r\n', b"PONG\r\n"]
    sent = [
        piece
        for index, frame in enumerate(interleaved(several, 1, random.Random(1)))
        for piece in (frame, lines[index % 3])
    ]
    check = check_for(several, 1)
    feed_in_pieces(check, b"".join(sent), random.Random(2))
    assert check.left == 0
    assert check.pongs == 4
    assert check.take_pings() == 5
    assert check.take_pings() == 0


def test_control_line_inside_a_frame_is_wrong() -> None:
    several = streams(1)
    check = check_for(several, 1)
    with pytest.raises(WrongDelivery, match="wrong byte"):
        check.feed(several[0].data[:10] + b"PING\r\n")


def test_error_line_is_quoted() -> None:
    check = check_for(streams(1), 1)
    check.feed(b"-ERR 'Slow ")
    with pytest.raises(ServerError, match="Slow Consumer"):
        check.feed(b"Consumer'\r\n")


def test_unknown_line_is_refused() -> None:
    with pytest.raises(WrongDelivery, match="unexpected line"):
        check_for(streams(1), 1).feed(b"+OK\r\n")


def test_one_message_too_many_is_refused() -> None:
    several = streams(1)
    check = check_for(several, 1)
    check.feed(several[0].data)
    with pytest.raises(WrongDelivery, match="more messages"):
        check.feed(frames(several[0])[0])


def test_frames_of_different_length_pass() -> None:
    one = delivered(lap(("a", "bb.cc", "ddd.eee.fff"), size=30, count=9))
    check = Check([(one.data, one.starts)], laps=2)
    feed_in_pieces(check, b"PING\r\n" + one.data + b"PING\r\n" + one.data, random.Random(3))
    assert (check.left, check.take_pings()) == (0, 2)
