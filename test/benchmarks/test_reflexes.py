"""Limits of a Franka's control interface are kept by the executor: its own checks are a benchmark."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ruckig", reason="the ruckig library is not installed")

from benchmarks import reflexes

ACCELERATION, JERK = 10.0, 5000.0
"""rad/s^2 and rad/s^3 of libfranka, which the robot stops for as soon as a difference of commands exceeds them."""


@pytest.mark.parametrize("way", [reflexes.executor, reflexes.to_rows])
def test_commands_stay_below_what_the_robot_stops_for(way) -> None:
    commands = np.array(list(way(reflexes.chunks(4.0), 4000)))
    assert np.ptp(commands, axis=0).min() > 0.1, "it moves"
    for order, most in ((2, ACCELERATION), (3, JERK)):
        assert np.abs(np.diff(commands, order, axis=0)).max() / reflexes.CYCLE_S**order <= most


def test_rows_as_points_are_what_it_stops_for() -> None:
    commands = np.array(list(reflexes.points(reflexes.chunks(1.0), 1000)))
    assert np.abs(np.diff(commands, 2, axis=0)).max() / reflexes.CYCLE_S**2 > ACCELERATION
