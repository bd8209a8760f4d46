"""One run of the demo over DDS: robot, planner and optimizer in this process, the node in another."""

from __future__ import annotations

import itertools
import math
import textwrap
import time
from collections.abc import Sequence

import numpy as np
from rcl_interfaces.srv import SetParameters

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch

from ..client import NODE_NAME, ORDERS, Refused, sequence, trajectories_of
from ..kernels.types import FiniteDifference, Trajectory
from ..tools.checker import Expectation
from ..tools.command_line import ToolFailure
from ..tools.progress import Progress
from ..traffic.messages import Template
from ..traffic.node_process import NodeProcess
from ..traffic.participant import Participant
from ..traffic.player import MotionPlayer, StatePublisher
from ..traffic.roles import Controller, NodeStatus, Planner
from .goal_problem import Steering, problem_from
from .metrics import Kept, Measured, start_row
from .optimizer import OptimizerResult, minimize
from .report import Outcome
from .windows import KINDS, POSITION, Prepared, Window, WindowKind, cut_window

NODE_WITHIN_S = 30.0
STATE_WITHIN_S = 5.0
ANSWERS_WITHIN_S = 5.0
CONFIGURE_FAILED = "configure failed"
"""Beginning of the node's status on /diagnostics if its parameters or its device are unusable."""
BRIDGED_S = 0.5
"""From the first sequence on, while the node has the robot come to its first trajectory, and sends nothing else."""
RATE = 20.0
"""Sequences per second."""
MOST_IN_FLIGHT = 6
"""Number of unanswered sequences at which the planner waits for the node, whose queue would drop further ones."""
BLOCKS = 8
"""How often the node's scheme of finite differences is set anew while a motion plays, at most every second."""
SWITCH_WITHIN_S = 2.0
RESTART_POLL_S = 0.25
SHOWN_CANDIDATES = 8


def run_session(
    prepared: Prepared,
    batch: int,
    play_at_least: float,
    ros_arguments: Sequence[str],
    process: NodeProcess | None,
    progress: Progress,
) -> Outcome:
    """Play, plan and optimize against the node; returns everything measured.

    Motions shorter than `play_at_least` s are played several times.
    `process` is the node if the demo started it. Raises ToolFailure where the node does not come up or stops
    answering, ProcessEnded where `process` ends.
    """
    passes = max(1, math.ceil(play_at_least / prepared.recording.duration - 0.5))
    with _Session(prepared, batch, passes, ros_arguments, progress) as session, session.in_background():
        if process is not None:
            session.check = process.check
        try:
            session.wait_for_node(is_ours=process is not None)
            session.play_and_plan()
            optimized = session.optimize()
            session.take_last_answers()
        finally:
            session.player.stop()
    return session.outcome(optimized)


class _Session(Participant):
    """Plays the motion, sends windows of its future with `batch` candidates, and measures every trajectory that comes
    back, as planner and as controller.
    """

    def __init__(
        self, prepared: Prepared, batch: int, passes: int, ros_arguments: Sequence[str], progress: Progress
    ) -> None:
        super().__init__(NODE_NAME, name="demo", ros_arguments=ros_arguments)
        self._prepared, self._batch, self._progress = prepared, batch, progress
        self._measured = Measured()
        self._kept: list[Kept] = []
        self._status = NodeStatus(self)
        self._planner: Planner[Window] = Planner(self, self._measure)
        self._controller = Controller(
            self,
            lambda now_ns: Expectation(complete=True),
            accept=self._measured.commanded.add,
            describe=lambda finding: f"{finding.rule.value}: {finding.what}",
        )
        self._set_parameters = self.client(SetParameters, "set_parameters")
        self._refused_on_purpose = self._restarts = 0
        self._random = np.random.default_rng(1)
        self._publishers_seen: set[bytes] = set()
        self.node.create_timer(RESTART_POLL_S, self._watch_for_restart)
        # Last, so that a node that has received a joint state has discovered everything before it, too.
        self._states = StatePublisher(self, prepared.recording.joint_names)
        self.player = MotionPlayer(self._states, prepared.recording, passes)

    def wait_for_node(self, *, is_ours: bool) -> None:
        """Wait until the node is active, receives joint states, and we receive its messages. Raises ToolFailure."""
        begin, status = time.monotonic(), self._status
        if not is_ours:
            self._progress.stage("Waiting for the node")

        def connected() -> bool:
            self._progress.update(time.monotonic() - begin)
            if is_ours and CONFIGURE_FAILED in status.message:
                raise ToolFailure(f"the node could not configure itself: {textwrap.shorten(status.message, 300)}")
            heard = (self._planner.subscription, self._controller.subscription)
            return (
                status.values.get("lifecycle_state") == "active"
                and self._planner.publisher.get_subscription_count() > 0
                and all(self.node.count_publishers(one.topic_name) for one in heard)
                and self._set_parameters.service_is_ready()
            )

        def heard() -> bool:
            self.player.announce()
            return status.values.get("state_age_s", "none") != "none"

        within = f"within {NODE_WITHIN_S:.0f} s"
        if not self.spin_until(connected, NODE_WITHIN_S):
            if not status.messages:
                raise ToolFailure(f"no node {NODE_NAME} {within}: nothing on /diagnostics in this ROS domain")
            raise ToolFailure(f"the node {NODE_NAME} is not ready {within}; it says on /diagnostics: {status.message}")
        if not self.spin_until(heard, STATE_WITHIN_S):
            lost = f"no joint state reached the node within {STATE_WITHIN_S:.0f} s"
            joints = ", ".join(self._prepared.recording.joint_names)
            raise ToolFailure(f"{lost}; are its joints {joints}? It says: {status.message}")

    def play_and_plan(self) -> None:
        """Send windows that start where the player is, for as long as it plays."""
        player, ledger = self.player, self._planner.ledger
        self._progress.stage("Playing and planning", player.duration_s)
        schemes, block_s = itertools.cycle(FiniteDifference), max(1.0, player.duration_s / BLOCKS)
        kinds = itertools.cycle(KINDS)
        player.start()
        until_s, due = 0.0, time.monotonic()
        while player.is_playing:
            if player.elapsed_s >= until_s:
                self._switch(next(schemes))
                until_s = player.elapsed_s + block_s
            if self._planner.in_flight() < MOST_IN_FLIGHT:
                self._send(next(kinds))
            if not self._refused_on_purpose and player.elapsed_s > player.duration_s / 2:
                self._send_nonsense()
            self._progress.update(player.elapsed_s, f"{ledger.sent} sequences, {ledger.answered} answered")
            due = max(due + 1 / RATE, time.monotonic() - 1 / RATE)
            self.spin(max(0.0, due - time.monotonic()))

    def optimize(self) -> dict[Steering, OptimizerResult]:
        """Solve the goal problem in each way over the services. Raises ToolFailure."""
        self._progress.stage("Optimizing over the services")
        try:
            # The problem over positions counts the rows of backward differences, and guesses exceed limits.
            self.set_parameters(finite_difference=FiniteDifference.BACKWARD.value, limits__action="warn")
            planned = self._prepared.planned
            return {steering: minimize(problem_from(planned, steering), self.services) for steering in Steering}
        except (Refused, TimeoutError) as error:
            raise ToolFailure(f"optimizer: {error}") from None

    def take_last_answers(self) -> None:
        """Wait for the last answers, and for the node's counts of everything before."""
        self._drain(ANSWERS_WITHIN_S)
        wanted = self._status.messages + 2
        self.spin_until(lambda: self._status.messages >= wanted, ANSWERS_WITHIN_S)

    def outcome(self, optimized: dict[Steering, OptimizerResult]) -> Outcome:
        """Everything measured."""
        counts, ledger = self._status.total, self._planner.ledger
        return Outcome(
            prepared=self._prepared,
            balance=ledger.balance(counts.refused),
            by_reason=counts.by_reason,
            refused_on_purpose=self._refused_on_purpose,
            unknown_answers=ledger.unknown_answers,
            latencies=ledger.latencies_s(BRIDGED_S),
            measured=self._measured,
            faults=dict(self._planner.faults + self._controller.faults),
            joint_states=self._states.messages,
            joint_trajectories=self._controller.received,
            restarts=self._restarts,
            node=self._status.values,
            optimized=optimized,
            kept=self._kept,
        )

    def _drain(self, within_s: float) -> None:
        """Wait until every sequence is answered, or for this time."""
        self.spin_until(lambda: not self._planner.in_flight(within_s), within_s)

    def _switch(self, scheme: FiniteDifference) -> None:
        """Set the node's scheme of finite differences while nothing is in flight; a node that is away keeps its own."""
        self._drain(SWITCH_WITHIN_S)
        if not self._set_parameters.service_is_ready():
            return
        try:
            [(successful, _)] = self.set_parameters(SWITCH_WITHIN_S, finite_difference=scheme.value)
        except TimeoutError:
            return
        if not successful:
            self._planner.faults["finite_difference not set"] += 1

    def _send(self, kind: WindowKind) -> None:
        first = self._prepared.path_of(kind).sample_at(self.player.motion_time_s)
        if first is not None:  # else not enough future is left
            window = cut_window(kind, self._prepared, first, self._batch, self._random)
            self._planner.send(Template(_message(window)), window)

    def _send_nonsense(self) -> None:
        """One sequence with a NaN in it: the node has to reject it, and to say so."""
        window = cut_window(POSITION, self._prepared, 0, 1, self._random)
        message = _message(window)
        message.data[0] = float("nan")
        self._planner.send(Template(message), window, answer_expected=False)
        self._refused_on_purpose += 1

    def _watch_for_restart(self) -> None:
        """Detect a restarted node: messages sent while there was none do not count as lost."""
        infos = self.node.get_publishers_info_by_topic(self._planner.subscription.topic_name)
        new = {bytes(info.endpoint_gid) for info in infos} - self._publishers_seen
        if new and self._publishers_seen:
            self._restarts += 1
            self._planner.ledger.restarted(time.time())
        self._publishers_seen |= new

    def _measure(self, window: Window, message: TrajectoryBatch) -> str:
        """Measure an answer; returns its fault, or ""."""
        try:
            batch = Trajectory(*trajectories_of(message).outputs)
        except ValueError:
            return "trajectory batch of wrong length"
        if len(batch.position) != len(window.data) or list(message.joint_names) != list(window.path.motion.joint_names):
            return "trajectory batch of other joints or size"
        self._measured.add(window, batch)
        # The first candidates, for the figures, so that the message itself can be freed.
        self._kept.append(Kept(window, Trajectory(*(values[:SHOWN_CANDIDATES].copy() for values in batch))))
        starts = batch.position[:, start_row(window, batch)]
        if not window.kind.from_joint_states:
            return "trajectory starts away from its sequence" if np.any(starts != window.start[0]) else ""
        known = self.player.has_published(starts[0]) and np.all(starts == starts[0])
        return "" if known else "trajectory starts from no joint state of ours"


def _message(window: Window) -> ActionSequence:
    """The message of a window."""
    start = {} if window.start is None else dict(zip(ORDERS[:3], window.start, strict=True))
    names, space = window.path.motion.joint_names, window.kind.control_space
    return sequence(window.data, dt=window.dt, control_space=space, joint_names=names, **start)
