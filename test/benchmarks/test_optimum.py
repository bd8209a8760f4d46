"""The distance from the optimum: of exact chunks there is none, and the optimum is one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import optimum
from benchmarks.chunks import CYCLE_S, KINDS, SECONDS, Figures, Meant, figures, stream_of
from benchmarks.optimum import JERK_WEIGHTS, Distance, by_optimum, distance, table


def test_exact_chunks_are_executed_as_they_are_meant():
    found = distance(KINDS["exact"], range(1))
    commanded = found.executor
    assert commanded.distance < 1e-6 and not found.refused and not found.far
    assert commanded.acceleration == pytest.approx(1.0, abs=1e-3) and commanded.jerk == pytest.approx(1.0, abs=0.02)


def test_the_optimum_follows_a_chunk_the_closer_the_less_jerk_costs():
    kind, motion = KINDS["noisy"], Meant(2)
    stream = stream_of(kind, motion, 2)
    found = [figures([by_optimum(stream, weight)], [motion]) for weight in JERK_WEIGHTS[::4]]
    jerks = [each.jerk for each in found]
    assert jerks == sorted(jerks, reverse=True) and min(each.distance for each in found) < 8e-3
    exact = stream_of(kind._replace(apart=0.0, noise=0.0), motion, 2)
    assert figures([by_optimum(exact, JERK_WEIGHTS[0])], [motion]).distance < 5e-4


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


def test_a_table_says_which_kinds_are_far():
    best = Figures(2e-3, 0.0, 1.0, 1.0, 1.0)
    rough = Distance(best._replace(acceleration=1.5, jerk=9.0), best, best, 0)
    assert rough.far and not rough._replace(executor=best).far and rough._replace(executor=best, refused=1).far
    lines = list(table({"rough": rough, "smooth": rough._replace(executor=best)}))
    assert lines[2] == "| rough | 2.00 / 2.00 | 1.50 / 1.00 | 9.0 / 1.0 | **far** |"
    assert lines[3] == "| smooth | 2.00 / 2.00 | 1.00 / 1.00 | 1.0 / 1.0 |  |"


def test_an_unknown_kind_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["optimum", "worse"])
    with pytest.raises(SystemExit):
        optimum.main()
    assert "expected exact, quiet" in capsys.readouterr().err


@pytest.mark.parametrize("late_s", [-0.02, 0.0, 0.035])
def test_a_late_command_has_its_lag_and_the_figures_of_what_is_meant(late_s: float):
    motions = [Meant(1), Meant(2)]
    found = figures([each.at(CYCLE_S * np.arange(SECONDS / CYCLE_S) - late_s) for each in motions], motions)
    assert found.lag == pytest.approx(late_s, abs=1e-9) and (found.distance < 1e-9) == (late_s == 0)
    assert found[2:] == pytest.approx([1.0, 1.0, 1.0], abs=0.05)
