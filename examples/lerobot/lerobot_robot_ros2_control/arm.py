"""An arm of ros2_control for a policy: measured positions out, actions in, through the client of the integrator.

Does not need LeRobot.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import Rejection
from traj_integrator_ros.client import IntegratorClient, stamp_of
from traj_integrator_ros.execution.committed import Committed

from .motion import SECOND_NS, Motion

WITHIN_S, STALE_S = 30.0, 0.5
_OF_REACH = 0.8
"""Share of limits.start_deviation by which an action jumps at most: the motion before it may stop short of that."""
_LOOKS = 5
"""Number of times in a period at which it is seen whether the next single action is late."""


class Arm(Motion):
    """Makes one motion of actions by the node, whose parameters start_from and publish.bandwidth it sets.

    Args:
        joints: names in the policy's order.
        period_s: time between two actions, s.
        delay: periods by which single actions are executed later, as `Pace` says.
        bandwidth: with which differences between command and plan go, Hz.
        integrator: name of the node.
        joint_states: the topic.
        ros_arguments: what follows --ros-args.
        within_s: longest time to wait for the node and the first joint state, s.

    Raises:
        TimeoutError: node or joint state did not come; Refused: the node refuses a parameter.

    """

    def __init__(
        self,
        joints: Sequence[str],
        period_s: float,
        *,
        delay: float = 0.8,
        bandwidth: float = 5.0,
        integrator: str = "/traj_integrator",
        joint_states: str = "/joint_states",
        ros_arguments: Sequence[str] = (),
        within_s: float = WITHIN_S,
    ) -> None:
        self.joints = tuple(joints)
        self._state: tuple[np.ndarray, int, int] | None = None
        self._measured = threading.Event()
        self._topic = joint_states
        self._client = client = IntegratorClient(
            integrator, name="lerobot_arm", joint_names=self.joints, ros_arguments=ros_arguments
        )
        try:
            client.wait_until_active(within_s)
            client.set_parameters({"start_from": "previous", "publish.bandwidth": float(bandwidth)})
            super().__init__(period_s, delay, *self._limits(period_s))
            client.on_rejection(self._on_rejection)
            client.node.create_timer(period_s / _LOOKS, self.end)
            client.node.create_subscription(JointState, joint_states, self._on_joint_state, qos_profile_sensor_data)
            if not self._measured.wait(within_s):
                raise TimeoutError(f"{joint_states}: expected {', '.join(joints)} within {within_s:g} s, got none")
        except BaseException:
            client.close()
            raise

    def observe(self) -> tuple[np.ndarray, int]:
        """The latest measured positions `[joints]`, rad, and their stamp, ns. Raises TimeoutError: they are old."""
        position, stamp_ns, received_ns = self._state
        if (age_s := (self.now_ns() - received_ns) / SECOND_NS) > STALE_S:
            raise TimeoutError(f"{self._topic}: expected one every {STALE_S:g} s, the last one came {age_s:.1f} s ago")
        return position, stamp_ns

    def _limits(self, period_s: float) -> tuple[np.ndarray, float]:
        """Return what the node's parameters say of accelerations, rad/s^2, and of how far a chunk may begin, rad."""
        asked = "joint_names", "limits.acceleration", "limits.start_deviation"
        names, most, deviation = self._client.parameters(*asked).values()
        known, reach = dict(zip(names, most, strict=False)), _OF_REACH * (deviation or np.inf)
        # Limits that come from elsewhere are not known here: then an action is a jump if no chunk may begin there.
        return np.array([known.get(joint, reach / period_s**2) for joint in self.joints]), reach

    def _execute(self, positions: np.ndarray, stamp_ns: int) -> None:
        self._client.publish(positions[None], dt=self.period_s, control_space="position", stamp_ns=stamp_ns)

    def now_ns(self) -> int:
        """Time by the clock of stamps, ns."""
        return self._client.node.get_clock().now().nanoseconds

    def _close(self) -> None:
        try:
            self._client.stop()
        finally:
            self._client.close()

    def _committed(self, stamp_ns: int, rows: int) -> Committed:
        return self._client.committed(rows, stamp_ns=stamp_ns, dt=self.period_s)

    def _on_rejection(self, rejection: Rejection) -> None:
        self._refuse(rejection.reason, f"{rejection.reason}: {rejection.text}")

    def _on_joint_state(self, state: JointState) -> None:
        has_all = set(self.joints) <= set(state.name) and len(state.position) == len(state.name)
        if has_all and self.now_ns():  # before the first message on /clock, it is 0
            at = dict(zip(state.name, state.position, strict=True))
            self._state = np.array([at[joint] for joint in self.joints]), stamp_of(state), self.now_ns()
            self._measured.set()
