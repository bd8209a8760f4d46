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
from traj_integrator_ros.client import SECOND_NS, IntegratorClient, stamp_of

from .pace import Pace

WITHIN_S, STALE_S, WARNING_S = 30.0, 0.5, 2.0


class Arm:
    """Takes actions one by one, or as chunks.

    Args:
        joints: names in the policy's order.
        period_s: time between two actions, s.
        delay: periods by which single actions are executed later, as `Pace` says.
        integrator: name of the node, whose parameter start_from is set to previous.
        joint_states: the topic.
        ros_arguments: what follows --ros-args.
        within_s: longest time to wait for the node and the first joint state, s.

    Raises:
        TimeoutError: node or joint state did not come; Refused: the node refuses the parameter.

    """

    def __init__(
        self,
        joints: Sequence[str],
        period_s: float,
        *,
        delay: int = 2,
        integrator: str = "/traj_integrator",
        joint_states: str = "/joint_states",
        ros_arguments: Sequence[str] = (),
        within_s: float = WITHIN_S,
    ) -> None:
        self.joints, self.period_s = tuple(joints), period_s
        self.pace = Pace(round(period_s * SECOND_NS), delay)
        self.rejected = 0
        """Number of chunks and actions that the node has not executed; a warning says why."""
        self._state: tuple[np.ndarray, int, int] | None = None
        self._measured = threading.Event()
        self._topic = joint_states
        self._client = IntegratorClient(
            integrator, name="lerobot_arm", joint_names=self.joints, ros_arguments=ros_arguments
        )
        node = self._client.node
        try:
            node.create_subscription(JointState, joint_states, self._on_joint_state, qos_profile_sensor_data)
            self._client.on_rejection(self._on_rejection)
            self._client.wait_until_active(within_s)
            self._client.set_parameters({"start_from": "previous"})
            if not self._measured.wait(within_s):
                raise TimeoutError(f"{joint_states}: expected {', '.join(joints)} within {within_s:g} s, got none")
        except BaseException:
            self._client.close()
            raise

    def observe(self) -> tuple[np.ndarray, int]:
        """The latest measured positions `[joints]`, rad, and their stamp, ns. Raises TimeoutError: they are old."""
        position, stamp_ns, received_ns = self._state
        if (age_s := (self.now_ns() - received_ns) / SECOND_NS) > STALE_S:
            raise TimeoutError(f"{self._topic}: expected one every {STALE_S:g} s, the last one came {age_s:.1f} s ago")
        return position, stamp_ns

    def send(self, position: np.ndarray) -> None:
        """Execute one action, a position `[joints]`, rad, a period after the one before."""
        before = self.pace.early + self.pace.late
        self.send_chunk(*self.pace.chunk(position, self.now_ns(), self._commanded))
        if self.pace.early + self.pace.late > before:
            self._warn(
                f"expected an action every {self.period_s:.3g} s; {self.pace.early} came too early and replaced the "
                f"one before, {self.pace.late} came after a gap"
            )

    def send_chunk(self, positions: np.ndarray, stamp_ns: int) -> None:
        """Execute a chunk `[actions, joints]`, rad, whose first action is reached one period after the stamp."""
        self._client.publish(positions[None], dt=self.period_s, control_space="position", stamp_ns=stamp_ns)

    def prefix(self, stamp_ns: int, actions: int, inference_s: float) -> np.ndarray:
        """Return the actions with which a chunk of this stamp must begin, since they can no longer change.

        Args:
            stamp_ns: stamp of the observation.
            actions: length of the chunk.
            inference_s: time that the policy will need, s.

        Returns:
            Positions `[fixed, joints]`, rad, the frozen prefix of real-time chunking; at most `actions` rows.

        """
        found = self._client.committed(actions + 1, stamp_ns=stamp_ns, dt=self.period_s)
        fixed = found.committed + int(np.ceil(inference_s / self.period_s))
        return found.position[1 : min(fixed, actions + 1)]

    def now_ns(self) -> int:
        """Time by the clock of stamps, ns."""
        return self._client.node.get_clock().now().nanoseconds

    def close(self) -> None:
        """Let the arm brake, and disconnect."""
        try:
            self._client.stop()
        finally:
            self._client.close()

    def _commanded(self, time_ns: int) -> np.ndarray:
        return self._client.committed(1, stamp_ns=time_ns, dt=self.period_s).position[0]

    def _warn(self, text: str) -> None:
        self._client.node.get_logger().warning(text, throttle_duration_sec=WARNING_S)

    def _on_rejection(self, rejection: Rejection) -> None:
        self.rejected += 1
        self._warn(f"{rejection.reason}: {rejection.text}")

    def _on_joint_state(self, state: JointState) -> None:
        has_all = set(self.joints) <= set(state.name) and len(state.position) == len(state.name)
        if has_all and self.now_ns():  # before the first message on /clock, it is 0
            at = dict(zip(state.name, state.position, strict=True))
            self._state = np.array([at[joint] for joint in self.joints]), stamp_of(state), self.now_ns()
            self._measured.set()
