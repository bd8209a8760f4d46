"""A robot with a controller behind the topics of a node: what is commanded to its joints, cycle by cycle.

The controller and the arm are the models of ../shared/jtc. Their time, and that of the node (use_sim_time), passes on
/clock, and stands still while this process waits for something: again and again until the node answers a call, so that
it is never far behind, however busy the machine. The node supervises by real time, of which a part passes as well.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import numpy as np
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.node.entities import SUPERVISION_PERIOD_S
from traj_integrator_ros.traffic.messages import set_stamp, stamp_of
from traj_integrator_ros.traffic.ros_client import RosClient

RATE = 500
_CYCLE_NS = 1_000_000_000 // RATE
_STATES_EVERY, _REPORTS_EVERY = 5, 10
"""Cycles: joint states and the clock at 100 Hz, reports at 50 Hz, which joint_trajectory_controller does by default.

After as many as between two reports, the time stands still until the node has answered.
"""
_REAL_S = 1.1 * SUPERVISION_PERIOD_S
"""Real time until it is asked again: it supervises before it answers."""


class Limits(NamedTuple):
    """What may be commanded, for each joint."""

    velocity: float
    acceleration: float
    jerk: float


class SimulatedClock:
    """The time of the arm and of the node."""

    def __init__(self, client: RosClient) -> None:
        self.now_ns = 1_000_000_000_000
        self._clock = client.publisher(Clock, "/clock")

    def tick(self) -> None:
        """Pass one cycle."""
        self.now_ns += _CYCLE_NS
        if self.now_ns % (_STATES_EVERY * _CYCLE_NS):
            return
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(self.now_ns, 1_000_000_000)
        self._clock.publish(message)


class SimulatedArm:
    """A controller that replaces trajectories at once, and the arm that it moves.

    Args:
        client: of the node.
        clock: of both.
        plant: the module `plant` of ../shared/jtc.
        report_type: control_msgs' JointTrajectoryControllerState; None: the controller does not report.
        options: of `plant.Robot`.

    """

    def __init__(
        self,
        client: RosClient,
        clock: SimulatedClock,
        plant: ModuleType,
        report_type: type | None = None,
        **options: object,
    ) -> None:
        self.client, self.clock = client, clock
        self.robot = plant.Robot(
            client.joint_names, rate=RATE, hard_replacement=True, interpolate_from_desired_state=True, **options
        )
        self.robot.set_state(np.zeros(len(client.joint_names)))
        self.refused: list[str] = []
        self.latest_s = 0.0
        """Longest time from a trajectory's stamp to its arrival, s."""
        self.trajectories = client.trajectories
        """All that have come since it exists."""
        self.trajectories.clear()
        self._received, self._asked = 0, 0.0
        self._report_type = report_type
        self._reports = None if report_type is None else client.publisher(report_type, "controller_state")
        self.begin_ns = clock.now_ns
        """Time of the first cycle."""
        self._off_until_ns = 0
        self._commands: list[np.ndarray] = []

    def close(self) -> None:
        """Report no more, and let the node read the reports that wait, or they would seem to come from the next arm."""
        if self._reports is not None:
            self.client.node.destroy_publisher(self._reports)
            self._reports = None
            self.run(0.1)

    def wait_until_known(self) -> None:
        """Let the node find the arm, and receive its states."""
        self.client.wait_until_connected()
        if self._reports is not None:
            self.client.wait_for(self._reports.get_subscription_count, "a subscription to the reports")
        self.run(0.4)

    def run(self, duration_s: float, period_s: float = 0.0, send: Callable[[float], None] | None = None) -> None:
        """Let the time pass; call `send` with the time since the beginning of this, s, once, or at a period."""
        begin_ns, due = self.clock.now_ns, 0.0
        while (into := (self.clock.now_ns - begin_ns) * 1e-9) < duration_s:
            if send is not None and into >= due:
                send(into)
                due = due + period_s if period_s else np.inf
            if self.cycles % _REPORTS_EVERY == 0:
                while (left := self._asked + _REAL_S - time.monotonic()) > 0:
                    self.client.spin_once(left)
                self.client.state()
                self._asked = time.monotonic()
            self._pass_cycle()

    def switch_off(self, duration_s: float) -> None:
        """Stop the controller; when it starts again, it holds what is measured."""
        self._off_until_ns = self.clock.now_ns + round(duration_s * 1e9)

    @property
    def position(self) -> np.ndarray:
        """What is commanded now, rad."""
        return self._commands[-1][0]

    @property
    def commands(self) -> np.ndarray:
        """Position, velocity and acceleration in each cycle, `[cycles, 3, dof]`."""
        return np.array(self._commands)

    @property
    def cycles(self) -> int:
        """Number of cycles so far."""
        return len(self._commands)

    def assert_within(self, limits: Limits, begin: int = 0) -> None:
        """What was commanded from a cycle on has no steps, and keeps the limits.

        Args:
            limits: for each joint.
            begin: cycle.

        """
        commands = self.commands[max(begin - 1, 0) :]
        assert np.isfinite(commands).all()
        for order, (limit, slack) in enumerate(zip(limits, (1.002, 1.01, 1.05), strict=True)):
            # Of the commanded positions, velocities and accelerations, over a cycle.
            change = np.abs(np.diff(commands[:, order], axis=0)) * RATE
            cycle = int(change.max(axis=1).argmax())
            largest = change.max()
            assert largest <= slack * limit + 1e-6, (
                f"{('velocity', 'acceleration', 'jerk')[order]} {largest:.4g}, expected at most {limit:g}, in cycle "
                f"{cycle} of {len(change)}: {commands[max(cycle - 2, 0) : cycle + 4, order]}; trajectories came up to "
                f"{1e3 * self.latest_s:.0f} ms after they began"
            )
        assert np.abs(commands[:, 1]).max() <= limits.velocity * 1.002
        assert np.abs(commands[:, 2]).max() <= limits.acceleration * 1.01

    def assert_at_rest(self) -> None:
        """It is commanded to stand still."""
        velocity, acceleration = np.abs(self._commands[-1][1:]).max(axis=1)
        assert velocity < 1e-9 and acceleration < 1e-4, self._commands[-1]

    def _pass_cycle(self) -> None:
        self.clock.tick()
        now_ns = self.clock.now_ns
        now = (now_ns - self.begin_ns) * 1e-9
        if now_ns < self._off_until_ns:
            self._received = len(self.trajectories)
            self._commands.append(np.array([self.robot.measured()[0], *np.zeros((2, len(self.robot.joints)))]))
            self._publish_state(now_ns)
            return
        if self._off_until_ns:
            self._off_until_ns = 0
            self.robot.restart()
        for message in self.trajectories[self._received :]:
            self._receive(message, now)
        self._commands.append(np.array(self.robot.update(now)))
        self._publish_state(now_ns)
        if self._reports is not None and self.cycles % _REPORTS_EVERY == 0:
            self._reports.publish(self._report(now_ns))

    def _receive(self, message: JointTrajectory, now: float) -> None:
        self._received += 1
        points = message.points
        time_ns = np.array([point.time_ns for point in planned_trajectory(message).points])
        fields = [np.array([getattr(one, name) for one in points]) for name in ("positions", "velocities")]
        accelerations = np.array([one.accelerations for one in points])
        fields.append(accelerations if accelerations.size else None)
        stamp = (stamp_of(message) - self.begin_ns) * 1e-9
        self.latest_s = max(self.latest_s, now - stamp)
        if not self.robot.receive(message.joint_names, time_ns, *fields, now=now, stamp=stamp):
            self.refused.append(self.robot.refusal)

    def _publish_state(self, now_ns: int) -> None:
        if not self.robot.reading or self.cycles % _STATES_EVERY:
            return
        position, velocity = self.robot.measured()
        message = JointState(name=self.client.joint_names)
        message.position, message.velocity = array("d", position), array("d", velocity)
        set_stamp(message, now_ns)
        self.client.states.publish(message)

    def _report(self, now_ns: int) -> object:
        reference, feedback = self.robot.controller_state()
        message = self._report_type(joint_names=self.client.joint_names, speed_scaling_factor=1.0)
        message.reference = JointTrajectoryPoint(
            positions=reference[0].tolist(), velocities=reference[1].tolist(), accelerations=reference[2].tolist()
        )
        message.feedback = JointTrajectoryPoint(positions=feedback[0].tolist(), velocities=feedback[1].tolist())
        set_stamp(message, now_ns)
        return message
