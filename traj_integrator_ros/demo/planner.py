"""The demo's planner: sends windows of the motion's future and checks every trajectory that comes back."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch

from ..kernels.types import ControlSpace, FiniteDifference
from .ledger import Ledger, NodeCounts
from .metrics import Batch, Kept, Measured, start_row
from .player import JointStatePlayer
from .process import NODE_NAME
from .sequences import SECOND, batch_arrays, joint_trajectory_fault, stamp_of, window_message
from .windows import Paths, StartFrom, Window, WindowKind, cut_window, kinds_under

RATE = 20.0
"""Sequences per second."""
MOST_IN_FLIGHT = 6
"""Unanswered sequences at which the planner waits for the node: its queue holds 8, and drops what is too much."""
BLOCKS = 8
"""How often the node's scheme of finite differences is set anew while a motion plays, at most every second."""
JOINT_TRAJECTORY = "~/joint_trajectory"
"""Where start-up accelerations of joint trajectories are reported."""
DRAIN_WITHIN = 2.0
SET_WITHIN = 2.0
RESTART_POLL = 0.25


@dataclass
class NodeReport:
    """What the node last said about itself on /diagnostics."""

    values: dict[str, str] = field(default_factory=dict)
    message: str = ""
    messages: int = 0

    @property
    def is_active(self) -> bool:
        """Whether the node accepts input."""
        return self.values.get("lifecycle_state") == "active"

    @property
    def knows_robot(self) -> bool:
        """Whether a joint state has reached the node."""
        return self.values.get("state_age_s", "none") != "none"


class DemoPlanner(Node):
    """Sends ActionSequences, matches TrajectoryBatches to them by their stamps, and measures.

    Args:
        paths: the motion to plan on.
        batch: candidates of a sequence.

    """

    def __init__(self, paths: Paths, batch: int) -> None:
        super().__init__("demo_planner")
        self.ledger = Ledger()
        self.measured = Measured()
        self.counts = NodeCounts()
        self.node = NodeReport()
        self.faults: Counter[str] = Counter()
        self.joint_trajectories = 0
        self.restarts = 0
        self.refused_on_purpose = 0
        self.kept: list[Kept] = []
        self._paths, self._batch = paths, batch
        self._player: JointStatePlayer | None = None
        self._random = np.random.default_rng(1)
        self._last_stamp = 0
        self._starts: Counter[bytes] = Counter()
        self._publishers_seen: set[bytes] = set()
        queue = QoSProfile(depth=100)
        self._publisher = self.create_publisher(ActionSequence, f"{NODE_NAME}/action_sequence", queue)
        self.create_subscription(TrajectoryBatch, f"{NODE_NAME}/trajectory_batch", self._on_batch, queue)
        self.create_subscription(JointTrajectory, f"{NODE_NAME}/joint_trajectory", self._on_joint_trajectory, queue)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, queue)
        self._parameters = AsyncParameterClient(self, NODE_NAME)
        self.create_timer(RESTART_POLL, self._watch_for_restart)
        namespace = self.get_namespace().rstrip("/")
        self._status_name = f"{namespace}/{NODE_NAME}: integrator"

    @property
    def is_connected(self) -> bool:
        """Whether the node is active and hears us and we hear it."""
        return (
            self.node.is_active
            and self._publisher.get_subscription_count() > 0
            and self.count_publishers(f"{NODE_NAME}/trajectory_batch") > 0
            and self.count_publishers(f"{NODE_NAME}/joint_trajectory") > 0
            and self._parameters.services_are_ready()
        )

    @property
    def unmatched_starts(self) -> int:
        """Joint trajectories that start nowhere where a trajectory batch did."""
        return -sum(count for count in self._starts.values() if count < 0)

    def run(self, player: JointStatePlayer, tick: Callable[[], None]) -> None:
        """Send windows that start where the player is, for as long as it plays; `tick` is called between them and may
        raise to end it.
        """
        self._player = player
        schemes = itertools.cycle(FiniteDifference)
        block = max(1.0, player.duration / BLOCKS)
        until = 0.0
        kinds: itertools.cycle[WindowKind] = itertools.cycle([])
        due = time.monotonic()
        bad_sent = False
        while player.is_playing:
            if player.elapsed >= until:
                scheme = next(schemes)
                self._switch(scheme, tick)
                kinds = itertools.cycle(kinds_under(scheme))
                until = player.elapsed + block
            if self.ledger.in_flight(time.monotonic()) < MOST_IN_FLIGHT:
                self._send(next(kinds))
            if not bad_sent and player.elapsed > player.duration / 2:
                self._send_nonsense()
                bad_sent = True
            tick()
            due = max(due + 1 / RATE, time.monotonic() - 1 / RATE)
            time.sleep(max(0.0, due - time.monotonic()))

    def drain(self, within: float, tick: Callable[[], None]) -> bool:
        """Wait until every sequence is answered, at most `within` s; returns whether they are."""
        deadline = time.monotonic() + within
        while self.ledger.in_flight(time.monotonic(), within):
            if time.monotonic() > deadline:
                return False
            tick()
            time.sleep(0.005)
        return True

    def wait_for_diagnostics(self, messages: int, within: float, tick: Callable[[], None]) -> bool:
        """Wait for so many more diagnostics messages; returns whether they came."""
        wanted, deadline = self.node.messages + messages, time.monotonic() + within
        while self.node.messages < wanted and time.monotonic() < deadline:
            tick()
            time.sleep(0.02)
        return self.node.messages >= wanted

    def _switch(self, scheme: FiniteDifference, tick: Callable[[], None]) -> None:
        """Set the node's scheme of finite differences while nothing is in flight; a node that is away keeps its own."""
        self.drain(DRAIN_WITHIN, tick)
        if not self._parameters.services_are_ready():
            return
        future = self._parameters.set_parameters([Parameter("finite_difference", value=scheme.value)])
        deadline = time.monotonic() + SET_WITHIN
        while not future.done() and time.monotonic() < deadline:
            tick()
            time.sleep(0.002)
        if future.done() and not all(result.successful for result in future.result().results):
            self.faults["finite_difference not set"] += 1

    def _send(self, kind: WindowKind) -> None:
        first = self._paths.of(kind).sample_at(self._player.motion_time)
        if first is None:
            return  # not enough future left
        window = cut_window(kind, self._paths, first, self._batch, self._random)
        self._publish(window, window_message(window))

    def _send_nonsense(self) -> None:
        """One sequence with a NaN in it: the node has to reject it, and to say so."""
        kind = WindowKind(ControlSpace.POSITION)
        window = cut_window(kind, self._paths, 0, 1, self._random)
        message = window_message(window)
        message.data[0] = float("nan")
        self._publish(window, message, answer_expected=False)
        self.refused_on_purpose += 1

    def _publish(self, window: Window, message: ActionSequence, answer_expected: bool = True) -> None:
        stamp = max(self.get_clock().now().nanoseconds, self._last_stamp + 1)
        self._last_stamp = stamp
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, SECOND)
        self.ledger.send(stamp, window, time.monotonic(), answer_expected)
        self._publisher.publish(message)

    def _watch_for_restart(self) -> None:
        """Notice a new node behind the topics: what was sent while there was none is not lost by it."""
        infos = self.get_publishers_info_by_topic(f"{NODE_NAME}/trajectory_batch")
        new = {bytes(info.endpoint_gid) for info in infos} - self._publishers_seen
        if new and self._publishers_seen:
            self.restarts += 1
            self.ledger.restarted(time.monotonic())
        self._publishers_seen |= new

    def _on_batch(self, message: TrajectoryBatch) -> None:
        now = time.monotonic()
        window = self.ledger.answer(stamp_of(message), now)
        if window is None:
            return
        try:
            batch = batch_arrays(message)
        except ValueError:
            self.faults["trajectory batch of wrong length"] += 1
            return
        if batch.position.shape[0] != window.batch or list(message.joint_names) != list(window.path.motion.joint_names):
            self.faults["trajectory batch of other joints or size"] += 1
            return
        self.measured.add(window, batch)
        self._check_start(window, batch)
        row = start_row(window, batch.horizon)
        self._starts[batch.position[0, row].tobytes()] += 1
        self.kept.append(Kept(window, _first_rows(batch)))

    def _check_start(self, window: Window, batch: Batch) -> None:
        starts = batch.position[:, start_row(window, batch.horizon)]
        if window.kind.start_from is StartFrom.SEQUENCE:
            if np.any(starts != window.start[0]):
                self.faults["trajectory starts away from its sequence"] += 1
        elif not self._player.has_published(starts[0]) or np.any(starts != starts[0]):
            self.faults["trajectory starts from no joint state of ours"] += 1

    def _on_joint_trajectory(self, message: JointTrajectory) -> None:
        self.joint_trajectories += 1
        fault = joint_trajectory_fault(message)
        if fault is not None:
            self.faults[f"joint trajectory: {fault}"] += 1
            return
        self.measured.add_start_up(JOINT_TRAJECTORY, [point.accelerations for point in message.points[1:4]])
        start = np.asarray(message.points[0].positions).astype(np.float32)
        self._starts[start.tobytes()] -= 1

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name != self._status_name:
                continue
            values = {entry.key: entry.value for entry in status.values}
            prefix = "rejected."
            counts = {key[len(prefix) :]: int(value) for key, value in values.items() if key.startswith(prefix)}
            self.counts.update(int(values["sequences"]), int(values["published"]), counts)
            self.node = NodeReport(values, status.message, self.node.messages + 1)


def _first_rows(batch: Batch, rows: int = 8) -> Batch:
    """The first candidates, for the figures: the message itself can go."""
    return Batch(*[a[:rows].copy() for a in (batch.position, batch.velocity, batch.acceleration, batch.jerk)])
