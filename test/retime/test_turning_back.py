"""Paths that turn back are timed within what jerk explains, at any distance of the rows around the turn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.kernels.retime import MotionLimits, retime

LIMITS = MotionLimits(velocity=1.0, acceleration=3.0, jerk=30.0)


def durations(way: np.ndarray) -> tuple[float, float]:
    """Durations of order 3 and 2."""
    waypoints = torch.tensor(way.reshape(1, len(way), -1))
    found = [retime(waypoints, LIMITS, order=order) for order in (3, 2)]
    assert all(bool(each.ok[0]) for each in found)
    assert bool(found[0].row_times.isfinite().all())
    assert float(found[0].ratio.max()) <= 1 + 1e-3
    three, two = (float(each.duration[0]) for each in found)
    return three, two


@pytest.mark.parametrize("beyond", [1e-2, 1e-3, 1e-5, 1e-7, 1e-9])
def test_a_row_at_any_distance_behind_a_turn_costs_no_time(beyond: float) -> None:
    three, two = durations(np.array([0, 0.5, 0.5 + beyond, 0.5, 0]))
    assert three < 1.25 * two


@pytest.mark.parametrize("step", [0.1, 0.05, 0.02, 0.01, 0.005])
def test_a_swing_takes_as_long_however_densely_it_is_sampled(step: float) -> None:
    three, two = durations(0.3 * np.sin(2 * np.arange(0, 2, step)))
    assert three < 1.4 * two
