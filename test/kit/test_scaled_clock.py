"""The clock of a scaled controller, compared with the formulas of joint_trajectory_controller and of UR's driver.

A plan whose position is its time shows the clock: each cycle commands where it is, and one whole period more.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from kit.arm import Robot
from kit.controller import SECOND

PERIOD = 2_000_000
BEGIN = 100 * SECOND
SCALES = (1.0, 0.5, 0.3, 0.1, 0.0)


def controller(*, hard: bool = True, keeps_clock: bool = False) -> Robot:
    """One joint at 500 Hz."""
    return Robot(["a"], rate=500, hard_replacement=hard, interpolate_from_desired_state=True, keeps_clock=keeps_clock)


def take_times(robot: Robot, now_ns: int, stamp_ns: int, first: float = 0.0) -> None:
    """Send a plan whose position, rad, is its time, s, from a first point on for 10 s."""
    times = np.rint((first + np.array([0.0, 5.0, 10.0])) * SECOND).astype(np.int64)
    ones = np.ones((3, 1))
    velocities = ones * [[1], [1], [0]]
    assert robot.receive(["a"], times, times[:, None] / SECOND, velocities, now_ns=now_ns, stamp_ns=stamp_ns)


def cycles(robot: Robot, begin_ns: int, count: int) -> np.ndarray:
    """The clock's time in its plan in each cycle, s, read from the commands."""
    return robot.run(begin_ns, begin_ns + count * PERIOD)[0, :, 0] - PERIOD / SECOND


def advance(scale: float) -> int:
    """Nanoseconds by which the clock advances in a cycle: rclcpp cuts the product, which it has not rounded."""
    return int(PERIOD * Fraction(scale))


@pytest.mark.parametrize("hard", [True, False], ids=["replacing", "blending"])
@pytest.mark.parametrize("scale", SCALES)
def test_the_clock_advances_by_the_scale_in_each_cycle(scale: float, hard: bool) -> None:
    robot = controller(hard=hard)
    robot.scaling = scale
    take_times(robot, BEGIN, 0)
    found = cycles(robot, BEGIN, 50)
    np.testing.assert_allclose(found, np.arange(50) * advance(scale) / SECOND, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_counts_from_the_cycle_in_which_it_is_set(scale: float) -> None:
    robot, ramp = controller(), np.linspace(1.0, scale, 20)
    take_times(robot, BEGIN, 0)
    found = []
    for cycle, robot.scaling in enumerate(ramp):
        found.append(robot.update(BEGIN + cycle * PERIOD)[0, 0] - PERIOD / SECOND)
    expected = np.concatenate([[0], np.cumsum([advance(one) for one in ramp[1:]])])
    np.testing.assert_allclose(found, expected / SECOND, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_a_report_says_the_plan_at_the_clock_not_a_period_later(scale: float) -> None:
    robot = controller()
    take_times(robot, BEGIN, 0)
    cycles(robot, BEGIN, 40)
    robot.scaling = scale
    (position, velocity, _), _ = robot.controller_state()
    np.testing.assert_allclose(position, cycles(robot, BEGIN + 40 * PERIOD, 1), atol=1e-9)
    np.testing.assert_allclose(velocity, 1.0)


@pytest.mark.parametrize(
    ("kind", "age_s", "enters_at_s"),
    [
        ("replacing", 0.05, 0.05), ("replacing", None, 0.0),
        ("keeping", None, 0.0),
        ("blending", 0.05, 0.0), ("blending", None, 0.0),
    ],
)  # fmt: skip
def test_where_a_plan_is_entered_when_the_clock_is_behind(kind: str, age_s: float | None, enters_at_s: float) -> None:
    robot = controller(hard=kind != "blending", keeps_clock=kind == "keeping")
    take_times(robot, BEGIN, 0)
    robot.scaling = 0.3
    cycles(robot, BEGIN, 500)
    now_ns = BEGIN + 500 * PERIOD
    take_times(robot, now_ns, 0 if age_s is None else now_ns - round(age_s * SECOND))
    found = cycles(robot, now_ns, 3)
    np.testing.assert_allclose(found, enters_at_s + np.arange(3) * PERIOD * 0.3 / SECOND, atol=1e-6)


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


@pytest.mark.parametrize("late_ns", [2_000_000, 6_000_000, 14_000_000])
def test_blending_enters_a_plan_of_the_future_where_it_is_by_then(late_ns: int) -> None:
    robot = controller(hard=False)
    take_times(robot, BEGIN, 0)
    robot.scaling = 0.3
    now_ns, stamp_ns = BEGIN + late_ns, BEGIN + 20_000_000
    cycles(robot, BEGIN, late_ns // PERIOD)
    take_times(robot, now_ns, stamp_ns)
    found = cycles(robot, now_ns, 100)
    elapsed_s = (now_ns + PERIOD * np.arange(60, 100) - stamp_ns) / SECOND
    np.testing.assert_allclose(found[60:], 0.3 * elapsed_s, atol=PERIOD / SECOND)
