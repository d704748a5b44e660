"""Chance: the same seed, the same run."""

from collections import Counter

from tidelog.base.chance import Chance


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, other = Chance(7), Chance(7)
    assert [one.integer(1000) for _ in range(50)] == [other.integer(1000) for _ in range(50)]
    assert one.fraction() == other.fraction()
    assert [Chance(8).integer(1 << 30) for _ in range(3)] != [Chance(9).integer(1 << 30) for _ in range(3)]


def test_without_a_seed_runs_differ() -> None:
    assert (
        Chance().integer(1 << 30) != Chance().integer(1 << 30) or Chance().fraction() != Chance().fraction()
    )


def test_numbers_are_in_range_and_spread_evenly() -> None:
    chance = Chance(1)
    for bound in (1, 2, 3, 7, 1000):
        found = Counter(chance.integer(bound) for _ in range(200 * min(bound, 7)))
        assert min(found) >= 0
        assert max(found) < bound
    found = Counter(chance.integer(3) for _ in range(3000))
    assert all(900 < count < 1100 for count in found.values())
    assert all(0 <= chance.fraction() < 1 for _ in range(1000))


def test_any_integer_is_a_seed() -> None:
    assert Chance(-1).integer(10) == Chance(2**64 - 1).integer(10)
    assert Chance(2**70 + 5).integer(10) == Chance(5).integer(10)
