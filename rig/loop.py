"""Players whose node is a process: an arm and its controller behind topics, and the same in real time. Needs ROS."""

from __future__ import annotations

import array
import os
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import rclpy
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.arm import Robot
from kit.controller import SECOND, fields_of
from kit.participant import Participant
from traj_integrator_ros.client import set_stamp, stamp_of

from .player import Player

_SPIN_NS = 10_000_000
"""Time between two looks at what has come for the planner, ns."""


def doubles(values: object) -> array.array:
    """Return values in the form that a message takes without copying each."""
    return array.array("d", np.ascontiguousarray(values, np.float64).tobytes())


class Wired(Player):
    """An arm whose joint states and reports (None: it does not report) go to publishers at rates, Hz; 0: none."""

    def __init__(
        self, robot: Robot, begin_ns: int, states: Publisher, reports: Publisher | None, states_hz: int, reports_hz: int
    ) -> None:
        super().__init__(robot, begin_ns)
        self.states, self._reports = states, reports
        self.speaking, self.reporting = states_hz > 0, reports is not None and reports_hz > 0
        """Whether joint states, and reports of the controller, are published."""
        self.filter: Callable[[JointState], JointState | list[JointState]] | None = None
        """Changes a joint state before it is published."""
        self._apart_ns = 0
        """Time by which stamps are ahead of the controller's clock, ns."""
        if self.speaking:
            self._repeat(self._tell_state, SECOND // states_hz)
        if self.reporting:
            self._repeat(self._tell_report, SECOND // reports_hz)

    def clock(self, at_ns: int | None = None) -> int:
        """The clock of stamps, ns, at a time."""
        return (self._ns if at_ns is None else at_ns) + self._ahead_ns + self._apart_ns

    def receive(self, at_ns: int, message: JointTrajectory) -> None:
        """Hand a trajectory to the controller."""
        fields = fields_of(message)
        fields["stamp_ns"] -= self._apart_ns * bool(fields["stamp_ns"])
        if not self.robot.off and not self.robot.receive(**fields, now_ns=at_ns + self._ahead_ns):
            self.unfit.append((self.now, self.robot.refusal))

    def _tell_state(self, _: int) -> None:
        position, velocity = self.robot.measured()
        m = JointState(name=self.robot.joints, position=doubles(position), velocity=doubles(velocity))
        set_stamp(m, self.clock(self._ns))
        changed = self.filter(m) if self.filter else m
        for one in (changed if isinstance(changed, list) else [changed]) * self.speaking:
            self._publish(self.states, one)

    def _tell_report(self, _: int) -> None:
        if not self.reporting or self.robot.off:
            return
        reference, feedback = self.robot.controller_state()
        m = self._reports.msg_type(joint_names=self.robot.joints, speed_scaling_factor=self.robot.scaling)
        for point, parts in ((m.reference, reference), (m.feedback, feedback)):
            for name, part in zip(("positions", "velocities", "accelerations"), parts, strict=False):
                setattr(point, name, doubles(part))
        set_stamp(m, self.clock(self._ns))
        self._publish(self._reports, m)

    def _publish(self, publisher: Publisher, message: object) -> None:
        publisher.publish(message)


class Arrival(NamedTuple):
    """A trajectory that the controller received."""

    at_ns: int
    """Time of arrival, ns."""
    stamp_ns: int
    """Stamp, ns; 0: it begins at once."""
    age: float
    """Age, s, by its stamp."""


class Planner(Participant):
    """The planner's side, which lets the robot go on while it waits."""

    def __init__(self, go: Callable[[float], None]) -> None:
        super().__init__(name=f"planner_{os.getpid()}_{time.monotonic_ns() % 10**6}")
        self._go = go

    def spin_once(self, timeout_s: float) -> None:
        """Let the robot go on, which also handles messages."""
        self._go(min(timeout_s, 0.004))

    def take(self) -> None:
        """Handle the messages that have come, for at most about 2 ms."""
        end = time.monotonic() + 0.002
        for _ in range(20):
            super().spin_once(0.0)
            if time.monotonic() > end:
                break


class RealTime(Wired):
    """An arm in real time, and a planner: each cycle waits for its time. Arguments are those of `Wired`."""

    def __init__(self, robot: Robot, report_type: type | None, states_hz: int, reports_hz: int) -> None:
        self.planner = Planner(self.go)
        self._arm_node = rclpy.create_node(f"arm_{self.planner.node.get_name()}", context=self.planner.context)
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        publisher = self._arm_node.create_publisher
        states, reports = publisher(JointState, "joint_states", 10), None
        if report_type is not None:
            reports = publisher(report_type, "controller_state", 10)
        super().__init__(robot, self._now_ns(), states, reports, states_hz, reports_hz)
        self.arrivals: list[Arrival] = []
        self.stall = 0.0
        """Longest time that the robot stood still because this process was not scheduled, s."""
        self._cut_until_ns, self._kept, self._spin_ns = 0, [], 0
        """When the network goes on, and what it has kept until then: publishers and messages."""
        self._trajectories = self._arm_node.create_subscription(
            JointTrajectory, "traj_integrator/joint_trajectory", lambda m: None, 10
        )

    def close(self) -> None:
        """Leave the domain."""
        self._arm_node.destroy_node()
        self.planner.close()

    @property
    def now(self) -> float:
        """Time since the rig began, s."""
        return (self._now_ns() - self._begin_ns) / SECOND

    def clock(self, at_ns: int | None = None) -> int:
        """The machine's clock, ns, now or at a time."""
        return super().clock(self._now_ns() if at_ns is None else at_ns)

    def cut_off(self, seconds: float) -> None:
        """Let the network between node and robot stand still in both directions: then it delivers all it has kept."""
        self._cut_until_ns = self._ns + round(seconds * SECOND)

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._epoch_ns

    def _cycle(self) -> None:
        """Wait until a cycle is due, and take what arrives until then."""
        self.stall = max(self.stall, (self._now_ns() - self._ns) / SECOND)
        while True:
            if self._now_ns() >= self._spin_ns:
                self._spin_ns = self._now_ns() + _SPIN_NS
                self.planner.take()
            left_ns = self._ns - self._now_ns()
            if left_ns <= 0:
                break
            time.sleep(min(left_ns / SECOND, 0.002))
        self._take()
        super()._cycle()

    def _publish(self, publisher: Publisher, message: object) -> None:
        self._kept.append((publisher, message))
        if self._ns >= self._cut_until_ns:
            for one, kept in self._kept:
                one.publish(kept)
            self._kept.clear()

    def _take(self) -> None:
        while self._ns >= self._cut_until_ns:
            with self._trajectories.handle:
                got = self._trajectories.handle.take_message(JointTrajectory, False)
            if got is None:
                return
            message, info = got
            arrived, now = info["received_timestamp"], self._now_ns()
            if not now - 5 * SECOND < arrived <= now:
                arrived = now
            before = self.arrivals[-1].at_ns if self.arrivals else 0
            arrived = max(arrived, self._cut_until_ns, self._ns - self.robot.period + 1, before)
            stamp_ns = stamp_of(message)
            self.arrivals.append(Arrival(arrived, stamp_ns, (self.clock(arrived) - stamp_ns) / SECOND))
            self._later(arrived, self.receive, message)
