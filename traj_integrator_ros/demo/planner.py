"""The demo's planner: sends windows of the motion's future and measures every trajectory that comes back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch

from ..kernels.types import ControlSpace, FiniteDifference, Trajectory
from ..tools.checker import Expectation
from ..traffic.controller import Controller
from ..traffic.messages import batch_arrays, sequence
from ..traffic.node_status import NodeStatus
from ..traffic.participant import Participant
from ..traffic.planner import Planner
from ..traffic.player import MotionPlayer
from .metrics import Kept, Measured, start_row
from .windows import Paths, StartFrom, Window, WindowKind, cut_window, kinds_under

RATE = 20.0
"""Sequences per second."""
MOST_IN_FLIGHT = 6
"""Number of unanswered sequences at which the planner waits for the node, whose queue would drop further ones."""
BLOCKS = 8
"""How often the node's scheme of finite differences is set anew while a motion plays, at most every second."""
DRAIN_WITHIN_S = 2.0
SET_WITHIN_S = 2.0
RESTART_POLL_S = 0.25
SHOWN_CANDIDATES = 8


class DemoPlanner:
    """Sends windows with `batch` candidates, measures the answers, and samples joint trajectories as controllers."""

    def __init__(self, participant: Participant, paths: Paths, batch: int) -> None:
        self.measured = Measured()
        self.status = NodeStatus(participant)
        self.planner: Planner[Window] = Planner(participant, self._measure)
        self.controller = Controller(
            participant,
            lambda now_ns: Expectation(complete=True),
            accept=self.measured.commanded.add,
            describe=lambda finding: f"{finding.rule.value}: {finding.what}",
        )
        self.ledger = self.planner.ledger
        self.restarts = 0
        self.refused_on_purpose = 0
        self.kept: list[Kept] = []
        self._participant, self._paths, self._batch = participant, paths, batch
        self._player: MotionPlayer | None = None
        self._random = np.random.default_rng(1)
        self._publishers_seen: set[bytes] = set()
        self._set_parameters = participant.client(SetParameters, "set_parameters")
        participant.node.create_timer(RESTART_POLL_S, self._watch_for_restart)

    @property
    def is_connected(self) -> bool:
        """Whether the node is active, and both sides have discovered each other."""
        heard = (self.planner.subscription, self.controller.subscription)
        return (
            self.status.values.get("lifecycle_state") == "active"
            and self.planner.publisher.get_subscription_count() > 0
            and all(self._participant.node.count_publishers(one.topic_name) for one in heard)
            and self._set_parameters.service_is_ready()
        )

    def run(self, player: MotionPlayer, show: Callable[[], None]) -> None:
        """Send windows that start where the player is, for as long as it plays; calls `show` between them."""
        self._player = player
        schemes = itertools.cycle(FiniteDifference)
        block_s = max(1.0, player.duration_s / BLOCKS)
        until_s = 0.0
        kinds: itertools.cycle[WindowKind] = itertools.cycle([])
        due = time.monotonic()
        bad_sent = False
        while player.is_playing:
            if player.elapsed_s >= until_s:
                scheme = next(schemes)
                self._switch(scheme)
                kinds = itertools.cycle(kinds_under(scheme))
                until_s = player.elapsed_s + block_s
            if self.planner.in_flight() < MOST_IN_FLIGHT:
                self._send(next(kinds))
            if not bad_sent and player.elapsed_s > player.duration_s / 2:
                self._send_nonsense()
                bad_sent = True
            show()
            due = max(due + 1 / RATE, time.monotonic() - 1 / RATE)
            self._participant.spin_once(max(0.0, due - time.monotonic()))

    def drain(self, within_s: float) -> None:
        """Wait until every sequence is answered, or for this time."""
        self._participant.spin_until(lambda: not self.planner.in_flight(within_s), within_s)

    def wait_for_diagnostics(self, messages: int, within_s: float) -> None:
        """Wait for this number of further diagnostics messages, or for this time."""
        wanted = self.status.messages + messages
        self._participant.spin_until(lambda: self.status.messages >= wanted, within_s)

    def _switch(self, scheme: FiniteDifference) -> None:
        """Set the node's scheme of finite differences while nothing is in flight; a node that is away keeps its own."""
        self.drain(DRAIN_WITHIN_S)
        if not self._set_parameters.service_is_ready():
            return
        parameter = Parameter("finite_difference", value=scheme.value).to_parameter_msg()
        request = SetParameters.Request(parameters=[parameter])
        try:
            answer = self._participant.call(SetParameters, "set_parameters", request, SET_WITHIN_S)
        except TimeoutError:
            return
        if not all(result.successful for result in answer.results):
            self.planner.faults["finite_difference not set"] += 1

    def _send(self, kind: WindowKind) -> None:
        first = self._paths.of(kind).sample_at(self._player.motion_time_s)
        if first is None:
            return  # not enough future left
        window = cut_window(kind, self._paths, first, self._batch, self._random)
        self.planner.send(_message(window), window)

    def _send_nonsense(self) -> None:
        """One sequence with a NaN in it: the node has to reject it, and to say so."""
        window = cut_window(WindowKind(ControlSpace.POSITION), self._paths, 0, 1, self._random)
        message = _message(window)
        message.data[0] = float("nan")
        self.planner.send(message, window, answer_expected=False)
        self.refused_on_purpose += 1

    def _watch_for_restart(self) -> None:
        """Detect a restarted node: messages sent while there was none do not count as lost."""
        infos = self._participant.node.get_publishers_info_by_topic(self.planner.subscription.topic_name)
        new = {bytes(info.endpoint_gid) for info in infos} - self._publishers_seen
        if new and self._publishers_seen:
            self.restarts += 1
            self.ledger.restarted(time.time())
        self._publishers_seen |= new

    def _measure(self, window: Window, message: TrajectoryBatch) -> str:
        """Measure an answer; returns its fault, or ""."""
        try:
            batch = Trajectory(*batch_arrays(message))
        except ValueError:
            return "trajectory batch of wrong length"
        if len(batch.position) != len(window.data) or list(message.joint_names) != list(window.path.motion.joint_names):
            return "trajectory batch of other joints or size"
        self.measured.add(window, batch)
        row = start_row(window, batch)
        # The first candidates, for the figures, so that the message itself can be freed.
        self.kept.append(Kept(window, Trajectory(*(values[:SHOWN_CANDIDATES].copy() for values in batch))))
        return self._start_fault(window, batch.position[:, row])

    def _start_fault(self, window: Window, starts: np.ndarray) -> str:
        if window.kind.start_from is StartFrom.SEQUENCE:
            return "trajectory starts away from its sequence" if np.any(starts != window.start[0]) else ""
        known = self._player.has_published(starts[0]) and np.all(starts == starts[0])
        return "" if known else "trajectory starts from no joint state of ours"


def _message(window: Window) -> ActionSequence:
    """The message of a window."""
    fields = (
        {} if window.start is None else dict(zip(("position", "velocity", "acceleration"), window.start, strict=True))
    )
    names = window.path.motion.joint_names
    return sequence(window.data, dt=window.dt, control_space=window.kind.control_space, joint_names=names, **fields)
