"""A robot in real time: the arm and its controller, their topics, and all messages and events. Needs ROS."""

from __future__ import annotations

import array
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from kit.arm import Robot
from kit.controller import fields_of
from traj_integrator_interfaces.msg import ActionSequence, Rejection
from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.client import set_stamp

try:
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

NS = 10**9


def doubles(values: np.ndarray) -> array.array:
    """Return values in the form that a message takes without copying each."""
    return array.array("d", np.ascontiguousarray(values, np.float64).tobytes())


class SwitchedArm(Robot):
    """An arm whose controller can also be off."""

    off = False

    def update(self, now_ns: int) -> np.ndarray:
        """Run one cycle; a controller that is off commands nothing."""
        if self.off:
            self._plan = self._waiting = None
            return np.stack([self.measured()[0], *np.zeros((2, len(self.joints)))])
        return super().update(now_ns)


@dataclass(frozen=True)
class Arrival:
    """A trajectory that the controller received."""

    at: int
    """Time of arrival, ns of the rig."""
    fields: dict[str, object]
    """Fields of the message in the form of the controller's model."""
    age: float
    """Age, s, by its stamp."""


class Loop:
    """An arm in real time, at the controller's own rate, and a planner's entities; times are ns since it began.

    The arguments are those of a rig; `arm` are all options of the model.
    """

    def __init__(
        self, names: list[str], start: np.ndarray, arm: dict[str, object], *, rate: int, states_hz: int,
        reports_hz: int, judge_rate: int, listen_states: bool,
    ) -> None:  # fmt: skip
        self.names, self.start, self.arm, self.judge_rate = names, start, arm, judge_rate
        self.dof, self.reports = len(names), bool(reports_hz) and JointTrajectoryControllerState is not None
        self.robot = self._robot(rate)
        self.period = NS // rate
        self.states_every, self.reports_every = max(1, rate // states_hz), max(1, rate // max(reports_hz, 1))
        self.speak = listen_states
        """True if joint states are published."""
        self.filter: Callable[[JointState], JointState | list[JointState]] | None = None
        """Changes a joint state before it is published."""
        self.arrivals: list[Arrival] = []
        self.events: list[tuple[int, object]] = []
        self.diagnostics: list[dict] = []
        self.rejections: list[str] = []
        """Reasons of rejections."""
        self.refused: list[tuple[float, str]] = []
        """Refusals by the controller, in the replay."""
        self.warmed, self.judged_from = 0, None
        """Number of arrivals, and time, at the end of the warm-up."""
        self._given = 0
        self._cut_until, self._kept = 0, []
        """When the network goes on, ns, and what it has kept until then: publishers and messages."""
        self.stall = 0.0
        """Longest time that the robot stood still because this process was not scheduled, s."""
        self.step = 0
        """Steps of the machine's clock so far, ns."""
        self.mono0 = time.monotonic_ns()
        self.K = time.time_ns() - self.mono0
        self.next = self.cycle = 0  # time of the next cycle, ns since mono0, and its number
        self._played = None
        self._make_entities()

    def _robot(self, rate: int) -> SwitchedArm:
        robot = SwitchedArm(self.names, rate=rate, **self.arm)
        robot.set_state(self.start)
        return robot

    # Topics

    def _make_entities(self) -> None:
        tag = f"{os.getpid()}_{time.monotonic_ns() % 10**6}"
        self.arm_node, self.planner = Node(f"arm_{tag}"), Node(f"planner_{tag}")
        self.states = self.arm_node.create_publisher(JointState, "joint_states", 10)
        self.reporter = None
        if self.reports:
            self.reporter = self.arm_node.create_publisher(JointTrajectoryControllerState, "controller_state", 10)
        self.trajectories = self.arm_node.create_subscription(
            JointTrajectory, "traj_integrator/joint_trajectory", lambda m: None, 10
        )
        p = self.planner
        self.actions = p.create_publisher(ActionSequence, "traj_integrator/action_sequence", 10)
        self.positions = p.create_publisher(JointTrajectory, "traj_integrator/position_trajectory", 10)
        self.description = p.create_publisher(
            String, "robot_description", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        )
        p.create_subscription(DiagnosticArray, "/diagnostics", self._take_diagnostics, 50)
        p.create_subscription(Rejection, "traj_integrator/rejections", lambda m: self.rejections.append(m.reason), 100)
        self.stopper = p.create_client(Stop, "traj_integrator/stop")
        self.setter = p.create_client(SetParameters, "traj_integrator/set_parameters")
        self.changer = p.create_client(ChangeState, "traj_integrator/change_state")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(p)

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            own = {"level": int.from_bytes(status.level, "little"), "message": status.message, "t": self.t}
            self.diagnostics.append({entry.key: entry.value for entry in status.values} | own)

    # Time

    def now(self) -> int:
        """Time since the rig began, ns."""
        return time.monotonic_ns() - self.mono0

    @property
    def t(self) -> float:
        """Time since the rig began, s."""
        return self.now() / NS

    def clock(self, at: int | None = None) -> int:
        """The machine's clock, ns, at a time of the rig, ns."""
        return self.mono0 + self.K + self.step + (self.now() if at is None else at)

    def event(self, what: Callable[[SwitchedArm], object] | int) -> None:
        """Call a function with the robot in the next cycle, or step its clock by so many ns."""
        self.events.append((self.next, what))
        if callable(what):
            what(self.robot)

    # The loop

    def go(self, seconds: float, every: float = 0.0, send: Callable[[], object] | None = None) -> None:
        """Let the time pass, and call `send` periodically, s."""
        begin = self.now()
        end, k, due, spin = begin + round(seconds * NS), 0, begin, 0
        while (now := self.now()) < end:
            self._take()
            self.stall = max(self.stall, (now - self.next) / NS)
            self._advance(now)
            if send is not None and now >= due:
                send()
                k += 1
                due = begin + round((k * every) * NS)
            if now >= spin:
                for _ in range(20):
                    self.executor.spin_once(timeout_sec=0)
                    if self.now() - now > 2_000_000:
                        break
                spin = self.now() + 10_000_000
            left = min(self.next, end) - self.now()
            if left > 0:
                time.sleep(min(left / NS, 0.002))
        self._advance(min(self.now(), end))

    def cut_off(self, seconds: float) -> None:
        """Let the network between node and robot stand still in both directions: then it delivers all it has kept."""
        self._cut_until = self.next + round(seconds * NS)

    def _publish(self, publisher: Publisher, message: object) -> None:
        self._kept.append((publisher, message))
        if self.next >= self._cut_until:
            for one, kept in self._kept:
                one.publish(kept)
            self._kept.clear()

    def _take(self) -> None:
        while self.next >= self._cut_until:
            with self.trajectories.handle:
                got = self.trajectories.handle.take_message(JointTrajectory, False)
            if got is None:
                return
            message, info = got
            arrived = info["received_timestamp"] - self.K - self.mono0
            now = self.now()
            if not now - 5 * NS < arrived <= now:
                arrived = now
            before = self.arrivals[-1].at if self.arrivals else 0
            arrived = max(arrived, self._cut_until, self.next - self.period + 1, before)
            fields = fields_of(message)
            self.arrivals.append(Arrival(arrived, fields, (self.clock(arrived) - fields["stamp_ns"]) / NS))

    def _receive(self, robot: SwitchedArm, message: Arrival, at: int, step: int) -> str:
        if robot.off:
            return "off"
        robot.receive(**message.fields, now_ns=at + self.mono0 + self.K + step)
        return robot.refusal

    def _advance(self, upto: int) -> None:
        while self.next <= upto:
            at = self.next
            while self._given < len(self.arrivals) and self.arrivals[self._given].at <= at:
                self._receive(self.robot, self.arrivals[self._given], at, self.step)
                self._given += 1
            if self.speak and self.cycle % self.states_every == 0:
                self._publish_state(*self.robot.measured(), at)
            if self.reporter and self.cycle % self.reports_every == 0 and not self.robot.off:
                self._publish_report(at)
            self.robot.update(self.clock(at))
            self.next += self.period
            self.cycle += 1

    def _publish_state(self, position: np.ndarray, velocity: np.ndarray, at: int) -> None:
        m = JointState(name=self.names, position=doubles(position), velocity=doubles(velocity))
        set_stamp(m, self.clock(at))
        changed = self.filter(m) if self.filter else m
        for one in changed if isinstance(changed, list) else [changed]:
            self._publish(self.states, one)

    def _publish_report(self, at: int) -> None:
        (p, v, a), (fp, fv) = self.robot.controller_state()
        m = JointTrajectoryControllerState(joint_names=self.names, speed_scaling_factor=self.robot.scaling)
        m.reference = JointTrajectoryPoint(positions=doubles(p), velocities=doubles(v), accelerations=doubles(a))
        m.feedback = JointTrajectoryPoint(positions=doubles(fp), velocities=doubles(fv))
        set_stamp(m, self.clock(at))
        self._publish(self.reporter, m)

    def replayed(self) -> tuple[np.ndarray, np.ndarray]:
        """Replay what arrived at the judge's rate; return times of the rig, s, and positions `[N + 1, dof]`."""
        robot, period = self._robot(self.judge_rate), NS // self.judge_rate
        first = (self.arrivals[0].at if self.arrivals else 0) - 200_000_000
        first = max(first // period * period, 0)
        events, messages, step = list(self.events), list(self.arrivals), 0
        rows, self.refused = [self.start.copy()], []
        for at in range(first, self.next, period):
            while events and events[0][0] <= at:
                what = events.pop(0)[1]
                if callable(what):
                    what(robot)
                else:
                    step += what
            while messages and messages[0].at <= at:
                refusal = self._receive(robot, messages.pop(0), at, step)
                if refusal and refusal != "off":
                    self.refused.append((at / NS, refusal))
            rows.append(robot.update(at + self.mono0 + self.K + step)[0])
        return (first + period * np.arange(len(rows))) / NS, np.array(rows)
