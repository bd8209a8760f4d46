"""Received action sequences: from the arrays of a message to a checked request. Knows no ROS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..engine.integrator import StartState, UpstreamGradient
from ..kernels import AccelerationIntegrator, ControlMap, ControlSpace, FiniteDifference, SplineForm, control_map
from .joint_order import ColumnOrder, check_rows, resolve_columns, wrong_length
from .rejection import Rejected, RejectionReason, require_finite
from .time_grid import DT_MAX_S, DT_MIN_S

LARGEST_RESULT_BYTES = 2**31 - 2**20
"""Most bytes for the arrays of a TrajectoryBatch: DDS counts bytes in 32 bits, and a header needs some of them."""

OUTPUTS = ("position", "velocity", "acceleration", "jerk")
ALL_FIELDS = 15
"""All constants of TrajectoryBatch together: position, velocity, acceleration and jerk are 1, 2, 4 and 8."""
_NO_VALUES = np.zeros(0, np.float32)
USUAL_SPLINE = SplineForm()


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


class UpstreamFields(NamedTuple):
    """The upstream gradients of a ComputeGradient request; flat views, empty means 0."""

    grad_position: np.ndarray
    grad_velocity: np.ndarray
    grad_acceleration: np.ndarray
    grad_jerk: np.ndarray


@dataclass(frozen=True)
class RequestRules:
    """The node's configuration against which requests are checked."""

    joint_names: tuple[str, ...]
    control_space: ControlSpace
    finite_difference: FiniteDifference
    acceleration_integrator: AccelerationIntegrator
    max_batch: int
    max_horizon: int
    spline: SplineForm = USUAL_SPLINE
    """The form of B-splines for sequences that do not give their own."""
    most_bytes: int = LARGEST_RESULT_BYTES
    """Of the arrays of all trajectories."""

    @cached_property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    @cached_property
    def maps(self) -> Mapping[int, ControlMap]:
        """The control map of each control space, by its number in messages; 0 is the configured one."""
        spaces = {0: self.control_space, **{space.value: space for space in ControlSpace}}
        return {value: self._map(space, self.spline) for value, space in spaces.items()}

    def map_of(self, fields: SequenceFields) -> ControlMap:
        """Return the control map of a sequence.

        Raises:
            Rejected: invalid_control_space, or invalid_spline.

        """
        known = self.maps.get(fields.control_space)
        if known is None:
            raise _unknown_control_space(fields.control_space)
        if not fields.degree and not fields.steps:
            return known
        if known.control_space is not ControlSpace.BSPLINE:
            name, value = ("degree", fields.degree) if fields.degree else ("steps", fields.steps)
            raise Rejected(
                RejectionReason.INVALID_SPLINE,
                f"{name}: expected 0 with control space {known.control_space.name}, got {value}",
            )
        try:
            form = replace(
                self.spline, degree=fields.degree or self.spline.degree, steps=fields.steps or self.spline.steps
            )
        except ValueError as error:
            raise Rejected(RejectionReason.INVALID_SPLINE, f"{error}") from None
        return self._map(ControlSpace.BSPLINE, form)

    def _map(self, space: ControlSpace, spline: SplineForm) -> ControlMap:
        return control_map(space, self.finite_difference, self.acceleration_integrator, *spline.scheme)


class ActionRequest(NamedTuple):
    """A checked action sequence; all arrays in the node's joint order."""

    columns: ColumnOrder
    control_map: ControlMap
    batch: int
    horizon: int
    """Horizon of the actions."""
    dt: float | np.ndarray | None
    """s: None for the node's parameter, a number, `[horizon]`, `[batch, 1]` or `[batch, horizon]`."""
    dt_length: int
    """Number of values of dt in the message."""
    start: StartState | None
    """Start rows `[S, dof]`; None for the latest joint state."""
    start_index: np.ndarray | None
    """`[batch]`, int64."""
    actions: np.ndarray | None
    """`[batch, horizon, dof]`; None only in a request for a gradient without data."""
    goal: StartState | None = None
    """Goal rows `[G, dof]`; None if the sequence has no goal."""
    goal_index: np.ndarray | None = None
    """`[batch]`, int64."""

    @property
    def map_and_rows(self) -> dict[str, object]:
        """Arguments that are common to all calls of the engine: the map, the goal, and the row indices."""
        return {
            "control_space": self.control_map.control_space,
            "start_index": self.start_index,
            "goal": self.goal,
            "goal_index": self.goal_index,
            "spline": self.spline,
        }

    @property
    def spline(self) -> SplineForm | None:
        """Form of the spline; None for other control spaces."""
        is_spline = self.control_map.control_space is ControlSpace.BSPLINE
        return SplineForm(*self.control_map.scheme) if is_spline else None

    @property
    def output_horizon(self) -> int:
        """Number of points of each trajectory."""
        return self.control_map.output_horizon(self.horizon)


def check_sequence(fields: SequenceFields, rules: RequestRules, *, data_optional: bool = False) -> ActionRequest:
    """Check an action sequence and arrange it in the node's joint order.

    Sizes are compared as Python integers before anything is allocated from them.

    Raises:
        Rejected: for the first error found, with the field, what was expected and what was given.

    """
    kernel = rules.map_of(fields)
    columns = resolve_columns(fields.joint_names, rules.joint_names)
    batch, horizon, dof = fields.batch, fields.horizon, rules.dof
    if not 1 <= batch <= rules.max_batch:
        raise _wrong_size("batch", batch, rules.max_batch)
    if not 1 <= horizon <= rules.max_horizon:
        raise _wrong_size("horizon", horizon, rules.max_horizon)
    actions = None
    if not (data_optional and fields.data.size == 0):
        if fields.data.size != batch * horizon * dof:
            raise wrong_length("data", fields.data.size, {"batch": batch, "horizon": horizon, "dof": dof})
        _check_result_size(batch, kernel.output_horizon(horizon), dof, rules.most_bytes)
        actions = columns.into_node(fields.data.reshape(batch, horizon, dof))
    dt = _check_dt(fields.dt, batch, horizon, kernel)
    sizes = {"batch": batch, "most_rows": rules.max_batch, "columns": columns}
    start, start_index = check_rows(
        "start", fields.start_position, fields.start_velocity, fields.start_acceleration, fields.start_index, **sizes
    )
    goal, goal_index = _check_goal(fields, kernel, sizes)
    if actions is not None:
        require_finite("data", actions)
    return ActionRequest(
        columns, kernel, batch, horizon, dt, fields.dt.size, start, start_index, actions, goal, goal_index
    )


def check_fields(value: int, name: str) -> int:
    """Return which outputs are wanted, as a sum of 1, 2, 4 and 8.

    Raises:
        Rejected: invalid_fields.

    """
    if value > ALL_FIELDS:
        raise Rejected(
            RejectionReason.INVALID_FIELDS,
            f"{name}: expected 0 (all) or a sum of 1 (position), 2 (velocity), 4 (acceleration) and 8 (jerk), "
            f"got {value}",
        )
    return value or ALL_FIELDS


def check_upstream(fields: UpstreamFields, request: ActionRequest) -> UpstreamGradient:
    """Check the upstream gradients of a request and arrange them in the node's joint order.

    Raises:
        Rejected: gradient_length or not_finite, naming the field.

    """
    shape = (request.batch, request.output_horizon, len(request.columns.names))
    expected = shape[0] * shape[1] * shape[2]
    arranged: list[np.ndarray | None] = []
    for name, values in zip(fields._fields, fields, strict=True):
        if values.size == 0:
            arranged.append(None)
            continue
        if values.size != expected:
            raise Rejected(
                RejectionReason.GRADIENT_LENGTH,
                f"{name}: expected 0 or {expected} values (batch {shape[0]} x output horizon {shape[1]} x "
                f"dof {shape[2]}), got {values.size}",
            )
        require_finite(name, values)
        arranged.append(request.columns.into_node(values.reshape(shape)))
    return UpstreamGradient(*arranged)


def _unknown_control_space(value: int) -> Rejected:
    known = ", ".join(f"{space.value} ({space.name})" for space in ControlSpace)
    return Rejected(RejectionReason.INVALID_CONTROL_SPACE, f"control_space: expected 0 (DEFAULT), {known}, got {value}")


def _wrong_size(name: str, value: int, maximum: int) -> Rejected:
    return Rejected(
        RejectionReason.SIZE_OUT_OF_RANGE, f"{name}: expected 1 to {maximum} (parameter max_{name}), got {value}"
    )


def _check_result_size(batch: int, output_horizon: int, dof: int, most_bytes: int) -> None:
    # Size of four arrays [batch, output horizon, dof], and of times that may differ by trajectory; all float32.
    size = 4 * batch * output_horizon * (4 * dof + 1)
    if size > most_bytes:
        raise Rejected(
            RejectionReason.SIZE_OUT_OF_RANGE,
            f"batch: expected trajectories of at most {most_bytes} bytes, the most that a message carries, "
            f"got {size} (batch {batch} x output horizon {output_horizon} x dof {dof})",
        )


def _check_dt(values: np.ndarray, batch: int, horizon: int, kernel: ControlMap) -> float | np.ndarray | None:
    if values.size == 0:
        return None
    if values.size not in (1, horizon, batch * horizon):
        raise Rejected(
            RejectionReason.SIZE_MISMATCH,
            f"dt: expected 0, 1, {horizon} (horizon) or {batch * horizon} (batch x horizon) values, got {values.size}",
        )
    if values.size == 1 and DT_MIN_S <= (single := float(values[0])) <= DT_MAX_S:
        return single
    require_finite("dt", values)
    outside = (values < DT_MIN_S) | (values > DT_MAX_S)
    if outside.any():
        index = int(outside.argmax())
        raise Rejected(
            RejectionReason.INVALID_DT,
            f"dt: expected more than 0 s ({DT_MIN_S:g} to {DT_MAX_S:g}), got {values[index]:g} at [{index}]",
        )
    if values.size == 1:
        return float(values[0])
    per_trajectory = values.size != horizon
    dt = values.reshape(batch, horizon) if per_trajectory else values
    if kernel.uniform_dt_only:
        return _uniform_dt(dt, kernel)
    return dt


def _uniform_dt(dt: np.ndarray, kernel: ControlMap) -> float | np.ndarray:
    """Steps of equal length as the single length, or one for each trajectory `[batch, 1]`."""
    first = dt[..., :1]
    if (dt != first).any():
        raise Rejected(
            RejectionReason.INVALID_DT,
            f"dt: {kernel.name} needs steps of one length, got {dt.min():g} to {dt.max():g} s",
        )
    return float(first[0]) if dt.ndim == 1 else first


def _check_goal(
    fields: SequenceFields, kernel: ControlMap, sizes: Mapping[str, object]
) -> tuple[StartState | None, np.ndarray | None]:
    parts = {
        "position": fields.goal_position,
        "velocity": fields.goal_velocity,
        "acceleration": fields.goal_acceleration,
    }
    if not (fields.goal_index.size or any(values.size for values in parts.values())):
        return None, None
    unknown = [name for name, values in parts.items() if values.size and name not in kernel.goal]
    if unknown or (fields.goal_index.size and not kernel.goal):
        field = f"goal.{unknown[0]}" if unknown else "goal_index"
        takes = f"{' and '.join(kernel.goal)} only" if kernel.goal else "no goal"
        raise Rejected(
            RejectionReason.GOAL_NOT_SUPPORTED,
            f"{field}: expected none, because control space {kernel.control_space.name} takes {takes}",
        )
    if fields.goal_index.size and not any(values.size for values in parts.values()):
        raise Rejected(RejectionReason.SIZE_MISMATCH, "goal_index: expected none without goal.position, got one")
    goal, index = check_rows("goal", *parts.values(), fields.goal_index, **sizes)
    if goal is not None and fields.horizon < -kernel.goal_place:
        raise Rejected(
            RejectionReason.SIZE_OUT_OF_RANGE,
            f"horizon: expected at least {-kernel.goal_place} actions with a goal, got {fields.horizon}",
        )
    return goal, index
