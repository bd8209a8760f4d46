"""A robot with a controller behind the topics of a node: the commands to its joints, cycle by cycle.

It is a player of `rig`. Its time, and that of the node (use_sim_time), passes on /clock, and stands still while this
process waits for something: again and again until the node answers a call, so that it is never far behind, however busy
the machine. The node supervises by real time, of which a part passes as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from ros_client import RosClient
from rosgraph_msgs.msg import Clock

from kit.arm import Robot
from rig.loop import Wired
from traj_integrator_ros.client import SECOND_NS
from traj_integrator_ros.node.entities import SUPERVISION_PERIOD_S

RATE = 500
_STATES_HZ, _REPORTS_HZ = 100, 50
"""Rates of joint states and the clock, and of reports, joint_trajectory_controller's default, Hz.

After as many cycles as between two reports, the time stands still until the node has answered. A message may therefore
arrive 30 ms after it was made, and a shorter `publish.lead_time` makes it step into its own blend.
"""
_REAL_S = 1.1 * SUPERVISION_PERIOD_S
"""Real time between questions to the node, s: it supervises before it answers."""


class SimulatedArm(Wired):
    """A controller that replaces trajectories at once and reports, and the arm that it moves.

    Args:
        client: of the node.
        report_type: control_msgs' JointTrajectoryControllerState.

    """

    def __init__(self, client: RosClient, report_type: type) -> None:
        self.client, self._asked = client, 0.0
        self._ns, self._ahead_ns, self._apart_ns = 1000 * SECOND_NS, 0, 0
        self._clock = client.publisher(Clock, "/clock")
        self._reporter = client.publisher(report_type, "controller_state")
        client.wait_for(self._reporter.get_subscription_count, "a subscription to the reports")

    def begin(self) -> None:
        """Become an arm at rest at 0, without a past, that the node knows."""
        robot = Robot(self.client.joint_names, rate=RATE, hard_replacement=True, interpolate_from_desired_state=True)
        robot.set_state(np.zeros(len(robot.joints)))
        super().__init__(robot, self.now_ns, self.client.states, self._reporter, _STATES_HZ, _REPORTS_HZ)
        self._received = 0
        self.client.trajectories.clear()
        self.go(0.4)

    def go(self, seconds: float, every: float = 0.0, send: Callable[[], object] | None = None) -> None:
        """Let time pass, and call `send` periodically; tell the state in which it ends."""
        super().go(seconds, every, send)
        self._do_due()

    def jump(self, seconds: float) -> None:
        """Let the clock jump for every node but the arm and its controller."""
        self._apart_ns += round(seconds * SECOND_NS)

    def tell_time(self) -> None:
        """Publish the present time, as `go` does at 100 Hz."""
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(self.now_ns, SECOND_NS)
        self._clock.publish(message)

    @property
    def now_ns(self) -> int:
        """The time on /clock, ns."""
        return self.clock()

    @property
    def begin_ns(self) -> int:
        """The time on /clock, ns, a cycle before the first one."""
        return self.clock(self._begin_ns) - self.robot.period

    @property
    def commands(self) -> np.ndarray:
        """Position, velocity and acceleration in each cycle, `[cycles, 3, dof]`."""
        return np.array([row.command for row in self.rows])

    @property
    def cycles(self) -> int:
        """Number of cycles so far."""
        return len(self.rows)

    def assert_within(self, limits: Mapping[str, float], begin: int = 0) -> None:
        """Check that commands from a cycle on keep limits, by the rig's rules; a skipped cycle is a step, too."""
        self.within(self.played()[0][begin], limits=limits)
        assert not self.fails, self.fails

    def assert_at_rest(self) -> None:
        """Check that the command stands still."""
        velocity, acceleration = np.abs(self.rows[-1].command[1:]).max(axis=1)
        assert velocity < 1e-9 and acceleration < 1e-4, self.rows[-1]

    def _tell_state(self, at_ns: int) -> None:
        self.tell_time()
        super()._tell_state(at_ns)

    def _cycle(self) -> None:
        """Tell what is due, wait for the node where reports are due, and take what has come."""
        self._do_due()
        if self.cycles % (RATE // _REPORTS_HZ) == 0:
            while (left := self._asked + _REAL_S - time.monotonic()) > 0:
                self.client.spin_once(left)
            self.client.state()
            self.client.read_trajectories()  # those that the node published before it answered, in another thread
            self._asked = time.monotonic()
        for message in self.client.trajectories[self._received :]:
            self._received += 1
            self.receive(self._ns, message)
        super()._cycle()
