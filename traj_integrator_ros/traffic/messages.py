"""Arrays to messages of this package and back."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient

SECOND_NS = 1_000_000_000
ORDERS = ("position", "velocity", "acceleration", "jerk")


def sequence(
    actions: np.ndarray,
    *,
    dt: Sequence[float] | np.ndarray = (),
    control_space: int = ActionSequence.DEFAULT,
    joint_names: Sequence[str] = (),
    position: np.ndarray | Sequence = (),
    velocity: np.ndarray | Sequence = (),
    acceleration: np.ndarray | Sequence = (),
    start_index: Sequence[int] = (),
) -> ActionSequence:
    """The message, without a stamp: actions `[batch, horizon, dof]`, dt `[1]` or `[horizon]` s, start `[rows, dof]`."""
    batch, horizon, _ = actions.shape
    message = ActionSequence(
        joint_names=list(joint_names), control_space=int(control_space), batch=batch, horizon=horizon,
        dt=floats(dt), data=floats(actions), start_index=array("I", start_index),
    )  # fmt: skip
    message.start.position, message.start.velocity = floats(position), floats(velocity)
    message.start.acceleration = floats(acceleration)
    return message


def gradient_request(actions: ActionSequence, upstream: Mapping[str, np.ndarray]) -> ComputeGradient.Request:
    """The request for the vjp of a sequence; `upstream` gradients by name, of ORDERS, `[batch, horizon, dof]` each."""
    fields = {f"grad_{name}": floats(values) for name, values in upstream.items()}
    return ComputeGradient.Request(actions=actions, **fields)


def floats(values: object) -> array:
    """Values, flat, as float32 fields take them without looking at each element."""
    return array("f", np.ascontiguousarray(values, np.float32).tobytes())


def table(values: Sequence[float], batch: int, dof: int) -> np.ndarray:
    """A flat message field as `[batch, horizon, dof]`."""
    return np.asarray(values).reshape(batch, -1, dof)


def batch_arrays(message: TrajectoryBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of a trajectory batch by ORDERS, `[batch, horizon, dof]` views: rad, rad/s, rad/s², rad/s³.

    Raises ValueError where lengths do not fit.
    """
    shape = (message.batch, message.horizon, len(message.joint_names))
    return tuple(np.asarray(getattr(message, name), np.float32).reshape(shape) for name in ORDERS)


def stamp_of(message: ActionSequence | TrajectoryBatch | JointTrajectory) -> int:
    """The header's stamp, ns."""
    return message.header.stamp.sec * SECOND_NS + message.header.stamp.nanosec


def set_stamp(message: object, stamp_ns: int) -> None:
    """Set the header's stamp."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
