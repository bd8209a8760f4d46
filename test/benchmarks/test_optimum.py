"""The distance from the optimum: of exact chunks there is none, and the optimum is one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import optimum
from benchmarks.chunks import KINDS, Meant, stream_of
from benchmarks.optimum import distance


def test_exact_chunks_are_executed_as_they_are_meant():
    found = distance(KINDS["exact"], range(1))
    commanded = found.executor
    assert commanded.distance < 1e-6 and not found.refused and not found.far
    assert commanded.acceleration == pytest.approx(1.0, abs=1e-3) and commanded.jerk == pytest.approx(1.0, abs=0.02)


def test_the_optimum_is_the_least_of_its_cost():
    kind, motion, random = KINDS["rtc"], Meant(1), np.random.default_rng(0)
    chunk, weight = stream_of(kind, motion, 1).chunks[0], 1e-8
    state = np.stack([motion.at(0.1, order) for order in range(3)])
    jerks = optimum._jerks(kind.dt, chunk, state, 0.1, weight)

    def cost(jerks: np.ndarray) -> float:
        total, now = weight * (jerks**2).sum(), state
        for step, jerk in enumerate(jerks, start=1):
            now = optimum._after(now, jerk)
            total += ((now[0] - meant[step - 1]) ** 2).sum()
        return total

    times = 0.1 + optimum.GRID_S * np.arange(1, len(jerks) + 1)
    meant = optimum.CubicSpline(chunk.times(kind.dt), chunk.rows)(times)
    assert all(cost(jerks + random.normal(size=jerks.shape)) > cost(jerks) for _ in range(5))
