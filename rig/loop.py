"""A robot in real time: the arm and its controller, their topics, and all messages and events. Needs ROS."""

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
from traj_integrator_ros.client import set_stamp

try:
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None


def doubles(values: object) -> array.array:
    """Return values in the form that a message takes without copying each."""
    return array.array("d", np.ascontiguousarray(values, np.float64).tobytes())


class Arrival(NamedTuple):
    """A trajectory that the controller received."""

    at: int
    """Time of arrival, ns of the rig."""
    fields: dict[str, object]
    """Fields of the message in the form of the controller's model."""
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


class RealTime:
    """An arm in real time, at the controller's own rate; times are of the rig, ns, unless they are s.

    Args:
        start: positions of the joints, rad.
        arm: all options of the model.
        rate, states_hz, reports_hz: rates of the controller, of joint states and of reports, Hz.

    """

    def __init__(self, start: np.ndarray, arm: dict[str, object], rate: int, states_hz: int, reports_hz: int) -> None:
        self.start, self._arm, self.dof = start, arm, len(start)
        self.names = [f"joint{i}" for i in range(self.dof)]
        self.robot, self.period = self._robot(rate), SECOND // rate
        self._every = max(1, rate // states_hz), max(1, rate // max(reports_hz, 1))
        self.speak = True
        """True if joint states are published."""
        self.filter: Callable[[JointState], JointState | list[JointState]] | None = None
        """Changes a joint state before it is published."""
        self.arrivals: list[Arrival] = []
        self._events: list[tuple[int, Callable[[Robot], object] | int]] = []
        self.refused: list[tuple[float, str]] = []
        """Refusals by the controller, in the replay."""
        self.stall = 0.0
        """Longest time that the robot stood still because this process was not scheduled, s."""
        self._given, self._step = 0, 0
        """Number of arrivals that the robot has, and steps of the machine's clock so far, ns."""
        self._cut_until, self._kept = 0, []
        """When the network goes on, and what it has kept until then: publishers and messages."""
        self._mono0 = time.monotonic_ns()
        self._apart = time.time_ns() - self._mono0
        self.next = self._cycle = 0  # time of the next cycle, and its number
        self.planner = Planner(self.go)
        self._arm_node = rclpy.create_node(f"arm_{self.planner.node.get_name()}", context=self.planner.context)
        publisher = self._arm_node.create_publisher
        self._states, self.reporter = publisher(JointState, "joint_states", 10), None
        if reports_hz and JointTrajectoryControllerState is not None:
            self.reporter = publisher(JointTrajectoryControllerState, "controller_state", 10)
        self._trajectories = self._arm_node.create_subscription(
            JointTrajectory, "traj_integrator/joint_trajectory", lambda m: None, 10
        )

    def _robot(self, rate: int) -> Robot:
        robot = Robot(self.names, rate=rate, **self._arm)
        robot.set_state(self.start)
        return robot

    def close(self) -> None:
        """Leave the domain."""
        self._arm_node.destroy_node()
        self.planner.close()

    @property
    def now(self) -> float:
        """Time since the rig began, s."""
        return self._now_ns() / SECOND

    @property
    def place(self) -> np.ndarray:
        """Commanded positions of the joints now `[dof]`."""
        return self.robot._state.position.copy()

    def clock(self, at: int | None = None) -> int:
        """The machine's clock, ns, at a time of the rig."""
        return self._mono0 + self._apart + self._step + (self._now_ns() if at is None else at)

    def event(self, what: Callable[[Robot], object] | int) -> None:
        """Call a function with the robot in the next cycle, or step its clock by so many ns."""
        self._events.append((self.next, what))
        if callable(what):
            what(self.robot)
        else:
            self._step += what

    def go(self, seconds: float, every: float = 0.0, send: Callable[[], object] | None = None) -> None:
        """Let the time pass, and call `send` periodically, s."""
        begin = due = self._now_ns()
        end, k, spin = begin + round(seconds * SECOND), 0, 0
        while (now := self._now_ns()) < end:
            self._take()
            self.stall = max(self.stall, (now - self.next) / SECOND)
            self._advance(now)
            if send is not None and now >= due:
                send()
                k += 1
                due = begin + round((k * every) * SECOND)
            if now >= spin:
                self.planner.take()
                spin = self._now_ns() + 10_000_000
            left = min(self.next, end) - self._now_ns()
            if left > 0:
                time.sleep(min(left / SECOND, 0.002))
        self._advance(min(self._now_ns(), end))

    def cut_off(self, seconds: float) -> None:
        """Let the network between node and robot stand still in both directions: then it delivers all it has kept."""
        self._cut_until = self.next + round(seconds * SECOND)

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._mono0

    def _publish(self, publisher: Publisher, message: object) -> None:
        self._kept.append((publisher, message))
        if self.next >= self._cut_until:
            for one, kept in self._kept:
                one.publish(kept)
            self._kept.clear()

    def _take(self) -> None:
        while self.next >= self._cut_until:
            with self._trajectories.handle:
                got = self._trajectories.handle.take_message(JointTrajectory, False)
            if got is None:
                return
            message, info = got
            arrived, now = info["received_timestamp"] - self._apart - self._mono0, self._now_ns()
            if not now - 5 * SECOND < arrived <= now:
                arrived = now
            before = self.arrivals[-1].at if self.arrivals else 0
            arrived = max(arrived, self._cut_until, self.next - self.period + 1, before)
            fields = fields_of(message)
            self.arrivals.append(Arrival(arrived, fields, (self.clock(arrived) - fields["stamp_ns"]) / SECOND))

    def _receive(self, robot: Robot, message: Arrival, at: int, step: int) -> str:
        if robot.off:
            return ""
        robot.receive(**message.fields, now_ns=at + self._mono0 + self._apart + step)
        return robot.refusal

    def _advance(self, upto: int) -> None:
        while self.next <= upto:
            at = self.next
            while self._given < len(self.arrivals) and self.arrivals[self._given].at <= at:
                self._receive(self.robot, self.arrivals[self._given], at, self._step)
                self._given += 1
            if self.speak and self._cycle % self._every[0] == 0:
                self._publish_state(at)
            if self.reporter and self._cycle % self._every[1] == 0 and not self.robot.off:
                self._publish_report(at)
            self.robot.update(self.clock(at))
            self.next += self.period
            self._cycle += 1

    def _publish_state(self, at: int) -> None:
        position, velocity = self.robot.measured()
        m = JointState(name=self.names, position=doubles(position), velocity=doubles(velocity))
        set_stamp(m, self.clock(at))
        changed = self.filter(m) if self.filter else m
        for one in changed if isinstance(changed, list) else [changed]:
            self._publish(self._states, one)

    def _publish_report(self, at: int) -> None:
        reference, feedback = self.robot.controller_state()
        m = JointTrajectoryControllerState(joint_names=self.names, speed_scaling_factor=self.robot.scaling)
        for point, parts in ((m.reference, reference), (m.feedback, feedback)):
            for name, part in zip(("positions", "velocities", "accelerations"), parts, strict=False):
                setattr(point, name, doubles(part))
        set_stamp(m, self.clock(at))
        self._publish(self.reporter, m)

    def replayed(self, rate: int) -> tuple[np.ndarray, np.ndarray]:
        """Replay what arrived at a rate, Hz; return times of the rig, s, and positions `[N + 1, dof]`."""
        robot, period = self._robot(rate), SECOND // rate
        first = (self.arrivals[0].at if self.arrivals else 0) - 200_000_000
        first = max(first // period * period, 0)
        events, messages, step = list(self._events), list(self.arrivals), 0
        rows, self.refused = [self.start.copy()], []
        for at in range(first, self.next, period):
            while events and events[0][0] <= at:
                what = events.pop(0)[1]
                if callable(what):
                    what(robot)
                else:
                    step += what
            while messages and messages[0].at <= at:
                if refusal := self._receive(robot, messages.pop(0), at, step):
                    self.refused.append((at / SECOND, refusal))
            rows.append(robot.update(at + self._mono0 + self._apart + step)[0])
        return (first + period * np.arange(len(rows))) / SECOND, np.array(rows)
