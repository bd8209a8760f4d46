"""Action sequences: from the arrays of a message to a checked request. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..engine.call import NO_ENDS, Call, Ends, step_lengths
from ..kernels import ControlMap, ControlSpace, SplineForm, control_map
from .joint_order import ColumnOrder, resolve_columns, wrong_length
from .rejection import (
    DT_MAX_S,
    DT_MIN_S,
    DT_PER_STEP,
    DT_PER_TRAJECTORY,
    Rejected,
    RejectionReason,
    require_finite,
    require_size,
    require_steps,
)

LARGEST_RESULT_BYTES = 2**31 - 2**20
"""Largest size of the arrays of a TrajectoryBatch, bytes: DDS counts bytes, those of the header included, in 32 bits.
"""

OUTPUTS = ("position", "velocity", "acceleration", "jerk")
ALL_FIELDS = 15
"""Sum of all constants of TrajectoryBatch: position, velocity, acceleration and jerk are 1, 2, 4 and 8."""
_STATE = OUTPUTS[:3]
_NO_VALUES = np.zeros(0, np.float32)


class SequenceFields(NamedTuple):
    """The fields of an ActionSequence; arrays are flat views of the message."""

    joint_names: Sequence[str]
    control_space: int
    batch: int
    horizon: int
    dt: np.ndarray
    start_position: np.ndarray
    start_velocity: np.ndarray
    start_acceleration: np.ndarray
    start_index: np.ndarray
    data: np.ndarray
    goal_position: np.ndarray = _NO_VALUES
    goal_velocity: np.ndarray = _NO_VALUES
    goal_acceleration: np.ndarray = _NO_VALUES
    goal_index: np.ndarray = _NO_VALUES
    degree: int = 0
    steps: int = 0
    dt_per: int = 0


class RequestRules(NamedTuple):
    """The part of the node's configuration against which requests are checked."""

    joint_names: tuple[str, ...]
    control_space: ControlSpace
    max_batch: int
    max_horizon: int
    most_bytes: int = LARGEST_RESULT_BYTES
    """Largest size of the arrays of all trajectories together, bytes."""


class ActionRequest(NamedTuple):
    """A checked action sequence; all arrays in the node's joint order."""

    columns: ColumnOrder
    control_map: ControlMap
    batch: int
    horizon: int
    """Number of actions."""
    dt: float | np.ndarray | None
    """Time steps, s: a number, `[horizon]`, `[batch, 1]` or `[batch, horizon]`; None for the node's parameter."""
    dt_length: int
    """Number of values of dt in the message."""
    start: Ends
    """Start state; it has no rows if it is the latest joint state."""
    actions: np.ndarray | None
    """Actions `[batch, horizon, dof]`; None only in a request for a gradient without data."""
    goal: Ends = NO_ENDS

    def call(self, start: Ends, default_dt: float | None = None) -> Call:
        """Return the engine's call from a start; `default_dt`, s, is for sequences without a time step."""
        shape = self.batch, self.horizon, len(self.columns.names)
        dt = step_lengths(default_dt if self.dt is None else self.dt)
        return Call(self.control_map, shape, dt, start, self.goal, self.actions)

    @property
    def has_positions(self) -> bool:
        """Whether the actions are positions of points, or control points."""
        return self.control_map.control_space in (ControlSpace.POSITION, ControlSpace.BSPLINE)

    @property
    def spline(self) -> SplineForm | None:
        """Form of the spline; None in other control spaces."""
        is_spline = self.control_map.control_space is ControlSpace.BSPLINE
        return SplineForm(*self.control_map.scheme) if is_spline else None

    @property
    def output_horizon(self) -> int:
        """Number of points of each trajectory."""
        return self.control_map.output_horizon(self.horizon)


class IntegratedBatch(NamedTuple):
    """All trajectories of one sequence, in the node's joint order.

    The trajectories are a view of the engine's buffers, which its next integration overwrites.
    """

    request: ActionRequest
    trajectories: np.ndarray
    """Position, velocity, acceleration and jerk, float32, `[4, batch, output horizon, dof]`."""
    times: np.ndarray
    """Times of the points, s from the start, float32, `[output horizon]` or `[batch, output horizon]`."""
    fields: int = ALL_FIELDS
    """Wanted outputs: a sum of 1 (position), 2 (velocity), 4 (acceleration) and 8 (jerk)."""


def check_sequence(fields: SequenceFields, rules: RequestRules, *, data_optional: bool = False) -> ActionRequest:
    """Check an action sequence and arrange it in the node's joint order.

    Sizes are compared as Python integers before anything of that size is allocated.

    Raises:
        Rejected: for the first error found, with the field, what was expected and what was given.

    """
    kernel = _map_of(fields.control_space or rules.control_space, fields.degree, fields.steps)
    columns = resolve_columns(fields.joint_names, rules.joint_names)
    batch, horizon, dof = fields.batch, fields.horizon, len(rules.joint_names)
    require_size("batch", batch, 1, rules.max_batch, "max_batch")
    require_size("horizon", horizon, 1, rules.max_horizon, "max_horizon")
    actions = None
    if not (data_optional and fields.data.size == 0):
        if fields.data.size != batch * horizon * dof:
            raise wrong_length("data", fields.data.size, {"batch": batch, "horizon": horizon, "dof": dof})
        _check_result_size(batch, kernel.output_horizon(horizon), dof, rules.most_bytes)
        actions = columns.into_node(fields.data.reshape(batch, horizon, dof))
    dt = _check_dt(fields.dt, fields.dt_per, batch, horizon, kernel)
    start, goal = _check_ends(fields, kernel, columns, rules.max_batch)
    if actions is not None:
        require_finite("data", actions)
    return ActionRequest(columns, kernel, batch, horizon, dt, fields.dt.size, start, actions, goal)


@lru_cache(maxsize=64)
def _map_of(space: int, degree: int, steps: int) -> ControlMap:
    """Return the map of a control space; a spline's degree and steps of 0 are the usual ones.

    Raises Rejected: invalid_control_space or invalid_spline.
    """
    if space not in list(ControlSpace):
        spaces = ", ".join(f"{one.value} ({one.name})" for one in ControlSpace)
        message = f"control_space: expected 0 (DEFAULT), {spaces}, got {space}"
        raise Rejected(RejectionReason.INVALID_CONTROL_SPACE, message)
    if space != ControlSpace.BSPLINE and (degree or steps):
        name, value = ("degree", degree) if degree else ("steps", steps)
        expected = f"expected 0 with control space {ControlSpace(space).name}"
        raise Rejected(RejectionReason.INVALID_SPLINE, f"{name}: {expected}, got {value}")
    try:
        return control_map(ControlSpace(space), bspline_degree=degree or None, bspline_steps=steps or None)
    except ValueError as error:
        raise Rejected(RejectionReason.INVALID_SPLINE, f"{error}") from None


def check_fields(value: int, name: str) -> int:
    """Return which outputs are wanted, as a sum of 1, 2, 4 and 8. Raises Rejected: invalid_fields."""
    if value > ALL_FIELDS:
        raise RejectionReason.INVALID_FIELDS.of(
            name, "0 (all) or a sum of 1 (position), 2 (velocity), 4 (acceleration) and 8 (jerk)", value
        )
    return value or ALL_FIELDS


def check_dt_size(size: int, per: int, batch: int, count: int, name: str) -> None:
    """Check the number of time steps in a message; `per` is their layout, and `count` the number of steps.

    Raises:
        Rejected: invalid_dt, or size_mismatch.

    """
    if per not in (DT_PER_STEP, DT_PER_TRAJECTORY):
        expected = f"{DT_PER_STEP} (DT_PER_STEP) or {DT_PER_TRAJECTORY} (DT_PER_TRAJECTORY)"
        raise RejectionReason.INVALID_DT.of("dt_per", expected, per)
    if size not in (0, 1, *((batch,) if per else (count, batch * count))):
        sizes = f"1 or {batch} (batch)" if per else f"1, {count} ({name}) or {batch * count} (batch x {name})"
        raise RejectionReason.SIZE_MISMATCH.of("dt", f"0, {sizes} values", size)


def _check_result_size(batch: int, output_horizon: int, dof: int, most_bytes: int) -> None:
    # The size of four arrays [batch, output horizon, dof], and of times that may differ by trajectory, all float32.
    size = 4 * batch * output_horizon * (4 * dof + 1)
    if size > most_bytes:
        raise RejectionReason.SIZE_OUT_OF_RANGE.of(
            "batch",
            f"trajectories of at most {most_bytes} bytes, the most that a message carries",
            f"{size} (batch {batch} x output horizon {output_horizon} x dof {dof})",
        )


def _check_dt(values: np.ndarray, per: int, batch: int, horizon: int, kernel: ControlMap) -> float | np.ndarray | None:
    check_dt_size(values.size, per, batch, horizon, "horizon")
    if values.size == 0:
        return None
    if values.size == 1 and DT_MIN_S <= (single := float(values[0])) <= DT_MAX_S:
        return single
    require_steps(values)
    if per:
        return values[:, None]
    per_trajectory = values.size != horizon
    dt = values.reshape(batch, horizon) if per_trajectory else values
    if kernel.uniform_dt_only:
        return _uniform_dt(dt, kernel)
    return dt


def _uniform_dt(dt: np.ndarray, kernel: ControlMap) -> float | np.ndarray:
    """Reduce equal steps to one number, or to one for each trajectory, `[batch, 1]`."""
    first = dt[..., :1]
    if (dt != first).any():
        raise Rejected(
            RejectionReason.INVALID_DT,
            f"dt: {kernel.name} needs steps of one length, got {dt.min():g} to {dt.max():g} s",
        )
    return float(first[0]) if dt.ndim == 1 else first


def _check_ends(fields: SequenceFields, kernel: ControlMap, columns: ColumnOrder, most_rows: int) -> tuple[Ends, Ends]:
    """Check start and goal, and arrange them in the node's joint order; a start without rows is the robot's."""
    rows = fields.start_position, fields.start_velocity, fields.start_acceleration
    start = _check_end("start", rows, fields.start_index, fields.batch, most_rows, columns)
    rows = fields.goal_position, fields.goal_velocity, fields.goal_acceleration
    given = [name for name, values in zip(_STATE, rows, strict=True) if values.size]
    if not (given or fields.goal_index.size):
        return start, NO_ENDS
    unknown = [name for name in given if name not in kernel.goal]
    if unknown or not kernel.goal:
        field = f"goal.{unknown[0]}" if unknown else "goal_index"
        takes = f"{' and '.join(kernel.goal)} only" if kernel.goal else "no goal"
        raise Rejected(
            RejectionReason.GOAL_NOT_SUPPORTED,
            f"{field}: expected none, because control space {kernel.control_space.name} takes {takes}",
        )
    if not given:
        raise RejectionReason.SIZE_MISMATCH.of("goal_index", "none without goal.position", "one")
    goal = _check_end("goal", rows[: len(kernel.goal)], fields.goal_index, fields.batch, most_rows, columns)
    if fields.horizon < -kernel.goal_place:
        raise RejectionReason.SIZE_OUT_OF_RANGE.of(
            "horizon", f"at least {-kernel.goal_place} actions with a goal", fields.horizon
        )
    return start, goal


def _check_end(
    name: str,
    values: tuple[np.ndarray, ...],
    index: np.ndarray,
    batch: int,
    most_rows: int,
    columns: ColumnOrder,
) -> Ends:
    """Check the flat rows of "start" or "goal", the first of which are positions, and their index."""
    dof = len(columns.names)
    position, *others = values
    for part, more in zip(_STATE[1:], others, strict=False):
        if more.size and not position.size:
            raise RejectionReason.SIZE_MISMATCH.of(f"{name}.{part}", f"none without {name}.position", more.size)
    if position.size % dof:
        raise RejectionReason.SIZE_MISMATCH.of(
            f"{name}.position", f"rows of {dof} values (dof)", f"{position.size} values"
        )
    count = position.size // dof or 1
    if count > max(most_rows, 1):
        raise RejectionReason.SIZE_OUT_OF_RANGE.of(
            f"{name}.position", f"at most {most_rows} rows (parameter max_batch)", count
        )
    if not index.size and count not in (1, batch):
        raise RejectionReason.SIZE_MISMATCH.of(
            f"{name}.position", f"1 row or {batch} (batch) without {name}_index", count
        )
    rows = ()
    if position.size:
        sizes = {"rows": count, "dof": dof}
        rows = tuple(columns.array(f"{name}.{part}", x, sizes) for part, x in zip(_STATE, values, strict=False))
    return Ends(rows, _check_index(name, index, batch, count), count)


def _check_index(name: str, values: np.ndarray, batch: int, rows: int) -> np.ndarray | None:
    if not values.size:
        return None
    if values.size != batch:
        raise RejectionReason.SIZE_MISMATCH.of(f"{name}_index", f"0 or {batch} (batch) values", values.size)
    largest = int(values.max())
    if largest >= rows:
        raise Rejected(
            RejectionReason.START_INDEX if name == "start" else RejectionReason.GOAL_INDEX,
            f"{name}_index: expected 0 to {rows - 1} ({rows} {name} rows), got {largest} at [{int(values.argmax())}]",
        )
    return values.astype(np.int64)
