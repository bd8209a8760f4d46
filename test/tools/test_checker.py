"""Every rule of the checker finds what breaks it, names it, and finds nothing in what keeps it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest

from kit.controller import Controller
from traj_integrator_ros.limits.joint_limits import JointLimits
from traj_integrator_ros.motions.trajectories import PlannedTrajectory, Point
from traj_integrator_ros.tools.checker import Expectation, Rule, check, motion_between

JOINTS = ("shoulder", "elbow", "wrist")
POINTS = 5
STEP_NS = 20_000_000
ROBOT = {"shoulder": 0.1, "elbow": 0.2, "wrist": 0.3, "gripper": 9.0}
LIMITS = JointLimits(
    joint_names=JOINTS,
    position_min=np.array([-1.0, -1.0, -1.0]),
    position_max=np.array([1.0, 1.0, math.inf]),
    velocity=np.array([2.0, 2.0, 2.0]),
    acceleration=np.array([5.0, 5.0, 5.0]),
)
FULL = Expectation(JOINTS, robot=ROBOT, limits=LIMITS, now_ns=50_000_000_000)


def good() -> PlannedTrajectory:
    points = tuple(
        Point(k * STEP_NS, [0.1, 0.2, 0.3 + 2 * k], [0.5 * (k < POINTS - 1), 0.0, 0.0], [0.1, 0.2, 0.3])
        for k in range(POINTS)
    )
    return PlannedTrajectory(JOINTS, 0, points)


def with_point(k: int, **changes: object) -> PlannedTrajectory:
    trajectory = good()
    points = list(trajectory.points)
    points[k] = dataclasses.replace(points[k], **changes)
    return dataclasses.replace(trajectory, points=tuple(points))


def named(*names: str) -> PlannedTrajectory:
    points = tuple(Point(k * STEP_NS, [0.2] * len(names), [0.0] * len(names)) for k in range(2))
    return PlannedTrajectory(names, 0, points)


def test_nothing_is_found_in_a_good_trajectory() -> None:
    assert check(good(), FULL) == []


BROKEN = {
    # rule, joint, point, a part of the text
    "no joints": (named(), Rule.JOINTS, "", None, "got none"),
    "a joint twice": (named("shoulder", "elbow", "wrist", "elbow"), Rule.JOINTS, "elbow", None, "2 times"),
    "an unknown joint": (named(*JOINTS, "toe"), Rule.JOINTS, "toe", None, "joints of the controller"),
    "a missing joint": (named("shoulder", "elbow"), Rule.JOINTS, "wrist", None, "one missing"),
    "no points": (PlannedTrajectory(JOINTS, 0, ()), Rule.POINTS, "", None, "at least one"),
    "a point before the start": (with_point(0, time_ns=-1), Rule.TIMES, "", 0, "0 or more, got -1e-09 s"),
    "a time that repeats": (with_point(2, time_ns=STEP_NS), Rule.TIMES, "", 2, "more than 0.02 s, got 0.02 s"),
    "over already": (dataclasses.replace(good(), stamp_ns=40 * 10**9), Rule.START_TIME, "", None, "in the past"),
    "positions short": (with_point(1, positions=[0.1, 0.2]), Rule.LENGTHS, "", 1, "positions at point 1: expected 3"),
    "velocities short": (with_point(3, velocities=[0.0]), Rule.LENGTHS, "", 3, "3 values or none, got 1"),
    "accelerations long": (with_point(4, accelerations=[0.0] * 4), Rule.LENGTHS, "", 4, "got 4"),
    "effort": (with_point(2, effort=[1.0]), Rule.EFFORT, "", 2, "expected none, got 1 values"),
    "NaN": (with_point(1, positions=[0.1, math.nan, 0.3]), Rule.FINITE, "elbow", 1, "got nan"),
    "infinity": (with_point(1, accelerations=[0, 0, -math.inf]), Rule.FINITE, "wrist", 1, "got -inf"),
    "moving end": (with_point(4, velocities=[0.0, 2e-7, 0.0]), Rule.REST, "elbow", 4, "1.2e-07 rad/s), got 2e-07"),
    "away from the robot": (with_point(0, positions=[0.21, 0.2, 0.3]), Rule.START, "shoulder", 0, "0.1 (the robot)"),
    "a turn away from it": (with_point(0, positions=[0.1, 0.2 + 2 * math.pi, 0.3]), Rule.START, "elbow", 0, "0.2 (the"),
    "too high": (with_point(2, positions=[1.1, 0.2, 99.0]), Rule.LIMITS, "shoulder", 2, "at most 1 rad, got 1.1"),
    "too low": (with_point(2, positions=[0.1, -1.1, 99.0]), Rule.LIMITS, "elbow", 2, "at least -1 rad, got -1.1"),
    "too fast": (with_point(1, velocities=[0, 0, -2.1]), Rule.LIMITS, "wrist", 1, "at least -2 rad/s, got -2.1"),
    "too sudden": (with_point(3, accelerations=[6.0, 0, 0]), Rule.LIMITS, "shoulder", 3, "at most 5 rad/s^2, got 6"),
}


@pytest.mark.parametrize(("trajectory", "rule", "joint", "point", "text"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_one_rule_is_found_once_and_named(
    trajectory: PlannedTrajectory, rule: Rule, joint: str, point: int | None, text: str
) -> None:
    found = check(trajectory, FULL)
    findings = [one for one in found if one.rule is rule]
    assert [(one.joint, one.point) for one in findings] == [(joint, point)], findings
    assert text in str(findings[0]) and "\n" not in str(findings[0])
    assert {one.rule for one in found} <= {rule, Rule.START}, found


@pytest.mark.parametrize(
    ("trajectory", "expectation"),
    [
        (named("wrist", "elbow"), Expectation(JOINTS, partial=True)),
        (with_point(4, velocities=[1.0, 0.0, 0.0]), dataclasses.replace(FULL, at_rest=False)),
        (with_point(4, velocities=[1e-7, 0.0, 0.0]), FULL),
        (dataclasses.replace(good(), stamp_ns=49_950_000_000), FULL),
        (dataclasses.replace(good(), stamp_ns=1), dataclasses.replace(FULL, now_ns=None)),
        (with_point(0, positions=[0.19, 0.2, 0.3]), FULL),
        (with_point(0, velocities=[7.0, 0.0, 0.0]), FULL),
        (with_point(2, velocities=[2.00001, 0.0, 0.0]), FULL),
        (named(*JOINTS), Expectation(JOINTS)),
        (with_point(3, velocities=[], accelerations=[]), FULL),
        (with_point(0, positions=[0.1 - 4 * math.pi, 0.2, 0.35]), dataclasses.replace(FULL, turning=JOINTS[:1])),
    ],
    ids=[
        "some joints where allowed", "moving end where allowed", "an end within float epsilon", "ends in the future",
        "no clock", "start within tolerance", "start beyond a limit: the robot is there", "rounding at a limit",
        "no accelerations where not asked for", "no rates at one point",
        "start whole turns away of a joint that turns on",
    ],
)  # fmt: skip
def test_what_is_allowed_is_not_found(trajectory: PlannedTrajectory, expectation: Expectation) -> None:
    assert check(trajectory, expectation) == []


def test_a_trajectory_of_another_robot_is_one_finding() -> None:
    (found,) = check(named("panda_a", "panda_b"), Expectation(JOINTS, limits=LIMITS))
    listed = "joints of the controller (shoulder, elbow, wrist), got panda_a, panda_b, which are those of another robot"
    assert str(found) == f"joints: joint_names: expected {listed}"


def test_limits_are_found_by_the_names_of_joints_in_any_order() -> None:
    def shuffled(values: Sequence) -> list:
        return [values[i] for i in (2, 0, 1)]

    points = with_point(2, velocities=[0.0, 3.0, 0.0]).points
    points = tuple(Point(p.time_ns, *map(shuffled, (p.positions, p.velocities, p.accelerations))) for p in points)
    trajectory = PlannedTrajectory(tuple(shuffled(JOINTS)), 0, points)
    assert [(one.rule, one.joint, one.point) for one in check(trajectory, FULL)] == [(Rule.LIMITS, "elbow", 2)]


@pytest.mark.parametrize(
    ("velocity", "acceleration", "told"),
    [
        (0.5, -2.0, "deceleration of shoulder at point 2: expected at most 1 rad/s^2, got 2 (100 % too much)"),
        (-0.5, 2.0, "deceleration of shoulder at point 2: expected at most 1 rad/s^2, got 2 (100 % too much)"),
        (-0.5, -6.0, "acceleration of shoulder at point 2: expected at most 5 rad/s^2, got 6 (20 % too much)"),
        (0.5, 2.0, ""),
    ],
)
def test_points_keep_the_deceleration_where_joints_slow_down(velocity: float, acceleration: float, told: str) -> None:
    limits = dataclasses.replace(LIMITS, deceleration=np.array([1.0, math.inf, math.inf]))
    trajectory = with_point(2, velocities=[velocity, 0.0, 0.0], accelerations=[acceleration, 0.0, 0.0])
    found = check(trajectory, dataclasses.replace(FULL, limits=limits))
    assert [str(one) for one in found] == ([f"limits: {told}"] if told else [])


def swinging(velocity: float, begin_ns: int = 0) -> PlannedTrajectory:
    """Points that keep all limits; between them the joint swings out by 0.148 x the velocity x 1 s."""
    points = tuple(Point(begin_ns + k * 10**9, [0.9], [velocity * (k == 0)]) for k in range(2))
    return PlannedTrajectory(("shoulder",), 0, points)


def test_what_is_commanded_between_the_points_is_held_against_the_limits() -> None:
    expectation = Expectation(partial=True, limits=LIMITS, between_points=True)
    (found,) = check(swinging(1.0), expectation)
    assert (found.rule, found.joint) == (Rule.COMMANDED, "shoulder")
    assert str(found).startswith("commanded: position between the points of shoulder: expected at most 1 rad, got 1.04")
    (later,) = check(swinging(1.0, begin_ns=2 * 10**9), expectation)
    assert float(later.got.split()[-2]) == pytest.approx(2.0 + float(found.got.split()[-2]), abs=1e-3)
    assert check(swinging(0.5), expectation) == []
    assert check(swinging(1.0), dataclasses.replace(expectation, between_points=False)) == []
    backward = dataclasses.replace(swinging(1.0), points=swinging(1.0).points[::-1])
    assert motion_between(backward) is None


@pytest.mark.parametrize("seed", range(5))
def test_pieces_between_points_with_different_fields_are_those_of_a_controller(seed: int) -> None:
    random, count = np.random.default_rng(seed), 8
    rows = random.normal(size=(3, count, 2))
    rows[:, [0, -1]] *= [[[1.0]], [[0.0]], [[0.0]]]
    rates = [[row if random.random() < 0.6 else [] for row in part] for part in rows[1:]]
    rates[1] = [row if len(velocity) else [] for velocity, row in zip(*rates, strict=True)]
    time_ns = STEP_NS * np.arange(count) + 300_000 * (np.arange(count) > 0)  # no cycle is at a point
    points = tuple(map(Point, time_ns.tolist(), rows[0], *rates))
    controller = Controller("ab", hard_replacement=True)
    controller.set_state(rows[0, 0])
    assert controller.receive("ab", time_ns, rows[0], *rates)
    commands = controller.run(0, STEP_NS * (count - 1))
    times = 1e-3 * np.arange(1, commands.shape[1] + 1)
    motion = motion_between(PlannedTrajectory(("a", "b"), 0, points))
    np.testing.assert_allclose(commands[:2], motion.states_at(times, orders=2), atol=1e-6)
