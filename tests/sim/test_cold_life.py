"""Logs whose segments go away and come back live, die and live again; what they have promised is true.

A seed that fails here fails alone, too. Seeds that have found something stay in the list below.
"""

from __future__ import annotations

import os

import pytest

from sim.cold_life import ColdFigures, ColdLives
from sim.log_life import POLICIES, Figures
from tidelog.log.policy import STRICT

SEEDS = int(os.environ.get("COLD_SEEDS", "30"))
FIRST_SEED = int(os.environ.get("COLD_FIRST_SEED", "20000"))

# Each has failed once: the archive was trimmed of what came back with the power; what was about to be erased was sent.
ONCE_FAILED = (20047, 30143)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_what_has_failed_once(seed: int) -> None:
    """COLD-8, COLD-9, ERASE-2"""
    ColdLives(seed).run()


@pytest.mark.parametrize("strict", [True, False])
def test_many_lives_with_a_depot(strict: bool) -> None:
    """COLD-5, COLD-7, COLD-8, COLD-9, LOG-1, READ-1, READ-2, KEEP-1"""
    figures, cold = Figures(), ColdFigures()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        ColdLives(seed, figures, (STRICT,) if strict else POLICIES, cold).run()
    # Enough of everything has happened for this to mean something.
    assert figures.logs == SEEDS
    assert min(cold.sent, cold.husks, cold.fetched) > SEEDS
    assert min(cold.refused, cold.amid) > SEEDS // 10
    assert figures.checked > figures.power_cuts > SEEDS
