"""A policy that streams chunks to the node and a robot that executes the trajectories, in the process of a test."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from soak.commanded import Commanded
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.tools.controller_model import scheduled_points
from traj_integrator_ros.traffic.messages import sequence, set_stamp
from traj_integrator_ros.traffic.participant import received_ns
from traj_integrator_ros.traffic.ros_client import RosClient

SECOND_NS = 10**9
HORIZON, DT_S = 16, 0.05
VELOCITY, ACCELERATION, JERK = 2.0, 10.0, 500.0
PARAMETERS = {
    "start_from": "previous",
    "limits.action": "reject",
    "limits.velocity": [VELOCITY] * 3,
    "limits.acceleration": [ACCELERATION] * 3,
    "limits.jerk": [JERK] * 3,
    # So far ahead that a busy machine is in time.
    "publish.lead_time": 0.15,
    "publish.longest_wait": 1.0,
    "diagnostics.period": 0.05,
}
_PERIOD_S = 0.1
_LOST_RAD = 0.05


class StreamedRobot:
    """Streams as long as it is switched on, and always executes; all waiting must use the client.

    Args:
        client: of the node.

    """

    def __init__(self, client: RosClient) -> None:
        self.client = client
        limits = (np.full(3, limit) for limit in (VELOCITY, ACCELERATION))
        self.commanded = Commanded(np.zeros(3), tuple(client.joint_names), *limits, time.time_ns())
        self.stuck: np.ndarray | None = None
        """Where the joints stand still, whatever is commanded; None: they follow."""
        self._origin, self._begin_ns = np.zeros(3), 0
        client.subscribe(JointTrajectory, "~/joint_trajectory", self._execute)

    def plan(self, times_ns: object) -> np.ndarray:
        """Positions at times: swings of 0.2 rad in 4 s, each from rest; at most 0.31 rad/s and 0.5 rad/s^2."""
        swing = 0.2 * np.sin(np.pi / 4 * (np.asarray(times_ns) - self._begin_ns) / SECOND_NS) ** 2
        return self._origin + swing[..., None] * [1.0, -1.0, 0.5]

    def chunk(self, stamp_ns: int, horizon: int = HORIZON) -> ActionSequence:
        """What the policy says on an observation at a time."""
        times_ns = stamp_ns + np.rint(SECOND_NS * DT_S * np.arange(1, horizon + 1)).astype(np.int64)
        message = sequence(self.plan(times_ns)[None], dt=[DT_S])
        set_stamp(message, stamp_ns)
        return message

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Stream at 10 Hz while messages are handled; a robot that its brake has stopped is set off anew."""
        with self.client.periodically(_PERIOD_S, self._send):
            self.wait_until_moving()
            yield

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Publish joint states at 50 Hz."""
        with self.client.periodically(0.02, self._publish_state):
            yield

    def wait_until_moving(self) -> None:
        """Wait until the robot is in full swing."""
        self.client.wait_for(lambda: self.speed() > 0.1, "the robot in motion", 20.0)

    def wait_until_at_rest(self) -> None:
        """Wait until the robot rests, which it does as soon as the last motion is over."""
        self.client.spin(HORIZON * DT_S + 0.5)
        self.client.wait_for(lambda: self.speed() == 0.0, "the robot at rest, rather than left in motion")

    def position(self) -> np.ndarray:
        """What is commanded now, rad."""
        return self.commanded.at(time.time_ns()).position

    def speed(self) -> float:
        """Largest of the joints, rad/s."""
        return float(np.abs(self.commanded.at(time.time_ns()).velocity).max())

    def assert_guided(self) -> None:
        """Whatever was commanded until now kept the limits."""
        self.commanded.judge(time.time_ns())
        assert self.commanded.faults == []

    def _send(self) -> None:
        now_ns = time.time_ns()
        state = self.commanded.at(now_ns)
        is_lost = np.abs(self.plan(now_ns) - state.position).max() > _LOST_RAD
        if not self._begin_ns or (is_lost and not state.velocity.any()):
            self._origin, self._begin_ns = state.position, now_ns
        self.client.sequences.publish(self.chunk(now_ns))

    def _publish_state(self) -> None:
        now_ns = time.time_ns()
        position, velocity, _ = self.commanded.at(now_ns)
        if self.stuck is not None:
            position, velocity = self.stuck, np.zeros(len(self.stuck))
        self.client.publish_state(position.tolist(), velocity.tolist(), stamp_ns=now_ns)

    def _execute(self, message: JointTrajectory, info: Mapping[str, object]) -> None:
        self.commanded.take(*scheduled_points(message), received_ns(info))
