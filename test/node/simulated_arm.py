"""A robot with a controller behind the topics of a node: the commands to its joints, cycle by cycle.

The controller and the arm are the models of `rig`. Their time, and that of the node (use_sim_time), passes on
/clock, and stands still while this process waits for something: again and again until the node answers a call, so that
it is never far behind, however busy the machine. The node supervises by real time, of which a part passes as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from ros_client import RosClient
from rosgraph_msgs.msg import Clock
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from kit.arm import Robot
from kit.controller import fields_of
from rig.judge import differences, held_against
from traj_integrator_ros.client import SECOND_NS, set_stamp
from traj_integrator_ros.node.entities import SUPERVISION_PERIOD_S

RATE = 500
_CYCLE_NS = SECOND_NS // RATE
_STATES_EVERY, _REPORTS_EVERY = 5, 10
"""Cycles between joint states and the clock, 100 Hz, and between reports, 50 Hz, joint_trajectory_controller's default.

After as many as between two reports, the time stands still until the node has answered. A message may therefore
arrive 30 ms after it was made, and a shorter `publish.lead_time` makes it step into its own blend.
"""
_REAL_S = 1.1 * SUPERVISION_PERIOD_S
"""Real time between questions to the node, s: it supervises before it answers."""


class SimulatedArm:
    """A controller that replaces trajectories at once and reports, and the arm that it moves.

    Args:
        client: of the node.
        report_type: control_msgs' JointTrajectoryControllerState.

    """

    def __init__(self, client: RosClient, report_type: type) -> None:
        self.client, self._report_type = client, report_type
        self.now_ns = 1000 * SECOND_NS
        self._clock = client.publisher(Clock, "/clock")
        self._reports = client.publisher(report_type, "controller_state")
        self._asked = 0.0
        client.wait_for(self._reports.get_subscription_count, "a subscription to the reports")

    def begin(self, position: object = 0.0, *, reporting: bool = True, is_off: bool = False) -> None:
        """Become an arm at rest at a position, without a past, that the node knows."""
        self.robot = Robot(
            self.client.joint_names, rate=RATE, hard_replacement=True, interpolate_from_desired_state=True
        )
        self.robot.set_state(np.broadcast_to(np.asarray(position, float), len(self.client.joint_names)))
        self.refused: list[str] = []
        self.reporting = reporting
        """True if reports of the controller arrive."""
        self.is_off = is_off
        """True if the controller is off, as in an emergency stop: it takes, commands and reports nothing."""
        self.client.trajectories.clear()
        self._received, self._commands, self.begin_ns = 0, [], self.now_ns - _CYCLE_NS
        self.run(0.4)

    def run(self, duration_s: float, period_s: float = 0.0, send: Callable[[], None] | None = None) -> None:
        """Let the time pass; call `send` periodically."""
        begin_ns, due_ns = self.now_ns, self.now_ns
        while self.now_ns - begin_ns < round(duration_s * SECOND_NS):
            if send is not None and self.now_ns >= due_ns:
                send()
                due_ns += round(period_s * SECOND_NS)
            if self.cycles % _REPORTS_EVERY == 0:
                while (left := self._asked + _REAL_S - time.monotonic()) > 0:
                    self.client.spin_once(left)
                self.client.state()
                self.client.read_trajectories()  # those that the node published before it answered, in another thread
                self._asked = time.monotonic()
            self._pass_cycle()

    def tell_time(self) -> None:
        """Publish the present time, as `run` does at 100 Hz."""
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(self.now_ns, SECOND_NS)
        self._clock.publish(message)

    @property
    def position(self) -> np.ndarray:
        """The present command, rad."""
        return self._commands[-1][0]

    @property
    def commands(self) -> np.ndarray:
        """Position, velocity and acceleration in each cycle, `[cycles, 3, dof]`."""
        return np.array(self._commands)

    @property
    def cycles(self) -> int:
        """Number of cycles so far."""
        return len(self._commands)

    def assert_within(self, limits: Mapping[str, float], begin: int = 0) -> None:
        """Check that commands from a cycle on keep limits, by the rig's rules; a skipped cycle is a step, too."""
        parts = differences(self.commands[max(begin - 3, 0) :, 0], RATE)
        assert np.isfinite(parts[0]).all()
        for found in held_against(parts, limits):
            first = max(found.cycle - 6, 0)
            assert found.good, f"{found}, commands {self.commands[max(begin - 3, 0) + first :][:12, :, found.joint]}"

    def assert_at_rest(self) -> None:
        """Check that the command stands still."""
        velocity, acceleration = np.abs(self._commands[-1][1:]).max(axis=1)
        assert velocity < 1e-9 and acceleration < 1e-4, self._commands[-1]

    def _pass_cycle(self) -> None:
        """Command the joints, and publish at the begin of the next cycle: a report has the reference of its stamp."""
        for message in self.client.trajectories[self._received :]:
            self._receive(message)
        rests = np.stack([self.robot.measured()[0], *np.zeros((2, len(self.client.joint_names)))])
        self._commands.append(rests if self.is_off else self.robot.update(self.now_ns - self.begin_ns))
        self.now_ns += _CYCLE_NS
        if self.now_ns % (_STATES_EVERY * _CYCLE_NS) == 0:
            self.tell_time()
        if self.cycles % _STATES_EVERY == 0 and self.robot.reading:
            self.client.publish_state(*self.robot.measured(), stamp_ns=self.now_ns)
        if self.reporting and not self.is_off and self.cycles % _REPORTS_EVERY == 0:
            self._reports.publish(self._report())

    def _receive(self, message: JointTrajectory) -> None:
        self._received += 1
        if self.is_off:
            return
        fields = fields_of(message)
        fields["stamp_ns"] -= self.begin_ns
        if not self.robot.receive(**fields, now_ns=self.now_ns - self.begin_ns):
            self.refused.append(self.robot.refusal)

    def _report(self) -> object:
        reference, feedback = self.robot.controller_state()
        message = self._report_type(joint_names=self.client.joint_names, speed_scaling_factor=self.robot.scaling)
        message.reference = JointTrajectoryPoint(
            positions=reference[0].tolist(), velocities=reference[1].tolist(), accelerations=reference[2].tolist()
        )
        message.feedback = JointTrajectoryPoint(positions=feedback[0].tolist(), velocities=feedback[1].tolist())
        set_stamp(message, self.now_ns)
        return message
