"""Plans in the form of JointTrajectory messages: checks their points. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, whole_ns
from ..kernels import MAPS
from ..parameters.parameters import NodeParameters
from ..parameters.table import END_GOAL, WITHOUT_TIMES_CHUNK, WITHOUT_TIMES_REFUSE
from .joint_order import resolve_subset
from .plan import Plan
from .rejection import Rejected, RejectionReason, require_finite, require_size

_AT_REST = float(np.finfo(np.float32).eps)
"""Largest velocity of the last point, rad/s, that counts as 0, as in joint_trajectory_controller."""


class PositionFields(NamedTuple):
    """The fields of a JointTrajectory that are used; efforts are ignored."""

    joint_names: Sequence[str]
    stamp_ns: int
    """Time to which the points' times are relative, ns; 0: when the trajectory starts."""
    count: int
    """Number of points; if it is too large, the fields below may be empty."""
    time_ns: Sequence[int]
    positions: Sequence[np.ndarray]
    """Position of each point, with a value for each joint name, rad."""
    velocities: Sequence[np.ndarray] = ()
    """Velocities, rad/s, in the same form; empty for points without one. Those of a chunk are ignored."""
    accelerations: Sequence[np.ndarray] = ()
    """Accelerations, rad/s^2, in the same form; those of points without velocities are ignored."""


def plan_of_positions(fields: PositionFields, parameters: NodeParameters, now_ns: int, end: str | None = None) -> Plan:
    """Check a trajectory of positions, without knowing the robot's state, and return it as a plan.

    A point at time 0 is the start; without a velocity it has the robot's. One point alone at time 0 is a goal: a path
    without times. What several points that are all at time 0 are, the parameter position_trajectory.without_times says.

    Args:
        fields: the message.
        parameters: the node's configuration.
        now_ns: the node's clock.
        end: "goal" for a complete plan, "stream" for a chunk; None: the parameter position_trajectory.end, except for
            points without times that are a chunk.

    Raises:
        Rejected: for the first error found, with the field, what was expected and what was given.

    """
    names, joint_names = list(fields.joint_names), parameters.joint_names
    if not names:
        raise RejectionReason.JOINT_COUNT.of("joint_names", "at least one joint", "none")
    columns = resolve_subset(names, joint_names, "joint_names")
    count = fields.count
    require_size("points", count, 1, parameters.position_trajectory_max_points, "position_trajectory.max_points")
    time_ns = np.asarray(fields.time_ns, np.int64)
    untimed, otherwise = not time_ns.any(), parameters.position_trajectory_end
    if untimed and count > 1 and _without_times(count, parameters) == WITHOUT_TIMES_CHUNK:
        time_ns, untimed, otherwise = times_of_chunk(count, parameters.dt), False, "stream"
    is_complete = (end or otherwise) == END_GOAL

    def table(values: np.ndarray) -> np.ndarray:
        rows = np.full((count, len(joint_names)), np.nan)
        rows[:, columns] = values
        return rows

    values = _values("positions", fields.positions, len(names))
    rows, velocities, accelerations = table(values), None, None
    if is_complete and not untimed and _lengths(fields.velocities).any():
        values = _values("velocities", fields.velocities, len(names), optional=True)
        _require_rest(values[-1], names)
        velocities, given = table(values), ~np.isnan(values[:, :1])
        if _lengths(fields.accelerations).any():
            values = _values("accelerations", fields.accelerations, len(names), optional=True)
            accelerations = table(np.where(given, values, np.nan))
    _require_times(time_ns, fields.stamp_ns, now_ns, untimed=untimed)
    start = None
    if untimed:
        time_ns = time_ns[:0]
    elif time_ns[0] == 0:
        start = State(rows[0], np.zeros(len(joint_names)))
        rows, time_ns = rows[1:], time_ns[1:]
    else:
        nothing = np.full((1, len(joint_names)), np.nan)
        velocities, accelerations = (
            None if part is None else np.vstack([nothing, part]) for part in (velocities, accelerations)
        )
    left_out = None
    if len(columns) < len(joint_names):
        left_out = np.ones(len(joint_names), bool)
        left_out[columns] = False
    stamp_ns = fields.stamp_ns
    return Plan(
        MAPS["clique"],
        np.diff(time_ns, prepend=0) * NANOSECOND_S,
        rows,
        start,
        0 if untimed and stamp_ns <= now_ns else stamp_ns,
        left_out=left_out,
        untimed=untimed,
        stamp_ns=stamp_ns,
        topic="position_trajectory",
        is_complete=is_complete or untimed,
        velocities=velocities,
        accelerations=accelerations,
    )


def times_of_chunk(count: int, dt: float) -> np.ndarray:
    """Return the times, ns from the stamp, `[count]`, of points that are `dt`, s, apart: those of a sequence's actions.

    joint_trajectory_controller gives points the same times (positions_upsampling.policy_frequency is 1 / dt).
    """
    return np.arange(1, count + 1) * whole_ns(dt)


def _without_times(count: int, parameters: NodeParameters) -> str:
    """Return whether points without times are a path or a chunk. Raises Rejected: invalid_times, if nobody said so."""
    meaning = parameters.position_trajectory_without_times
    if meaning == WITHOUT_TIMES_REFUSE:
        raise RejectionReason.INVALID_TIMES.of(
            "points.time_from_start",
            "increasing times",
            f"0 for all {count} points, which may be a path, passed as fast as limits allow, or a chunk, with points "
            f"{parameters.dt:g} s (parameter dt) apart; choose by the parameter position_trajectory.without_times: "
            "path or chunk",
        )
    return meaning


def _values(part: str, points: Sequence[np.ndarray], count: int, *, optional: bool = False) -> np.ndarray:
    """Return the values of all points, `[N, count]`; NaN where an optional part is not given.

    Raises Rejected: joint_count or not_finite.
    """
    lengths = _lengths(points)
    given = lengths > 0 if optional else np.ones(len(points), bool)
    if (wrong := given & (lengths != count)).any():
        index = int(wrong.argmax())
        raise RejectionReason.JOINT_COUNT.of(
            f"points[{index}].{part}",
            f"{count} values, one for each joint name{', or none' * optional}",
            lengths[index],
        )
    values = np.full((len(points), count), np.nan)
    values[given] = points if given.all() else [row for row in points if len(row)]
    require_finite(f"points.{part}", values[given])
    return values


def _lengths(points: Sequence[np.ndarray]) -> np.ndarray:
    """Return the number of values of each point, `[N]`."""
    if isinstance(points, np.ndarray):  # Without a loop over thousands of points.
        return np.full(len(points), points.shape[1])
    return np.array([len(row) for row in points], int)


def _require_rest(velocity: np.ndarray, names: Sequence[str]) -> None:
    """Refuse a complete plan that ends in motion; NaN counts as rest. Raises Rejected: goal_in_motion."""
    joint = int(np.abs(velocity).argmax())
    if abs(velocity[joint]) > _AT_REST:
        raise RejectionReason.GOAL_IN_MOTION.of(
            "points[-1].velocities",
            "0 at the goal",
            f"{velocity[joint]:.6g} for {names[joint]}; position_trajectory.end = stream takes plans that another one "
            "goes on from",
        )


def _require_times(time_ns: np.ndarray, stamp_ns: int, now_ns: int, *, untimed: bool) -> None:
    """Check that times increase, and that the last one lies ahead. Raises Rejected: invalid_times."""
    if time_ns[0] < 0:
        raise RejectionReason.INVALID_TIMES.of(
            "points[0].time_from_start", "at least 0 s", f"{time_ns[0] * NANOSECOND_S:g}"
        )
    later = np.diff(time_ns) > 0
    if not untimed and not later.all():
        index = int(np.argmin(later)) + 1
        raise RejectionReason.INVALID_TIMES.of(
            f"points[{index}].time_from_start",
            f"more than {time_ns[index - 1] * NANOSECOND_S:.9g} s (the point before)",
            f"{time_ns[index] * NANOSECOND_S:.9g}",
        )
    if stamp_ns and not untimed and stamp_ns + int(time_ns[-1]) <= now_ns:
        ended = (now_ns - stamp_ns - int(time_ns[-1])) * NANOSECOND_S
        raise Rejected(RejectionReason.INVALID_TIMES, f"header.stamp: the trajectory ended {ended:.3f} s ago")
