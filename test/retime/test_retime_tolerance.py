"""Within a tolerance, rounded rows take as long as exact ones, and the path keeps the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from traj_integrator_ros.kernels.retime import MotionLimits, retime
from traj_integrator_ros.kernels.retime.smoothing import smoothed

LIMITS = MotionLimits(velocity=1.0, acceleration=2.0, jerk=20.0)
STEPS = 1e-4, 5e-4, 1.5e-3


def path(count: int = 200, dof: int = 4, seed: int = 0) -> np.ndarray:
    random, part = np.random.default_rng(seed), np.linspace(0, np.pi, count)[:, None]
    sizes, phases = random.normal(size=(3, dof)) / [[1], [2], [3]], random.uniform(0, 6, (3, dof))
    return sum(sizes[k] * np.sin((k + 1) * part + phases[k]) for k in range(3))


def timed(rows: np.ndarray, **options: object) -> float:
    found = retime(torch.from_numpy(rows)[None], LIMITS, **options)
    assert bool(found.ok), found.reason(0)
    return float(found.duration)


ROUNDED: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "rounded": lambda rows, step: np.round(rows / step) * step,
    "cut": lambda rows, step: np.floor(rows / step) * step,
    "noisy": lambda rows, step: rows + np.random.default_rng(2).uniform(-step, step, rows.shape),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ROUNDED)
def test_rounded_rows_take_as_long_as_exact_ones(kind: str, step: float) -> None:
    exact = path()
    rows = ROUNDED[kind](exact, step)
    assert timed(rows, tolerance=step) == pytest.approx(timed(exact), rel=0.02)


def test_without_a_tolerance_they_take_longer() -> None:
    assert timed(ROUNDED["rounded"](path(), STEPS[-1])) > 1.5 * timed(path())


@pytest.mark.parametrize("seed", range(4))
def test_each_row_is_kept_within_the_tolerance_and_both_ends_exactly(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = np.repeat(path(60, 3, seed), random.integers(1, 4, 60), axis=0)  # the arm stands still now and then
    rows = rows + random.uniform(-1e-3, 1e-3, rows.shape)
    tolerance = np.array([1e-3, 5e-3, 0.0])
    found = smoothed(rows, tolerance)
    assert (np.abs(found - rows) <= tolerance + 1e-12).all()
    np.testing.assert_allclose(found[[0, -1]], rows[[0, -1]], atol=1e-12)
    np.testing.assert_array_equal(found[:, 2], rows[:, 2])


def test_no_other_path_within_the_tolerance_is_smoother() -> None:
    rows, times = ROUNDED["rounded"](path(40, 1), 2e-2), np.arange(40.0)
    found = smoothed(rows, np.array([2e-2]), times)
    roughness = (np.diff(found, 3, axis=0) ** 2).sum()
    random = np.random.default_rng(1)
    for size in (1e-4, 1e-3, 1e-2, 2e-2):
        for _ in range(50):
            bump = size * np.sin(random.uniform(0, 3) * np.arange(40.0) + random.uniform(0, 6))[:, None]
            other = np.clip(found + bump, rows - 2e-2, rows + 2e-2)
            other[[0, -1]] = rows[[0, -1]]
            assert (np.diff(other, 3, axis=0) ** 2).sum() > 0.999 * roughness


def test_a_tolerance_of_each_joint_and_path_is_taken() -> None:
    rows = torch.from_numpy(np.stack([ROUNDED["rounded"](path(seed=seed), 1e-3) for seed in (0, 1)]))
    plain, one = retime(rows, LIMITS), retime(rows, LIMITS, tolerance=1e-3)
    # 1e-3 in float32 is another number, and rows kept or left out for it may change durations by 5e-4.
    of_second = retime(rows, LIMITS, tolerance=torch.tensor([[0.0], [1e-3]], dtype=torch.float64))
    each = retime(rows, LIMITS, tolerance=torch.full((4,), 1e-3, dtype=torch.float64))
    assert torch.equal(one.times, each.times) and torch.equal(of_second.duration[:1], plain.duration[:1])
    assert torch.equal(of_second.duration[1:], one.duration[1:])
    assert torch.equal(retime(rows, LIMITS, tolerance=0.0).times, plain.times)


def test_gradients_with_a_tolerance_are_refused_by_name() -> None:
    rows = torch.from_numpy(path())[None].requires_grad_()
    with pytest.raises(NotImplementedError, match="there are none with a tolerance"):
        retime(rows, LIMITS, tolerance=1e-3)
    still = torch.zeros(1, 30, 2, dtype=torch.float64)
    assert int(retime(still, LIMITS, tolerance=1e-3).status) == 1


def test_a_plan_is_smoothed_by_its_times() -> None:
    exact, dt = path(), 0.05
    slow = {"mode": "slow only", "dt": dt}
    rows = ROUNDED["rounded"](exact, 1e-3)
    assert timed(rows, tolerance=1e-3, **slow) < 1.05 * timed(exact, **slow)
    assert timed(rows, **slow) > 1.2 * timed(exact, **slow)
