"""All rules by which a controller accepts a trajectory and a robot should execute it. Knows no ROS.

Rules of robots, which joint_trajectory_controller does not check: finite numbers, every joint once, no point before the
start, a start where the robot is, and limits, at the points and in its interpolation between them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite, remainder, tau

import numpy as np

from ..execution.limits import Violation, worst_violations
from ..execution.motion import Motion
from ..execution.rows import Points, motion_of_points
from ..limits.joint_limits import JointLimits, excess, forward_rows
from ..motions.trajectories import FIELDS, PlannedTrajectory
from ..motions.units import JointUnits

REST_VELOCITY = float(np.finfo(np.float32).eps)
"""Largest velocity of the last point that joint_trajectory_controller accepts as rest, rad/s."""
START_TOLERANCE = 0.1
"""Default of `start_tolerance`, rad or m: the same as that of the node's limits.start_deviation."""


class Rule(str, Enum):
    """The rules for a trajectory."""

    JOINTS = "joints"
    POINTS = "points"
    START_TIME = "start_time"
    TIMES = "times"
    LENGTHS = "lengths"
    EFFORT = "effort"
    FINITE = "finite"
    REST = "rest"
    START = "start"
    LIMITS = "limits"
    COMMANDED = "commanded"
    """Limits are kept in the controller's interpolation between the points."""


@dataclass(frozen=True)
class Finding:
    """One error in a trajectory: where it is, what was expected and what was found."""

    rule: Rule
    what: str
    expected: str
    got: str
    joint: str = ""
    """Name of the joint; empty if the finding concerns no single joint."""
    point: int | None = None
    """Index of the point; None if the finding concerns the whole trajectory."""

    def __str__(self) -> str:
        where = f" of {self.joint}" if self.joint else ""
        where += f" at point {self.point}" if self.point is not None else ""
        return f"{self.rule.value}: {self.what}{where}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True)
class Expectation:
    """What is expected of a trajectory; a value of None is not checked.

    Args:
        joint_names: the controller's joints.
        at_rest: whether the last velocity must be 0 (allow_nonzero_velocity_at_trajectory_end is the opposite).
        partial: whether some of the joints are enough (allow_partial_joints_goal).
        now_ns: time of the robot's clock, ns: a trajectory that is over by then is refused.
        robot: position of the robot's joints by name, rad or m.
        start_tolerance: largest distance of the first point from `robot`, rad or m.
        limits: limits of the joints that they name; the first point, where the robot is, is not checked.
        between_points: whether the limits must hold in the controller's interpolation, too.
        units: of the joints, for findings.
        turning: continuous joints: the controller also takes the short way to the first point.

    """

    joint_names: Sequence[str] | None = None
    at_rest: bool = True
    partial: bool = False
    now_ns: int | None = None
    robot: Mapping[str, float] | None = None
    start_tolerance: float = START_TOLERANCE
    limits: JointLimits | None = None
    between_points: bool = False
    units: JointUnits = dataclasses.field(default_factory=JointUnits)
    turning: Sequence[str] = ()


def check(trajectory: PlannedTrajectory, expectation: Expectation) -> list[Finding]:
    """Check a trajectory; an empty list means that the controller and the robot can execute it.

    Numbers are compared only if they are complete and finite, so that one mistake is reported once.
    """
    names, units = trajectory.joint_names, expectation.units
    findings = [*_check_joints(names, expectation)]
    if not trajectory.points:
        return [*findings, Finding(Rule.POINTS, "points", "at least one", "none")]
    findings += _check_times(trajectory, expectation.now_ns)
    if malformed := [*_check_lengths(trajectory)]:
        return findings + malformed
    for field in FIELDS:
        if (values := trajectory.rows(field)) is not None:
            findings += (
                Finding(Rule.FINITE, field, "a finite number", str(values[k, joint]), names[joint], int(k))
                for k, joint in np.argwhere(~np.isfinite(values) & trajectory.has(field)[:, None])
            )
    first, last = trajectory.points[0], trajectory.points[-1]
    for name, value in zip(names, last.velocities, strict=False):
        if expectation.at_rest and abs(value) > REST_VELOCITY:
            unit, number = units.of(name)[1], len(trajectory.points) - 1
            expected, got = f"0 (within {REST_VELOCITY:.1e} {unit})", f"{value:g} {unit}"
            findings.append(Finding(Rule.REST, "last velocity", expected, got, name, number))
    robot, tolerance = expectation.robot or {}, expectation.start_tolerance
    for name, value in zip(names, first.positions, strict=True):
        if name not in robot:
            continue
        away = value - robot[name]
        if abs(remainder(away, tau) if name in expectation.turning and isfinite(away) else away) > tolerance:
            expected = f"{robot[name]:g} (the robot) within {tolerance:g}"
            findings.append(Finding(Rule.START, "start", expected, f"{value:g}", name, 0))
    return findings if expectation.limits is None else [*findings, *_check_limits(trajectory, expectation)]


def motion_between(trajectory: PlannedTrajectory) -> Motion | None:
    """Return the motion that joint_trajectory_controller interpolates; None for a single point, or unordered or NaN
    ones.

    A segment is linear, cubic or quintic, depending on the fields at both of its ends.
    """
    times = [point.time_ns for point in trajectory.points]
    if None in times or len(times) < 2 or (np.diff(times) <= 0).any():
        return None
    position, velocity, acceleration = map(trajectory.rows, FIELDS)
    if not all(_is_finite(trajectory, field) for field in FIELDS):
        return None
    points = Points(np.array(times, np.int64), position, None, None)
    motion = motion_of_points(points)
    if velocity is not None:
        motion = _with_pieces(motion, motion_of_points(points._replace(velocity=velocity)))
        if acceleration is not None:
            smooth = motion_of_points(points._replace(velocity=velocity, acceleration=acceleration))
            motion = _with_pieces(motion, smooth)
    return motion


def _with_pieces(motion: Motion, smoother: Motion) -> Motion:
    """Replace segments by those of a smoother motion, which is NaN where the points lack the fields for it."""
    has = np.isfinite(smoother.coefficients).all(axis=(1, 2), keepdims=True)
    return smoother._replace(coefficients=np.where(has, smoother.coefficients, motion.coefficients))


def _check_joints(names: Sequence[str], expectation: Expectation) -> Iterator[Finding]:
    if not names:
        yield Finding(Rule.JOINTS, "joint_names", "the controller's joints", "none")
        return
    for name, count in Counter(names).items():
        if count > 1:
            yield Finding(Rule.JOINTS, "joint_names", "every joint once", f"{count} times", name)
    if expectation.joint_names is None:
        return
    wanted = dict.fromkeys(expectation.joint_names)
    known = f"joints of the controller ({', '.join(wanted)})"
    unknown = [name for name in dict.fromkeys(names) if name not in wanted]
    missing = [name for name in wanted if name not in names]
    if len(missing) == len(wanted):  # One line for all joints, since the trajectory is for another robot.
        yield Finding(Rule.JOINTS, "joint_names", known, f"{', '.join(unknown)}, which are those of another robot")
        return
    for name in unknown:
        yield Finding(Rule.JOINTS, "joint_names", known, "another one", name)
    for name in [] if expectation.partial else missing:
        yield Finding(Rule.JOINTS, "joint_names", "all joints of the controller", "one missing", name)


def _check_times(trajectory: PlannedTrajectory, now_ns: int | None) -> Iterator[Finding]:
    times, field = [point.time_ns for point in trajectory.points], "time_from_start"
    if None in times:
        missing = [k for k, time in enumerate(times) if time is None]
        yield from (Finding(Rule.FINITE, field, "a finite number", "none", point=k) for k in missing)
        return
    if times[0] < 0:
        yield Finding(Rule.TIMES, field, "0 or more", _seconds(times[0]), point=0)
    for k in range(1, len(times)):
        if times[k] <= times[k - 1]:
            yield Finding(Rule.TIMES, field, f"more than {_seconds(times[k - 1])}", _seconds(times[k]), point=k)
    end = trajectory.stamp_ns + times[-1]
    if trajectory.stamp_ns and now_ns is not None and end < now_ns:
        late = f"one {_seconds(now_ns - end)} in the past"
        yield Finding(Rule.START_TIME, "header.stamp", "0, or an end in the future", late)


def _check_lengths(trajectory: PlannedTrajectory) -> Iterator[Finding]:
    dof = len(trajectory.joint_names)
    for k, point in enumerate(trajectory.points):
        for field in FIELDS:
            length, optional = len(getattr(point, field)), field != "positions"  # Controllers do not integrate.
            if length != dof and (length or not optional):
                yield Finding(Rule.LENGTHS, field, f"{dof} values{' or none' * optional}", str(length), point=k)
        if len(point.effort):
            yield Finding(Rule.EFFORT, "effort", "none", f"{len(point.effort)} values", point=k)


def _check_limits(trajectory: PlannedTrajectory, expectation: Expectation) -> Iterator[Finding]:
    """Yield the largest excess of each joint and quantity over its limit, at the points or in the interpolation.

    If the points exceed a limit themselves, the finding names the worst point; otherwise it names the worst place
    between points.
    """
    names = trajectory.joint_names
    limits = expectation.limits.of_joints(names)
    at_points = list(_beyond_at_points(trajectory, limits))
    known = {(found.quantity, found.joint) for _, found in at_points}
    motion = motion_between(trajectory) if expectation.between_points else None
    between = [] if motion is None else worst_violations(motion, limits, of_points=True)
    for point, found in at_points if motion is None else ((None, found) for found in between):
        name, what, rule = names[found.joint], found.quantity, Rule.LIMITS
        if (what, found.joint) not in known:
            what, rule = f"{what} between the points", Rule.COMMANDED
        unit = expectation.units.of(name)[found.order]
        expected = f"at {'least' if found.value < found.bound else 'most'} {found.bound:g} {unit}"
        got = f"{found.value:g} ({found.shown(unit)} too much)"
        got += "" if point is not None else f" at {trajectory.points[0].time_ns * 1e-9 + found.time:.4g} s"
        yield Finding(rule, what, expected, got, name, point)


def _beyond_at_points(trajectory: PlannedTrajectory, limits: JointLimits) -> Iterator[tuple[int, Violation]]:
    """Yield the worst point of each joint and quantity beyond its limit, without the first, where the robot is."""
    velocities = trajectory.rows("velocities")
    for field, quantity in FIELDS.items():
        values = trajectory.rows(field)
        if values is None or len(values) < 2 or not _is_finite(trajectory, field):
            continue
        slowing, bounds = False, limits.range_of(quantity)
        if quantity == "acceleration" and limits.forward is not None and velocities is not None:
            slowing, bounds = True, limits.forward
            values = forward_rows(values, velocities, bounds)
        for bound, sign in zip(bounds, (-1.0, 1.0), strict=True):
            for joint in range(0 if bound is None else len(bound)):
                k = 1 + int(np.argmax(np.nan_to_num(sign * values[1:, joint], nan=-np.inf)))
                if excess(sign * values[k, joint], sign * bound[joint]) > 0:
                    found = Violation(joint, quantity, 0.0, values[k, joint], bound[joint])
                    yield k, found.slowing_down if slowing and sign < 0 else found


def _is_finite(trajectory: PlannedTrajectory, field: str) -> bool:
    """Return whether a field is finite at all points that have it."""
    values = trajectory.rows(field)
    return values is None or bool(np.isfinite(values[trajectory.has(field)]).all())


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds * 1e-9:.9g} s"
