"""Paths that are hard to retime, motions as a controller executes them, and the certificate on random pieces.

`python -m benchmarks.retiming` does the same a thousand times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.retiming.certificates import ROUNDING, false_accepts, largest_difference
from benchmarks.retiming.executed import MOST, executed_ratios, random_motion
from benchmarks.retiming.problems import FAMILIES, known_problems, random_problem, solve


@pytest.mark.parametrize("order", [2, 3])
def test_problems_of_others_are_solved(order: int) -> None:
    for problem in known_problems():
        solved = solve(replace(problem, order=order))
        assert not solved.failure, problem
        assert solved.ratio.max() >= 0.99, "limits are used"


@pytest.mark.parametrize("family", FAMILIES)
def test_random_problems_are_solved(family: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(1 if FAMILIES[family].share < 20 else 2):
        problem = random_problem(family, rng)
        assert not solve(replace(problem, waypoints=problem.waypoints[:200])).failure


@pytest.mark.parametrize("model", ["ours", "jtc"])
def test_what_a_controller_executes_keeps_the_limits(model: str, request: pytest.FixtureRequest) -> None:
    played_by = None if model == "ours" else request.getfixturevalue("models").jtc
    rng = np.random.default_rng(0)
    for _ in range(1 if played_by else 4):  # that model takes a millisecond for each of a motion
        motion, limits = random_motion(rng)
        assert motion.ok.all(), motion.reason(0)
        assert 0.98 < executed_ratios(motion, limits, played_by).max() <= MOST


def test_the_certificate_agrees_with_samples_and_accepts_no_piece_that_exceeds_it() -> None:
    assert false_accepts(12_000, seed=1) == 0
    assert largest_difference(30, seed=1) <= ROUNDING
