"""Limits of a Franka's control interface are kept by the executor: its own checks are a benchmark."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ruckig", reason="the ruckig library is not installed")

from benchmarks import reflexes

ACCELERATION, JERK = 10.0, 5000.0
"""rad/s^2 and rad/s^3 of libfranka, which the robot stops for as soon as a difference of commands exceeds them."""


def commands_of(way: str, seconds: float) -> np.ndarray:
    """What a way commands of the planner's chunks."""
    stream = reflexes.Stream(reflexes.STEP, reflexes.chunks(seconds), reflexes.READY, seconds, reflexes.limits())
    return reflexes.WAYS[way](stream)


@pytest.mark.parametrize("way", ["the executor", "ruckig to the next row"])
def test_commands_stay_below_what_the_robot_stops_for(way: str) -> None:
    commands = commands_of(way, 4.0)
    assert np.ptp(commands, axis=0).min() > 0.1, "it moves"
    for order, most in ((2, ACCELERATION), (3, JERK)):
        assert np.abs(np.diff(commands, order, axis=0)).max() / reflexes.CYCLE_S**order <= most


def test_rows_as_points_are_what_it_stops_for() -> None:
    commands = commands_of("joint_trajectory_controller", 1.0)
    assert np.abs(np.diff(commands, 2, axis=0)).max() / reflexes.CYCLE_S**2 > ACCELERATION
