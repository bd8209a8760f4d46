"""The distance from the optimum: of exact chunks there is none, and the optimum is one."""

from __future__ import annotations

import numpy as np
import pytest

from soak import optimum as command
from soak.streams import optimum
from soak.streams.optimum import (
    JERK_WEIGHTS,
    KINDS,
    Distance,
    Meant,
    Quality,
    by_optimum,
    chunks_of,
    distance,
    quality,
    table,
)


def test_exact_chunks_are_executed_as_they_are_meant():
    found = distance(KINDS["exact"], range(1))
    error, acceleration, jerk = found.executor.roots
    assert error < 1e-6 and not found.refused and not found.far
    assert acceleration == pytest.approx(1.0, abs=1e-3) and jerk == pytest.approx(1.0, abs=0.02)


def test_the_optimum_follows_a_chunk_the_closer_the_less_jerk_costs():
    kind, motion = KINDS["noisy"], Meant(2)
    chunks = list(chunks_of(kind, motion, 2))
    found = [quality(by_optimum(kind, chunks, motion, weight), motion) for weight in JERK_WEIGHTS[::4]]
    jerks = [each.jerk for each in found]
    assert jerks == sorted(jerks, reverse=True) and min(each.error for each in found) < (8e-3) ** 2
    exact = kind._replace(apart=0.0, noise=0.0)
    follows = quality(by_optimum(exact, list(chunks_of(exact, motion, 2)), motion, JERK_WEIGHTS[0]), motion)
    assert follows.roots[0] < 5e-4


def test_the_optimum_is_the_least_of_its_cost():
    kind, motion, random = KINDS["rtc"], Meant(1), np.random.default_rng(0)
    chunk, weight = next(chunks_of(kind, motion, 1)), 1e-8
    state = np.stack([motion.at(0.1, order) for order in range(3)])
    jerks = optimum._jerks(kind, chunk, state, 0.1, weight)

    def cost(jerks: np.ndarray) -> float:
        total, now = weight * (jerks**2).sum(), state
        for step, jerk in enumerate(jerks, start=1):
            now = optimum._after(now, jerk, optimum.GRID_S)
            total += ((now[0] - meant[step - 1]) ** 2).sum()
        return total

    times = 0.1 + optimum.GRID_S * np.arange(1, len(jerks) + 1)
    rows = chunk.observed + kind.dt * np.arange(1, kind.horizon + 1)
    meant = optimum.CubicSpline(rows, chunk.rows)(times)
    assert all(cost(jerks + random.normal(size=jerks.shape)) > cost(jerks) for _ in range(5))


def test_a_table_says_which_kinds_are_far():
    best = Quality(4e-6, 1.0, 1.0)
    rough = Distance(Quality(4e-6, 1.5, 9.0), best, best, 0)
    assert rough.far and not rough._replace(executor=best).far and rough._replace(executor=best, refused=1).far
    lines = list(table({"rough": rough, "smooth": rough._replace(executor=best)}))
    assert lines[2] == "| rough | 2.00 / 2.00 | 1.22 / 1.00 | 3.0 / 1.0 | **far** |"
    assert lines[3] == "| smooth | 2.00 / 2.00 | 1.00 / 1.00 | 1.0 / 1.0 |  |"


def test_an_unknown_kind_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["optimum", "worse"])
    with pytest.raises(SystemExit):
        command.main()
    assert "expected exact, quiet" in capsys.readouterr().err
