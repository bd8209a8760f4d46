"""The controller's side: every joint trajectory is checked as joint_trajectory_controller does, and more."""

from __future__ import annotations

from collections.abc import Mapping

from rclpy.node import Node
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_ros.tools.checker import Expectation, check_message
from traj_integrator_ros.wire.sequence_gaps import SequenceGaps

from .client import Row
from .motion import Swing

_DEPTH = 1000
_FAULTS_KEPT = 20
"""A second; one line each is enough to see what is wrong."""


class Controller:
    """Checks what the node publishes for controllers."""

    name = "controller"
    period_s = 0.0

    def __init__(self, node: Node, swing: Swing) -> None:
        node.create_subscription(
            JointTrajectory, "traj_integrator/joint_trajectory", self._on_trajectory, QoSProfile(depth=_DEPTH)
        )
        self._swing = swing
        self._gaps = SequenceGaps()
        self._greeted = False
        self._row = _empty()

    def greet(self) -> bool:
        """Wait for a trajectory that answers the planner's greeting."""
        return self._greeted

    def begin(self) -> None:
        """Count from here."""
        self._row = _empty()

    def send(self) -> None:
        """Nothing: controllers listen."""

    def take(self) -> Row:
        """Trajectories received, lost on their way, unfit."""
        row, self._row = self._row, _empty()
        return row

    def _on_trajectory(self, message: JointTrajectory, info: Mapping[str, object]) -> None:
        self._greeted = True
        self._row["missed"] += self._gaps.missed_before(info)
        self._row["received"] += 1
        now_ns = info["received_timestamp"]  # when it arrived, whenever this process gets to it
        robot = dict(zip(self._swing.joint_names, self._swing.at(now_ns)[0].tolist(), strict=True))
        findings = check_message(
            message,
            Expectation(self._swing.joint_names, complete=True, now_ns=now_ns, robot=robot, limits=self._swing.limits),
        )
        if findings:
            self._row["unfit"] += 1
            self._row["faults"] += [f"joint_trajectory: {finding}" for finding in findings][
                : _FAULTS_KEPT - len(self._row["faults"])
            ]


def _empty() -> Row:
    return {"received": 0, "missed": 0, "unfit": 0, "faults": []}
