"""The peer of the node: a plain rclpy node that answers with messages of the same size, without computing anything.

`python -m benchmarks.ros.echo` answers every ActionSequence on /echo/action_sequence with a TrajectoryBatch of the
output's size, made beforehand, on /echo/trajectory_batch. The answers of its services /echo/integrate and
/echo/compute_gradient have the size of the node's. Joint states are received and ignored.
"""

from __future__ import annotations

import sys
from array import array
from functools import cache

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Integrate
from traj_integrator_ros.client import ORDERS

DEPTH = 10


class Echo(Node):
    """Answers each sequence with zeros of the same shape."""

    def __init__(self) -> None:
        super().__init__("echo")
        self._out = self.create_publisher(TrajectoryBatch, "~/trajectory_batch", DEPTH)
        self.create_subscription(ActionSequence, "~/action_sequence", self._answer, DEPTH)
        self.create_subscription(JointState, "~/joint_states", lambda message: None, DEPTH)
        self.create_service(Integrate, "~/integrate", _integrate)
        self.create_service(ComputeGradient, "~/compute_gradient", _compute_gradient)

    def _answer(self, message: ActionSequence) -> None:
        self._out.publish(_zeros(message.batch, message.horizon, len(message.data)))


def _integrate(request: Integrate.Request, response: Integrate.Response) -> Integrate.Response:
    actions = request.actions
    response.success, response.trajectory = True, _zeros(actions.batch, actions.horizon, len(actions.data))
    return response


def _compute_gradient(request: ComputeGradient.Request, response: ComputeGradient.Response) -> ComputeGradient.Response:
    response.success = True
    response.grad_action = request.grad_position
    return response


@cache
def _zeros(batch: int, horizon: int, numbers: int) -> TrajectoryBatch:
    message = TrajectoryBatch(joint_names=[f"panda_joint{i + 1}" for i in range(7)], batch=batch, horizon=horizon)
    message.time_from_start = array("f", bytes(4 * horizon))
    for name in ORDERS:
        setattr(message, name, array("f", bytes(4 * numbers)))
    return message


def main() -> int:
    """Spin until a signal comes."""
    rclpy.init()
    try:
        rclpy.spin(Echo())
    except (ExternalShutdownException, KeyboardInterrupt):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
