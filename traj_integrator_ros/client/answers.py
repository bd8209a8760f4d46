"""Responses of the node as arrays: views of the messages' memory, or tensors if the caller passed tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed as CommittedService
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Retime, Stop

from ..execution.committed import Committed
from ..wire.arrays import viewed
from .requests import ORDERS, SECOND_NS, stamp_of

if TYPE_CHECKING:
    import torch

    Array = np.ndarray | torch.Tensor

Kind = Callable[[np.ndarray], Any]
"""Converts an array of a response to what the caller gets: the array itself, or a tensor."""


class Refused(Exception):
    """The node refuses a request; the message names the field, the expected value and the given one."""


@dataclass(frozen=True)
class Trajectories:
    """A batch of trajectories, float32; an output that was not requested is None."""

    joint_names: tuple[str, ...]
    """Joint names in the order of the columns."""
    stamp_ns: int
    """Stamp of the sequence, ns."""
    time_from_start: Array
    """Time since the start state, s: `[horizon]`, or `[batch, horizon]` if dt differs by trajectory."""
    position: Array | None
    """Position, rad or m, `[batch, horizon, dof]`. The next three fields have the same shape, per s, s² and s³."""
    velocity: Array | None
    acceleration: Array | None
    jerk: Array | None

    @property
    def outputs(self) -> tuple[Array | None, Array | None, Array | None, Array | None]:
        """Position, velocity, acceleration and jerk."""
        return self.position, self.velocity, self.acceleration, self.jerk


@dataclass(frozen=True)
class Gradient:
    """Gradients, float32; a gradient is None if it was not requested or its input was not given."""

    action: Array | None
    """Gradient of the actions, `[batch, horizon, dof]`."""
    start_position: Array | None
    """Gradient of the start rows, `[start rows, dof]`, summed over the trajectories that start from a row."""
    start_velocity: Array | None
    start_acceleration: Array | None
    goal_position: Array | None
    """Gradient of the goal rows, `[goal rows, dof]`, summed in the same way."""
    goal_velocity: Array | None
    goal_acceleration: Array | None
    dt: Array | None
    """Gradient in the shape of dt; `[batch]` if each trajectory has its own dt."""


@dataclass(frozen=True)
class Evaluation:
    """The costs of a batch, with the requested gradients, trajectories and violations."""

    cost: Array
    """Cost of each trajectory, `[batch]`, float32."""
    gradient: Gradient
    """Gradient of the sum of the costs."""
    violations: dict[str, Array]
    """Violations of limits by output, `[batch, horizon, dof]`: positive beyond a limit, negative within it."""
    trajectories: Trajectories | None
    """The trajectories whose indices the request listed in `rows`."""


@dataclass(frozen=True)
class JointMotion:
    """One trajectory, float64."""

    joint_names: tuple[str, ...]
    stamp_ns: int
    """Start time of the trajectory, ns; 0 if it starts on arrival."""
    time_from_start: np.ndarray
    """Time of each point, s, `[points]`."""
    position: np.ndarray
    """Position, rad, `[points, dof]`. Velocity and acceleration have the same shape, or are None if points lack them.
    """
    velocity: np.ndarray | None
    acceleration: np.ndarray | None


@dataclass(frozen=True)
class Retimed:
    """Times found for paths or plans; float64."""

    status: np.ndarray
    """Status of each path, a constant of Retime.Request, `[batch]`."""
    reason: tuple[str, ...]
    """Why each path has no trajectory; empty if it has one."""
    duration: np.ndarray
    """Duration of each motion, s, `[batch]`."""
    unchanged: np.ndarray
    """Whether a plan kept its times, bool `[batch]`."""
    ratio: np.ndarray
    """Greatest velocity, acceleration and jerk, relative to the limits, `[batch, 3]`."""
    row_times: np.ndarray
    """When the rows are passed, s, `[batch, rows]`."""
    trajectories: tuple[JointMotion, ...]
    """The motion of each path, which has points only if `status` is DONE or STILL."""


@dataclass(frozen=True)
class Stopped:
    """The brake that answered a stop."""

    message: str
    """What the node says about the brake."""
    duration: float
    """Time until all joints rest, s."""
    joint_names: tuple[str, ...]
    distance: np.ndarray
    """Distance that each joint still moves, `[dof]`, rad."""


def as_it_is(found: np.ndarray) -> np.ndarray:
    """Return the array itself, without a copy."""
    return found


def kind_of(values: object) -> Kind:
    """Return a function that converts arrays to the kind of `values`: tensors on their device, or numpy arrays."""
    if not hasattr(values, "requires_grad"):
        return as_it_is
    torch = sys.modules["torch"]  # It is loaded already, since the values are its tensors.
    return lambda found: torch.from_numpy(found).to(values.device)


def trajectories_of(message: TrajectoryBatch, kind: Kind = as_it_is) -> Trajectories:
    """Return the arrays of a message. Raises ValueError if lengths do not fit."""
    shape, times = (message.batch, message.horizon, len(message.joint_names)), viewed(message.time_from_start)
    return Trajectories(
        tuple(message.joint_names), stamp_of(message),
        kind(times if times.size == message.horizon else times.reshape(shape[:2])),
        *(_shaped(kind, getattr(message, name), shape) for name in ORDERS),
    )  # fmt: skip


def gradient_of(
    answer: ComputeGradient.Response | Evaluate.Response, actions: ActionSequence, dof: int, kind: Kind
) -> Gradient:
    """Return the gradients of a response about some actions."""
    shape = actions.batch, actions.horizon, dof
    states = [f"grad_{end}_{order}" for end in ("start", "goal") for order in ORDERS[:3]]
    rows = [_shaped(kind, getattr(answer, name), (-1, shape[-1])) for name in states]
    dt = viewed(answer.grad_dt)
    if not actions.dt_per and dt.size > actions.horizon:
        dt = dt.reshape(shape[:2])
    return Gradient(_shaped(kind, answer.grad_action, shape), *rows, kind(dt) if dt.size else None)


def evaluation_of(answer: Evaluate.Response, actions: ActionSequence, dof: int, kind: Kind) -> Evaluation:
    """Return the arrays of a response about some actions."""
    found = {name: viewed(getattr(answer, f"violation_{name}")) for name in ORDERS}
    violations = {name: kind(values.reshape(actions.batch, -1, dof)) for name, values in found.items() if values.size}
    trajectories = trajectories_of(answer.trajectory, kind) if answer.trajectory.batch else None
    return Evaluation(kind(viewed(answer.cost)), gradient_of(answer, actions, dof, kind), violations, trajectories)


def retimed_of(answer: Retime.Response, rows: int) -> Retimed:
    """Return the arrays of a response for paths of so many rows."""
    names, ends = tuple(answer.joint_names), np.cumsum(viewed(answer.points))[:-1]
    times = np.split(viewed(answer.time_from_start), ends)
    dof = len(names)
    motion = [
        np.split(values.reshape(-1, dof), ends) if values.size else [None] * len(times)
        for values in (viewed(getattr(answer, f"result_{name}")) for name in ORDERS[:3])
    ]
    return Retimed(
        viewed(answer.status), tuple(answer.reason), viewed(answer.duration), np.array(answer.unchanged, bool),
        viewed(answer.ratio).reshape(-1, 3), viewed(answer.row_times).reshape(-1, rows),
        tuple(JointMotion(names, 0, *one) for one in zip(times, *motion, strict=True)),
    )  # fmt: skip


def committed_of(answer: CommittedService.Response, joint_names: Sequence[str]) -> Committed:
    """Return the arrays of a response, with columns for the named joints, or for all if none is named."""
    names, columns = _order(answer.joint_names, joint_names)
    dof = len(answer.joint_names)
    fields = [f"{what}{order}" for what in ("", "commanded_", "measured_") for order in ORDERS[:2]]
    rows = (viewed(getattr(answer, name)).reshape(-1, dof)[:, columns] for name in fields)
    now_ns = answer.now.sec * SECOND_NS + answer.now.nanosec
    return Committed(names, now_ns, answer.lead, answer.committed, answer.executing, *rows)


def stopped_of(answer: Stop.Response, joint_names: Sequence[str]) -> Stopped:
    """Return the arrays of a response, with columns for the named joints, or for all if none is named."""
    names, columns = _order(answer.joint_names, joint_names)
    return Stopped(answer.message, answer.duration, names, viewed(answer.distance)[columns])


def motion_of(message: JointTrajectory, joint_names: Sequence[str] = ()) -> JointMotion:
    """Return the arrays of a message with columns for the named joints, or all. Raises ValueError if one is missing."""
    names, columns = _order(message.joint_names, joint_names)
    times = [one.time_from_start.sec * SECOND_NS + one.time_from_start.nanosec for one in message.points]
    rows = [
        np.array(
            [getattr(point, f"{name.removesuffix('y')}{'ies' if name[-1] == 'y' else 's'}") for point in message.points]
        )
        for name in ORDERS[:3]
    ]
    return JointMotion(
        names, stamp_of(message), np.array(times) / SECOND_NS, *(row[:, columns] if row.size else None for row in rows)
    )


def _shaped(kind: Kind, values: object, shape: Sequence[int]) -> Array | None:
    found = viewed(values)
    return kind(found.reshape(shape)) if found.size else None


def _order(found: Sequence[str], wanted: Sequence[str]) -> tuple[tuple[str, ...], Sequence[int]]:
    """Return names and columns of the wanted joints, or of all. Raises ValueError if one is missing."""
    if not wanted or not found or list(wanted) == list(found):
        return tuple(found), slice(None)
    if missing := [name for name in wanted if name not in found]:
        raise ValueError(f"joint_names: expected joints of the node, {', '.join(found)}; got {missing[0]}")
    return tuple(wanted), [list(found).index(name) for name in wanted]
