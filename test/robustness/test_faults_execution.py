"""What goes wrong while a motion runs: streams that end, nodes that go. The robot comes to rest."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pytest
from node_fixtures import NodeServer
from ros_client import RosClient
from trajectory_msgs.msg import JointTrajectory

from kit.controller import fields_of
from kit.participant import received_ns
from soak.commanded import Commanded
from traj_integrator_ros.client import SECOND_NS, sequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
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
LOST_RAD = 0.05


class StreamedRobot:
    """A policy that streams chunks to a node, and a robot that executes the trajectories; all waits use the client."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        limits = (np.full(3, limit) for limit in (VELOCITY, ACCELERATION))
        self.commanded = Commanded(client.joint_names, np.zeros(3), *limits, time.time_ns())
        self._origin, self._begin_ns = np.zeros(3), 0
        client.subscribe(JointTrajectory, "~/joint_trajectory", self._execute)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Stream at 10 Hz while messages are handled; a robot that its brake has stopped is set off anew."""
        with self.client.periodically(0.1, self._send):
            self.wait_until_moving()
            yield

    def wait_until_moving(self) -> None:
        """Wait until the robot is in full swing."""
        self.client.wait_for(lambda: self._speed() > 0.1, "the robot in motion", 20.0)

    def wait_until_at_rest(self) -> None:
        """Wait until the robot rests, which it does as soon as the last motion is over."""
        self.client.spin(HORIZON * DT_S + 0.5)
        self.client.wait_for(lambda: self._speed() == 0.0, "the robot at rest, rather than left in motion")

    def _plan(self, times_ns: object) -> np.ndarray:
        """Positions at times: swings of 0.2 rad in 4 s, each from rest; at most 0.31 rad/s and 0.5 rad/s^2."""
        swing = 0.2 * np.sin(np.pi / 4 * (np.asarray(times_ns) - self._begin_ns) / SECOND_NS) ** 2
        return self._origin + swing[..., None] * [1.0, -1.0, 0.5]

    def _speed(self) -> float:
        return float(np.abs(self.commanded.at(time.time_ns())[1]).max())

    def _send(self) -> None:
        now_ns = time.time_ns()
        position, velocity, _ = self.commanded.at(now_ns)
        is_lost = np.abs(self._plan(now_ns) - position).max() > LOST_RAD
        if not self._begin_ns or (is_lost and not velocity.any()):
            self._origin, self._begin_ns = position, now_ns
        times_ns = now_ns + np.rint(SECOND_NS * DT_S * np.arange(1, HORIZON + 1)).astype(np.int64)
        self.client.publish_sequence(sequence(self._plan(times_ns)[None], dt=[DT_S]))

    def publish_state(self) -> None:
        """Publish what is measured now."""
        now_ns = time.time_ns()
        position, velocity, _ = self.commanded.at(now_ns)
        self.client.publish_state(position.tolist(), velocity.tolist(), stamp_ns=now_ns)

    def _execute(self, message: JointTrajectory, info: Mapping[str, object]) -> None:
        self.commanded.receive(**fields_of(message), now_ns=received_ns(info))


def test_the_robot_rests_whatever_ends_stream_or_node(serve: NodeServer) -> None:
    process, client = serve(PARAMETERS)
    robot = StreamedRobot(client)
    with client.periodically(0.02, robot.publish_state):
        client.spin(0.3)
        with robot.streaming():
            pass
        robot.wait_until_at_rest()
        counts = client.counts()
        assert int(counts["brakes"]) > 0 and counts["rejected"] == "0"
        with robot.streaming():
            assert client.change_state("deactivate")
            robot.wait_until_at_rest()
            assert int(client.counts()["rejected.not_active"]) > 0
            assert client.change_state("activate")
            robot.wait_until_moving()
            process.kill()
            robot.wait_until_at_rest()
            process.start()
            client.wait_until_active()
            robot.wait_until_moving()
        robot.wait_until_at_rest()
    robot.commanded.judge(time.time_ns())
    assert not robot.commanded.faults, "whatever was commanded kept the limits"
