"""Requests to retime paths and plans: checks them, and answers with a status of each trajectory. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from ..execution.limits import find_motion_violation
from ..execution.motion import Motion
from ..execution.rows import Points, motion_of_points
from ..kernels.retime import MotionLimits, Retimed, RetimeStatus, retime
from ..limits.joint_limits import JointLimits, limits_lacking
from .joint_order import ColumnOrder, resolve_columns, wrong_length
from .rejection import RejectionReason, require_size, require_steps
from .sequences import check_dt_size
from .turning import unwrapped

POSITION = RetimeStatus.TOO_LONG + 1
"""Status of a path that leaves the position limits."""


class RetimeFields(NamedTuple):
    """The fields of a Retime request; arrays are flat views of the message."""

    joint_names: Sequence[str]
    batch: int
    rows: int
    position: np.ndarray
    dt: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    velocity_limits: np.ndarray
    acceleration_limits: np.ndarray
    jerk_limits: np.ndarray
    max_velocity_scaling_factor: float
    max_acceleration_scaling_factor: float
    duration: float
    min_duration: float
    order: int
    dt_per: int = 0


class RetimedBatch(NamedTuple):
    """Retimed trajectories with the request's columns; fields and their types are those of the message."""

    joint_names: tuple[str, ...]
    status: np.ndarray
    reason: list[str]
    duration: np.ndarray
    unchanged: list[bool]
    ratio: np.ndarray
    points: np.ndarray
    time_from_start: np.ndarray
    result_position: np.ndarray
    result_velocity: np.ndarray
    result_acceleration: np.ndarray
    row_times: np.ndarray


class RetimeRequest(NamedTuple):
    """A checked request; arrays in the node's joint order."""

    columns: ColumnOrder
    rows: torch.Tensor
    """Waypoints, rad, `[batch, rows, dof]`."""
    plan: dict[str, object]
    """Arguments of `retime` with times and rates of a plan; empty for a path without times."""
    limits: MotionLimits
    positions: JointLimits
    """The node's limits of positions."""
    options: dict[str, object]
    duration: float
    min_duration: float

    def answer(self) -> RetimedBatch:
        """Retime all trajectories, in any thread; each takes milliseconds or more."""
        found = self._retimed(slice(None), self.duration or self.min_duration or None)
        each = [self._one(found, index) for index in range(len(self.rows))]
        longer = torch.nonzero(found.status == RetimeStatus.TOO_SHORT)[:, 0] if self.min_duration else ()
        if len(longer):  # The plans are longer already than the wanted least duration.
            found = self._retimed(longer, None)
            for index, place in enumerate(longer.tolist()):
                each[place] = self._one(found, index)
        parts = zip(*each, strict=True)
        status, reason, duration, unchanged, ratio, row_times, times, *states = parts
        ordered = [np.concatenate([self.columns.out_of_node(part) for part in state]) for state in states]
        return RetimedBatch(
            self.columns.names,
            np.array(status, np.uint8),
            list(reason),
            np.array(duration),
            list(unchanged),
            np.stack(ratio),
            np.array([len(part) for part in times], np.uint32),
            np.concatenate(times),
            *ordered,
            np.stack(row_times),
        )

    def _retimed(self, rows: slice | torch.Tensor, duration: float | None) -> Retimed:
        mode = "slow only" if self.plan else "fastest"
        return retime(self.rows[rows], self.limits, mode=mode, duration=duration, **self.plan, **self.options)

    def _one(self, found: Retimed, index: int) -> tuple[object, ...]:
        """Return status, reason and results of a trajectory, which has points only if it is within limits."""
        status, reason = int(found.status[index]), found.reason(index, self.positions.joint_names)
        order, (times, states) = self.options["order"], found.points(index)
        good = bool(found.ok[index])
        status = RetimeStatus.DONE if status == RetimeStatus.WITH_RESTS else status  # The reason names the rests.
        if good and len(times) > 1:
            beyond = find_motion_violation(motion_of(found, index, order), self.positions)
            good, status, reason = not beyond, POSITION if beyond else status, beyond or reason
        used = len(times) if good else 0
        none = torch.zeros(0, self.rows.shape[2], dtype=torch.float64)
        return (
            status,
            reason,
            float(found.duration[index]),
            bool(found.unchanged[index]),
            found.ratio[index].numpy(),
            found.row_times[index].numpy(),
            times[:used].numpy(),
            *(state[:used].numpy() for state in (*states[:order], none)[:3]),
        )


def check_retiming(
    fields: RetimeFields,
    limits: JointLimits,
    assumed_jerk: np.ndarray,
    most: tuple[int, int, int],
    turning: np.ndarray | None = None,
) -> RetimeRequest:
    """Check a request and arrange it in the node's joint order.

    Args:
        fields: the request.
        limits: of the node.
        assumed_jerk: the node's assumed limits of jerk, rad/s^3, `[dof]`.
        most: the parameters max_batch, max_horizon and position_trajectory.max_points, for all rows together.
        turning: continuous joints, bool `[dof]`, whose positions are unwrapped.

    Raises:
        Rejected: for the first error found, with the field, what was expected and what was given.

    """
    columns = resolve_columns(fields.joint_names, limits.joint_names)
    batch, rows, dof = fields.batch, fields.rows, len(limits.joint_names)
    require_size("batch", batch, 1, most[0])
    require_size("rows", rows, 2, max(most[1] + 1, most[2] // batch), "position_trajectory.max_points")
    sizes = {"batch": batch, "rows": rows, "dof": dof}
    given = (columns.array(name, getattr(fields, name), sizes) for name in ("position", "velocity", "acceleration"))
    position, velocity, acceleration = (None if values is None else torch.tensor(values) for values in given)
    if position is None:
        raise wrong_length("position", 0, sizes)
    if turning is not None:
        position = torch.from_numpy(unwrapped(position.numpy(), turning))
    order = fields.order or 3
    if order not in (2, 3):
        raise RejectionReason.INVALID_RETIMING.of("order", "2, 3 or 0 (3)", order)
    if order == 2 and acceleration is not None:
        raise RejectionReason.INVALID_RETIMING.of("acceleration", "none with order 2, whose motions are cubics", "some")
    dt = _steps(fields.dt, fields.dt_per, batch, rows)
    plan = {"dt": dt, "velocity": velocity, "acceleration": acceleration} if fields.dt.size else {}
    rates = {"velocity": velocity is not None, "acceleration": acceleration is not None}
    given = [name for name, is_given in rates.items() if is_given]
    if given and not plan:
        raise RejectionReason.INVALID_RETIMING.of(given[0], "none without dt", "some")
    if order == 3 and len(given) == 1:
        raise wrong_length(next(name for name in rates if name not in given), 0, sizes)
    for name in ("duration", "min_duration"):
        value = getattr(fields, name)
        if not 0 <= value < np.inf or (plan and value):
            raise RejectionReason.INVALID_RETIMING.of(
                name, "0 with dt" if plan else "seconds, at least 0", f"{value:g}"
            )
    if fields.duration and fields.min_duration:
        raise RejectionReason.INVALID_RETIMING.of("min_duration", "0 with duration", f"{fields.min_duration:g}")
    return RetimeRequest(
        columns,
        position,
        plan,
        _limits(fields, limits, assumed_jerk, order, columns),
        replace(limits, velocity=None, acceleration=None, jerk=None, deceleration=None),
        {"order": order, "threads": torch.get_num_threads()},
        fields.duration,
        fields.min_duration,
    )


def motion_of(found: Retimed, index: int, order: int = 3) -> Motion:
    """Return the motion that a controller plays for a trajectory of at least two points."""
    times, (p, v, a) = found.points(index)
    time_ns = np.rint(times.numpy() * 1e9).astype(np.int64)
    return motion_of_points(Points(time_ns, p.numpy(), v.numpy(), a.numpy() if order == 3 else None))


def _steps(dt: np.ndarray, per: int, batch: int, rows: int) -> torch.Tensor:
    """Return the steps in the form that `retime` takes."""
    check_dt_size(dt.size, per, batch, rows - 1, "rows - 1")
    require_steps(dt)
    steps = torch.tensor(dt)
    return steps if dt.size in (0, 1) or (dt.size == rows - 1 and not per) else steps.reshape(batch, -1)


def _limits(
    fields: RetimeFields, own: JointLimits, assumed_jerk: np.ndarray, order: int, columns: ColumnOrder
) -> MotionLimits:
    jerk = assumed_jerk if own.jerk is None else np.where(np.isfinite(own.jerk), own.jerk, assumed_jerk)
    found = {}
    acceleration = own.range_of("acceleration")[1]  # The deceleration, if it is smaller.
    for name, of_node in (("velocity", own.velocity), ("acceleration", acceleration), ("jerk", jerk))[:order]:
        field, factor = f"{name}_limits", getattr(fields, f"max_{name}_scaling_factor", 0.0) or 1.0
        values = getattr(fields, field)
        if values.size:
            if values.size != len(own.joint_names):
                raise wrong_length(field, values.size, {"dof": len(own.joint_names)})
            if not (values > 0).all():  # NaN is not.
                raise RejectionReason.INVALID_RETIMING.of(
                    field, "limits greater than 0", f"{values[~(values > 0)][0]:g}"
                )
            of_node = columns.into_node(values)
        elif lacking := limits_lacking(own.joint_names, of_node):
            raise RejectionReason.NO_LIMITS.of(
                field, f"a limit of {lacking}, here or as the parameter limits.{name}", "none"
            )
        if not 0 < factor <= 1:
            raise RejectionReason.INVALID_RETIMING.of(
                f"max_{name}_scaling_factor", "more than 0 and at most 1, or 0 (1)", f"{factor:g}"
            )
        found[name] = torch.from_numpy(of_node * factor)
    return MotionLimits(**found)
