"""Messages from arrays of numpy or torch, whose shapes are checked: the fields of messages are flat."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rcl_interfaces.msg import Parameter as ParameterMessage
from rclpy.parameter import Parameter
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_interfaces.msg import ActionSequence, CostTerm, QuadraticCost, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Retime

from ..wire.arrays import packed
from .values import MOST, is_truth, kind_of_numbers, number, plain, whole

if TYPE_CHECKING:
    import torch

    Array = np.ndarray | torch.Tensor | Sequence | float

SECOND_NS = 1_000_000_000
_MOST_SMALL = 2**8 - 1
"""Largest number in a uint8 field of a message."""
_MOST_SECONDS = 2**31 - 1
"""Largest number of seconds in a Time or Duration message, whose field is int32."""
ORDERS = ("position", "velocity", "acceleration", "jerk")
"""Names of a trajectory's outputs."""
_DT_PER = ("step", "trajectory")
_EMPTY = {
    "bool": Parameter.Type.BOOL_ARRAY, "int": Parameter.Type.INTEGER_ARRAY, "str": Parameter.Type.STRING_ARRAY,
    "float": Parameter.Type.DOUBLE_ARRAY,
}  # fmt: skip
"""Parameter types of empty arrays, which rclpy would take for bytes."""
_SPACES = ("default", "position", "velocity", "acceleration", "jerk", "bspline")


def sequence(
    actions: Array,
    *,
    dt: Array = (),
    dt_per: str = "step",
    control_space: int | str = ActionSequence.DEFAULT,
    joint_names: Sequence[str] = (),
    position: Array = (),
    velocity: Array = (),
    acceleration: Array = (),
    start_index: Array = (),
    goal_position: Array = (),
    goal_velocity: Array = (),
    goal_acceleration: Array = (),
    goal_index: Array = (),
    degree: int = 0,
    steps: int = 0,
) -> ActionSequence:
    """Return the message of some actions, without a stamp. The node's defaults replace what is omitted.

    Args:
        actions: `[batch, horizon, dof]`, in the unit of the control space.
        dt: time steps, s: a number, `[horizon]`, `[batch, horizon]`, or `[batch, 1]` (one for each trajectory).
        dt_per: "step", or "trajectory" if a `dt` of one dimension is `[batch]`.
        control_space: position, velocity, acceleration, jerk or bspline, or its constant in ActionSequence.
        joint_names: the order of the columns.
        position: of the start, `[dof]` or `[rows, dof]`, rad.
        velocity: of the start, `[dof]` or `[rows, dof]`, rad/s.
        acceleration: of the start, `[dof]` or `[rows, dof]`, rad/s².
        start_index: row of the start for each trajectory, `[batch]`.
        goal_position: of the goal, `[dof]` or `[rows, dof]`, rad.
        goal_velocity: of the goal, `[dof]` or `[rows, dof]`, rad/s.
        goal_acceleration: of the goal, `[dof]` or `[rows, dof]`, rad/s².
        goal_index: row of the goal for each trajectory, `[batch]`.
        degree: of a B-spline.
        steps: rows in each segment of a B-spline.

    Raises:
        ValueError: a shape that does not fit, an unknown control space, or a tensor that requires grad.

    """
    data = as_numpy("actions", actions)
    if data.ndim != 3:
        raise ValueError(f"actions: expected [batch, horizon, dof], got {_shape(data)}")
    batch, horizon, dof = data.shape
    each_dt, counts = _time_steps(dt, dt_per, batch, horizon)
    message = ActionSequence(
        joint_names=list(joint_names), control_space=_space(control_space), batch=batch, horizon=horizon,
        data=packed(data), dt=packed(each_dt), dt_per=counts,
        start_index=_indices("start_index", start_index, batch), goal_index=_indices("goal_index", goal_index, batch),
        degree=whole("degree", degree, _MOST_SMALL), steps=whole("steps", steps, _MOST_SMALL),
    )  # fmt: skip
    start, goal = (position, velocity, acceleration), (goal_position, goal_velocity, goal_acceleration)
    for state, rows, prefix in ((message.start, start, ""), (message.goal, goal, "goal_")):
        given = [_columns(f"{prefix}{name}", values, dof, 2) for name, values in zip(ORDERS, rows, strict=False)]
        most = max(values.size for values in given) // dof if dof else 0
        for name, values in zip(ORDERS, given, strict=False):
            setattr(state, name, packed(np.tile(values, (most, 1)) if values.size == dof else values))
    return message


def gradient_request(actions: ActionSequence, upstream: Mapping[str, Array]) -> ComputeGradient.Request:
    """Return the request for the vector-Jacobian product of a sequence.

    `upstream` has gradients `[batch, horizon, dof]` by the names in ORDERS.

    Raises:
        ValueError: an unknown name, or a shape that does not fit.

    """
    if not upstream or not set(upstream) <= set(ORDERS):
        raise ValueError(f"upstream: expected some of {', '.join(ORDERS)}, got {', '.join(upstream) or 'none'}")
    request = ComputeGradient.Request(actions=actions)
    for name, values in upstream.items():
        gradient = as_numpy(f"upstream.{name}", values)
        if gradient.ndim != 3 or len(gradient) != actions.batch:
            raise ValueError(f"upstream.{name}: expected [{actions.batch}, horizon, dof], got {_shape(gradient)}")
        setattr(request, f"grad_{name}", packed(gradient))
    return request


def cost_message(cost: Mapping[str, object], dof: int) -> QuadraticCost:
    """Return the message of a cost: a `QuadraticCost` of the kernels, or a mapping with the same fields.

    The mapping has terms by the names in ORDERS, with the fields of CostTerm.msg, and `duration_weight`. A number
    applies to all joints; None, and fields that are left out, are 0.

    Raises:
        ValueError: an unknown name, or a shape that does not fit.

    """
    message = QuadraticCost()
    for name, term in _items("cost", cost, [*ORDERS, "duration_weight"]):
        if name == "duration_weight":
            message.duration_weight = packed(np.atleast_1d(as_numpy(name, term)))
            continue
        fields = list(CostTerm.get_fields_and_field_types())
        for field, values in _items(f"cost.{name}", term, fields):
            numbers = as_numpy(f"cost.{name}.{field}", values)
            numbers = np.full(dof, numbers) if numbers.ndim == 0 else numbers
            setattr(getattr(message, name), field, packed(_columns(f"cost.{name}.{field}", numbers, dof, 3)))
    return message


def output_bits(outputs: Iterable[str]) -> int:
    """Return the sum of TrajectoryBatch's constants that selects outputs. Raises ValueError for an unknown one."""
    return sum(
        getattr(TrajectoryBatch, name.upper()) for name, _ in _items("outputs", dict.fromkeys(outputs, 0), ORDERS)
    )


def positions_message(
    position: Array, times: Array | None, joint_names: Sequence[str], stamp_ns: int
) -> JointTrajectory:
    """Return the message of positions `[points, dof]`, rad, at times `[points]`, s; None: all times are 0.

    Raises:
        ValueError: a shape that does not fit.

    """
    rows = as_numpy("position", position, np.float64)
    if rows.ndim != 2:
        raise ValueError(f"position: expected [points, dof], got {_shape(rows)}")
    if len(joint_names) != rows.shape[1]:
        named = ", ".join(joint_names) or "none"
        raise ValueError(f"joint_names: expected {rows.shape[1]}, one for each column, got {named}")
    times_s = np.zeros(len(rows)) if times is None else as_numpy("times", times, np.float64)
    if times_s.shape != rows.shape[:1]:
        raise ValueError(f"times: expected [{len(rows)}], one for each point, got {_shape(times_s)}")
    for wrong in times_s[~(np.abs(times_s) < _MOST_SECONDS)][:1]:
        raise ValueError(f"times: expected s from the stamp, got {wrong:g}")
    message = JointTrajectory(joint_names=list(joint_names))
    set_stamp(message, stamp_ns)
    for row, time_ns in zip(rows, np.rint(times_s * SECOND_NS).astype(np.int64).tolist(), strict=True):
        point = JointTrajectoryPoint(positions=array("d", row))
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(time_ns, SECOND_NS)
        message.points.append(point)
    return message


def retime_request(position: Array, joint_names: Sequence[str], fields: Mapping[str, object]) -> Retime.Request:
    """Return the request for paths or plans `[batch, rows, dof]`, rad, with other fields by their names.

    Raises:
        ValueError: a shape that does not fit; TypeError: an unknown field.

    """
    rows = as_numpy("position", position, np.float64)
    if rows.ndim != 3:
        raise ValueError(f"position: expected [batch, rows, dof], got {_shape(rows)}")
    request = Retime.Request(
        joint_names=list(joint_names), batch=rows.shape[0], rows=rows.shape[1], position=packed(rows, "d")
    )
    types = request.get_fields_and_field_types()
    steps, counts = _time_steps(fields.get("dt", ()), fields.get("dt_per", "step"), rows.shape[0], rows.shape[1] - 1)
    fields = {**fields, "dt": steps, "dt_per": counts}
    known = types.keys() - {"joint_names", "batch", "rows", "position"}
    for name, values in fields.items():
        if name not in known:
            raise TypeError(f"retime: expected some of {', '.join(sorted(known))}, got {name}")
        numbers = np.atleast_1d(as_numpy(name, values, np.float64))
        if name in ORDERS and numbers.size and numbers.shape != rows.shape:
            raise ValueError(f"{name}: expected {_shape(rows)}, got {_shape(numbers)}")
        if types[name].startswith("sequence"):
            setattr(request, name, packed(numbers, "d"))
        elif types[name] == "double":
            setattr(request, name, number(name, values))
        else:
            setattr(request, name, whole(name, values, _MOST_SMALL))
    return request


def parameter_message(name: str, value: object) -> ParameterMessage:
    """Return the message of a parameter. Raises ValueError for a value that no parameter can have."""
    found = plain(name, value)
    kind = _EMPTY[kind_of_numbers(value)] if isinstance(found, list | tuple) and not found else None
    return Parameter(name, kind, found).to_parameter_msg()


def as_numpy(name: str, values: Array, dtype: type = np.float32) -> np.ndarray:
    """Convert an array, a tensor on any device, or nested sequences to an array of numpy.

    Raises:
        ValueError: the values are no numbers, or a tensor that requires grad: gradients do not pass a message.

    """
    truths = is_truth(values)
    if hasattr(values, "requires_grad"):
        if values.requires_grad:
            raise ValueError(
                f"{name}: expected a tensor without grad (gradients are what compute_gradient and evaluate return), "
                "got one that requires it: .detach() it"
            )
        values = (values.double() if dtype is np.float64 else values.float()).cpu().numpy()
    try:
        found = np.asarray(values)
        if not (truths or is_truth(found)):
            return found.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected an array of numbers, got {type(values).__name__}: {error}") from None
    raise ValueError(f"{name}: expected an array of numbers, got truth values")


def stamp_of(message: object) -> int:
    """Return the stamp of a message's header, ns."""
    return message.header.stamp.sec * SECOND_NS + message.header.stamp.nanosec


def set_stamp(message: object, stamp_ns: int) -> None:
    """Set the stamp of a message's header."""
    message.header.stamp.sec, message.header.stamp.nanosec = seconds_of(stamp_ns)


def seconds_of(stamp_ns: object) -> tuple[int, int]:
    """Return seconds and nanoseconds of a stamp, ns, within the range of messages."""
    return divmod(whole("stamp_ns", stamp_ns, _MOST_SECONDS * SECOND_NS), SECOND_NS)


def _space(given: int | str) -> int:
    if not isinstance(given, str):
        return whole("control_space", given, _MOST_SMALL)
    if given not in _SPACES:
        raise ValueError(f"control_space: expected one of {', '.join(_SPACES)}, got {given!r}")
    return _SPACES.index(given)


def _columns(name: str, values: Array, dof: int, most: int) -> np.ndarray:
    """Check that numbers have a column for each joint and at most `most` dimensions; empty input stays empty."""
    found = as_numpy(name, values)
    if found.size and not (1 <= found.ndim <= most and found.shape[-1] == dof):
        leading = ["", "rows, ", "batch, horizon, "][:most]
        expected = " or ".join(f"[{one}{dof}]" for one in leading)
        raise ValueError(f"{name}: expected {expected}, got {_shape(found)}")
    return found


def _time_steps(dt: Array, dt_per: str, batch: int, steps: int) -> tuple[np.ndarray, int]:
    """Return flat time steps, and the constant for their layout, which is never guessed when batch equals steps."""
    if dt_per not in _DT_PER:
        raise ValueError(f"dt_per: expected step or trajectory, got {dt_per!r}")
    found, counts = np.atleast_1d(as_numpy("dt", dt, np.float64)), _DT_PER.index(dt_per)
    if found.shape in ((1, 1), (1, steps)) and not counts:
        found = found[0]  # One value for all, as torch broadcasts.
    shapes = [(1,), (batch,)] if counts else [(1,), (steps,), (batch, steps)]
    if found.size and found.shape not in [*shapes, (batch, 1)]:
        expected = ", ".join(map(_brackets, [*shapes, (batch, 1)]))
        raise ValueError(f"dt: expected a number or one of {expected}, got {_shape(found)}")
    return found.reshape(-1), int(found.ndim == 2 and found.shape != (batch, steps)) or counts


def _indices(name: str, values: Array, batch: int) -> array:
    found = as_numpy(name, values, np.float64)
    if found.size and found.shape != (batch,):
        raise ValueError(f"{name}: expected [{batch}], rows from 0 on, got {_shape(found)}")
    return row_numbers(name, found)


def row_numbers(name: str, values: Array) -> array:
    """Return numbers of rows, `[n]`. Raises ValueError for anything but whole numbers from 0 on."""
    found = as_numpy(name, values, np.float64)
    for wrong in found[~((found >= 0) & (found <= MOST) & (found == np.floor(found)))][:1]:
        raise ValueError(f"{name}: expected rows from 0 on, got {wrong:g}")
    return packed(found.astype(np.uint32), "I")


def _items(name: str, given: object, known: Sequence[str]) -> list[tuple[str, object]]:
    """Return the pairs of a mapping or named tuple without values of None. Raises ValueError for unknown names."""
    pairs = given._asdict() if hasattr(given, "_asdict") else given
    if not isinstance(pairs, Mapping):
        raise ValueError(f"{name}: expected {', '.join(known)} by name, got {type(given).__name__}")
    if unknown := [one for one in pairs if one not in known]:
        raise ValueError(f"{name}: expected some of {', '.join(known)}, got {unknown[0]}")
    return [(one, value) for one, value in pairs.items() if value is not None]


def _shape(values: np.ndarray) -> str:
    return _brackets(values.shape)


def _brackets(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
