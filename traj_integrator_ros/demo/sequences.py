"""Windows to ActionSequence messages, and trajectory messages to arrays."""

from __future__ import annotations

from array import array

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, StartState, TrajectoryBatch

from ..tools.checker import Expectation, check_message
from .metrics import Batch
from .windows import Window

SECOND = 1_000_000_000


def floats(values: np.ndarray) -> array:
    """A flat float32 array as message fields take it without looking at every element."""
    return array("f", np.ascontiguousarray(values, dtype=np.float32).tobytes())


def action_sequence(
    joint_names: tuple[str, ...], data: np.ndarray, dt: np.ndarray, control_space: int, start: np.ndarray | None
) -> ActionSequence:
    """A message of actions [batch, horizon, dof] with dt [1] or [horizon] in s; start is [3, dof] or None. No stamp
    yet.
    """
    message = ActionSequence(joint_names=list(joint_names), control_space=int(control_space))
    message.batch, message.horizon = data.shape[0], data.shape[1]
    message.data, message.dt = floats(data), floats(dt)
    if start is not None:
        message.start = StartState(position=floats(start[0]), velocity=floats(start[1]), acceleration=floats(start[2]))
    return message


def window_message(window: Window) -> ActionSequence:
    """The message of a window, without a stamp."""
    names = window.path.motion.joint_names
    return action_sequence(names, window.data, window.dt, window.kind.control_space, window.start)


def batch_arrays(message: TrajectoryBatch) -> Batch:
    """The arrays of a trajectory batch, [batch, horizon, dof] views of the message.

    Raises ValueError where lengths do not fit.
    """
    shape = (message.batch, message.horizon, len(message.joint_names))
    fields = (message.position, message.velocity, message.acceleration, message.jerk)
    return Batch(*[np.asarray(values, dtype=np.float32).reshape(shape) for values in fields])


def stamp_of(message: ActionSequence | TrajectoryBatch | JointTrajectory) -> int:
    """The header stamp in ns."""
    return message.header.stamp.sec * SECOND + message.header.stamp.nanosec


def joint_trajectory_fault(message: JointTrajectory) -> str | None:
    """What a controller would refuse in this trajectory, or a robot should, None where there is nothing."""
    findings = check_message(message, Expectation(complete=True))
    return f"{findings[0].rule.value}: {findings[0].what}" if findings else None
