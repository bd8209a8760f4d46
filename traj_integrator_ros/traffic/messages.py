"""Arrays to messages of this package and back."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient

SECOND_NS = 1_000_000_000
_STAMP = struct.Struct("<iI")
_STAMP_AT = 4
"""Position after the encoding; the header is the first field of every message here."""
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
) -> ActionSequence:
    """The message, without a stamp: actions `[batch, horizon, dof]`, dt `[1]` or `[horizon]` s, start `[rows, dof]`."""
    batch, horizon, _ = actions.shape
    message = ActionSequence(
        joint_names=list(joint_names), control_space=int(control_space), batch=batch, horizon=horizon,
        dt=floats(dt), data=floats(actions),
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


class Template:
    """A serialized message that begins with a header.

    Args:
        message: as it is sent, except for the stamp.
        variable: contents of the float64 fields that will change, as they are in `message`; each must be unique in it.

    """

    def __init__(self, message: object, *variable: np.ndarray) -> None:
        self._bytes = bytearray(serialize_message(message))
        self._places = [self._bytes.index(values.tobytes()) for values in variable]

    def stamped(self, stamp_ns: int, *values: np.ndarray) -> bytes:
        """Return the message with this stamp, and with these values in the variable fields."""
        _STAMP.pack_into(self._bytes, _STAMP_AT, *divmod(stamp_ns, SECOND_NS))
        for place, numbers in zip(self._places, values, strict=True):
            data = np.asarray(numbers, np.float64).tobytes()
            self._bytes[place : place + len(data)] = data
        return bytes(self._bytes)
