"""Whether a controller would accept a trajectory and a robot should execute it: all rules in one place. Knows no ROS.

joint_trajectory_controller validates: joints known and complete, points present, not yet over, times that increase,
fields complete or empty, no effort, at rest at the end. It does not validate what robots need as well: finite numbers,
every joint once, no point before the start, a start where the robot is, and limits, at the points and in its
interpolation between them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from ..execution.limits import DECELERATION, shown_excess, worst_violations
from ..execution.motion import Motion
from ..execution.rows import Points, motion_of_points
from ..handling.limits import JointLimits, excess, forward_rows
from ..motions.trajectories import FIELDS, PlannedTrajectory, planned_trajectory
from ..motions.units import JointUnits

if TYPE_CHECKING:
    from trajectory_msgs.msg import JointTrajectory

REST_VELOCITY = float(np.finfo(np.float32).eps)
"""Largest last velocity that joint_trajectory_controller accepts as rest [rad/s]."""
START_TOLERANCE = 0.1
"""Default of `start_tolerance`, as of the node's limits.start_deviation [rad]."""


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
    """Limits between the points, in the controller's interpolation."""


@dataclass(frozen=True)
class Finding:
    """One error in a trajectory: where it is, what was expected and what was found."""

    rule: Rule
    what: str
    expected: str
    got: str
    joint: str = ""
    """Empty if the finding is about no particular joint."""
    point: int | None = None
    """None if it is about the whole trajectory."""

    def __str__(self) -> str:
        where = f" of {self.joint}" if self.joint else ""
        where += f" at point {self.point}" if self.point is not None else ""
        return f"{self.rule.value}: {self.what}{where}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True)
class Expectation:
    """The values against which a trajectory is checked; those that are None are not checked.

    Args:
        joint_names: the controller's joints.
        at_rest: whether the last velocity must be 0 (allow_nonzero_velocity_at_trajectory_end is the opposite).
        partial: whether some of the joints are enough (allow_partial_joints_goal).
        complete: whether velocities are required; controllers do not need them, but the node always sends them.
        now_ns: time by the robot's clock, ns; a trajectory that is over by then is refused.
        robot: position of the robot's joints by name, rad or m.
        start_tolerance: largest distance of the first point from `robot`, rad or m.
        limits: limits of the joints that they name; the first point, where the robot is, is not checked.
        between_points: whether the limits must hold in the controller's interpolation, too.
        units: of the joints, for what is told.

    """

    joint_names: Sequence[str] | None = None
    at_rest: bool = True
    partial: bool = False
    complete: bool = False
    now_ns: int | None = None
    robot: Mapping[str, float] | None = None
    start_tolerance: float = START_TOLERANCE
    limits: JointLimits | None = None
    between_points: bool = False
    units: JointUnits = dataclasses.field(default_factory=JointUnits)


def check_message(message: JointTrajectory, expectation: Expectation) -> list[Finding]:
    """Check a JointTrajectory message."""
    return check(planned_trajectory(message), expectation)


def check(trajectory: PlannedTrajectory, expectation: Expectation) -> list[Finding]:
    """Check a trajectory; an empty list means that the controller and the robot can execute it.

    Numbers are compared only if they are complete and finite, so that one mistake is reported once.
    """
    findings = [*_check_joints(trajectory.joint_names, expectation)]
    if not trajectory.points:
        return [*findings, Finding(Rule.POINTS, "points", "at least one", "none")]
    findings += _check_times(trajectory, expectation.now_ns)
    malformed = _check_lengths(trajectory, expectation.complete)
    if malformed:
        return findings + malformed
    for field in FIELDS:
        values = trajectory.rows(field)
        if values is not None:
            findings += _check_finite(trajectory.joint_names, field, values)
    findings += _check_end(trajectory, expectation.units) if expectation.at_rest else []
    findings += _check_start(trajectory, expectation)
    if expectation.limits is not None:
        at_points = _check_limits(trajectory, expectation.limits, expectation.units)
        findings += _check_commanded(trajectory, expectation, at_points) if expectation.between_points else at_points
    return findings


def motion_between(trajectory: PlannedTrajectory) -> Motion | None:
    """The motion that joint_trajectory_controller interpolates; None for one point, or unordered or NaN ones.

    Lengths must have been checked.
    """
    times = [point.time_ns for point in trajectory.points]
    if None in times or len(times) < 2 or (np.diff(times) <= 0).any():
        return None
    position, velocity, acceleration = columns = list(map(trajectory.rows, FIELDS))
    if not all(np.isfinite(values).all() for values in columns if values is not None):
        return None
    return motion_of_points(
        Points(np.array(times, np.int64), position, velocity, acceleration if velocity is not None else None)
    )


def _check_joints(names: Sequence[str], expectation: Expectation) -> list[Finding]:
    if not names:
        return [Finding(Rule.JOINTS, "joint_names", "the controller's joints", "none")]
    findings = [
        Finding(Rule.JOINTS, "joint_names", "every joint once", f"{count} times", joint=name)
        for name, count in Counter(names).items()
        if count > 1
    ]
    if expectation.joint_names is None:
        return findings
    wanted = dict.fromkeys(expectation.joint_names)
    listed = ", ".join(wanted)
    unknown = [name for name in dict.fromkeys(names) if name not in wanted]
    missing = [name for name in wanted if name not in names]
    if len(missing) == len(wanted):  # one line for all of them: it is for another robot
        got = f"{', '.join(unknown)}, which are those of another robot"
        return [*findings, Finding(Rule.JOINTS, "joint_names", f"joints of the controller ({listed})", got)]
    findings += [
        Finding(Rule.JOINTS, "joint_names", f"joints of the controller ({listed})", "another one", joint=name)
        for name in unknown
    ]
    if not expectation.partial:
        findings += [
            Finding(Rule.JOINTS, "joint_names", "all joints of the controller", "one missing", joint=name)
            for name in missing
        ]
    return findings


def _check_times(trajectory: PlannedTrajectory, now_ns: int | None) -> list[Finding]:
    times = [point.time_ns for point in trajectory.points]
    findings = [
        Finding(Rule.FINITE, "time_from_start", "a finite number", "none", point=k)
        for k, time in enumerate(times)
        if time is None
    ]
    if findings:
        return findings
    if times[0] < 0:
        findings.append(Finding(Rule.TIMES, "time_from_start", "0 or more", _seconds(times[0]), point=0))
    for k in range(1, len(times)):
        if times[k] <= times[k - 1]:
            expected = f"more than {_seconds(times[k - 1])}"
            findings.append(Finding(Rule.TIMES, "time_from_start", expected, _seconds(times[k]), point=k))
    end = trajectory.stamp_ns + times[-1]
    if trajectory.stamp_ns and now_ns is not None and end < now_ns:
        late = f"one {_seconds(now_ns - end)} in the past"
        findings.append(Finding(Rule.START_TIME, "header.stamp", "0, or an end in the future", late))
    return findings


def _check_lengths(trajectory: PlannedTrajectory, complete: bool) -> list[Finding]:
    dof, findings = len(trajectory.joint_names), []
    first = trajectory.points[0]
    for k, point in enumerate(trajectory.points):
        for field in FIELDS:
            length = len(getattr(point, field))
            # Complete in every point or empty in all; positions are required, because controllers do not integrate.
            needed = field == "positions" or (complete and field == "velocities")
            wanted = dof if needed or len(getattr(first, field)) else 0
            if k == 0 and length not in (wanted, 0):
                findings.append(Finding(Rule.LENGTHS, field, f"{dof} values or none", str(length), point=k))
            elif length != wanted:
                findings.append(Finding(Rule.LENGTHS, field, f"{wanted} values", str(length), point=k))
        if len(point.effort):
            findings.append(Finding(Rule.EFFORT, "effort", "none", f"{len(point.effort)} values", point=k))
    return findings


def _check_finite(names: Sequence[str], field: str, values: np.ndarray) -> list[Finding]:
    return [
        Finding(Rule.FINITE, field, "a finite number", str(values[k, joint]), names[joint], int(k))
        for k, joint in np.argwhere(~np.isfinite(values))
    ]


def _check_end(trajectory: PlannedTrajectory, units: JointUnits) -> list[Finding]:
    last = len(trajectory.points) - 1
    return [
        Finding(Rule.REST, "last velocity", f"0 (within {REST_VELOCITY:.1e} {unit})", f"{value:g} {unit}", name, last)
        for name, value in zip(trajectory.joint_names, trajectory.points[-1].velocities, strict=False)
        for unit in units.of(name)[1:2]
        if abs(value) > REST_VELOCITY
    ]


def _check_start(trajectory: PlannedTrajectory, expectation: Expectation) -> list[Finding]:
    robot, tolerance = expectation.robot, expectation.start_tolerance
    if robot is None:
        return []
    return [
        Finding(Rule.START, "start", f"{robot[name]:g} (the robot) within {tolerance:g}", f"{value:g}", name, 0)
        for name, value in zip(trajectory.joint_names, trajectory.points[0].positions, strict=True)
        if name in robot and abs(value - robot[name]) > tolerance
    ]


def _check_limits(trajectory: PlannedTrajectory, limits: JointLimits, units: JointUnits) -> list[Finding]:
    """The worst point of each joint and quantity beyond its limit; the first point is where the robot is."""
    findings, ordered = [], limits.of_joints(trajectory.joint_names)
    velocities = trajectory.rows("velocities")
    for order, (field, quantity) in enumerate(FIELDS.items()):
        values = trajectory.rows(field)
        if values is None or len(values) < 2 or not np.isfinite(values).all():
            continue
        below, bounds = quantity, ordered.of(quantity)
        if quantity == "acceleration" and ordered.forward is not None and velocities is not None:
            below, bounds = DECELERATION, ordered.forward
            values = forward_rows(values, velocities, bounds)
        for what, bound, sign in ((below, bounds[0], -1.0), (quantity, bounds[1], 1.0)):
            for column, name in enumerate(trajectory.joint_names):
                if bound is None:
                    continue
                k = 1 + int(np.argmax(sign * values[1:, column]))
                if excess(sign * values[k, column], sign * bound[column]) > 0:
                    flip = sign if what is DECELERATION else 1.0
                    value, limit = flip * values[k, column], flip * bound[column]
                    side, unit = "at most" if value > limit else "at least", units.of(name)[order]
                    got = f"{value:g} ({shown_excess(quantity, value, limit, unit)} too much)"
                    findings.append(Finding(Rule.LIMITS, what, f"{side} {limit:g} {unit}", got, name, k))
    return findings


def _check_commanded(
    trajectory: PlannedTrajectory, expectation: Expectation, at_points: list[Finding]
) -> list[Finding]:
    """The worst value of each joint and quantity beyond its limit in the controller's interpolation.

    Where a limit is exceeded at the points, too, this takes the place of that finding.
    """
    motion = motion_between(trajectory)
    if motion is None:
        return at_points
    begin, names = trajectory.points[0].time_ns * 1e-9, trajectory.joint_names
    at_a_point = {(finding.what, finding.joint) for finding in at_points}
    findings = []
    for found in worst_violations(motion, expectation.limits.of_joints(names), of_points=True):
        name = names[found.joint]
        unit = expectation.units.of(name)[found.order]
        expected = f"at {'least' if found.value < found.bound else 'most'} {found.bound:g} {unit}"
        more = shown_excess(found.quantity, found.value, found.bound, unit)
        got = f"{found.value:g} ({more} too much) at {begin + found.time:.4g} s"
        if (found.quantity, name) in at_a_point:
            findings.append(Finding(Rule.LIMITS, found.quantity, expected, got, name))
        else:
            findings.append(Finding(Rule.COMMANDED, f"{found.quantity} between the points", expected, got, name))
    return findings


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds * 1e-9:.9g} s"
