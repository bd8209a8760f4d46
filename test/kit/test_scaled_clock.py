"""The clock of UR's driver up to Iron, which runs on from one trajectory to the next; the recordings have the other.

A plan whose position is its time shows the clock: each cycle commands where it is, and one whole period more.
"""

from __future__ import annotations

import numpy as np
import pytest

from kit.arm import Robot
from kit.controller import SECOND

PERIOD = 2_000_000
BEGIN = 100 * SECOND


def controller(*, keeps_clock: bool) -> Robot:
    """One joint at 500 Hz."""
    return Robot(["a"], rate=500, hard_replacement=True, interpolate_from_desired_state=True, keeps_clock=keeps_clock)


def take_times(robot: Robot, now_ns: int, stamp_ns: int, first: float = 0.0) -> None:
    """Send a plan whose position, rad, is its time, s, from a first point on for 10 s."""
    times = np.rint((first + np.array([0.0, 5.0, 10.0])) * SECOND).astype(np.int64)
    velocities = [[1.0], [1.0], [0.0]]
    assert robot.receive(["a"], times, times[:, None] / SECOND, velocities, now_ns=now_ns, stamp_ns=stamp_ns)


def cycles(robot: Robot, begin_ns: int, count: int) -> np.ndarray:
    """The clock's time in its plan in each cycle, s, read from the commands."""
    return robot.run(begin_ns, begin_ns + count * PERIOD)[0, :, 0] - PERIOD / SECOND


@pytest.mark.parametrize("keeps_clock", [True, False])
def test_a_plan_without_a_stamp_is_entered_at_its_begin_when_the_clock_is_behind(keeps_clock: bool) -> None:
    robot = controller(keeps_clock=keeps_clock)
    take_times(robot, BEGIN, 0)
    robot.scaling = 0.3
    cycles(robot, BEGIN, 500)
    now_ns = BEGIN + 500 * PERIOD
    take_times(robot, now_ns, 0)
    np.testing.assert_allclose(cycles(robot, now_ns, 3), np.arange(3) * PERIOD * 0.3 / SECOND, atol=1e-6)


def test_a_kept_clock_waits_for_a_stamp_as_long_as_it_is_behind() -> None:
    robot = controller(keeps_clock=True)
    take_times(robot, BEGIN, 0)
    robot.scaling = 0.5
    cycles(robot, BEGIN, 500)
    now_ns, robot.scaling = BEGIN + 500 * PERIOD, 1.0
    take_times(robot, now_ns, now_ns, first=0.001)
    behind = 250  # cycles
    found = cycles(robot, now_ns, behind + 20)
    np.testing.assert_allclose(found[behind + 5 :], PERIOD / SECOND * np.arange(5, 20), atol=2 * PERIOD / SECOND)
    assert found[behind - 60] > 0.02  # on its way back from 0.5 to the first point
