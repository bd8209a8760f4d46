"""One run of the demo over DDS: robot, planner and optimizer in this process, the node in another."""

from __future__ import annotations

import math
import textwrap
import time

from ..kernels.types import FiniteDifference
from ..tools.command_line import ToolFailure
from ..tools.progress import Progress
from ..traffic.node_process import NodeProcess
from ..traffic.optimizer import Optimizer, Refused
from ..traffic.participant import NODE_NAME, Participant
from ..traffic.player import MotionPlayer, StatePublisher
from .goal_problem import Steering, problem_from
from .metrics import inconsistency, velocity_bounds
from .optimizer import OptimizerResult, minimize
from .planner import DemoPlanner
from .report import Outcome
from .windows import Prepared

NODE_WITHIN_S = 30.0
STATE_WITHIN_S = 5.0
ANSWERS_WITHIN_S = 5.0
CONFIGURE_FAILED = "configure failed"
"""Beginning of the node's status on /diagnostics if its parameters or its device are unusable."""


def run_session(
    prepared: Prepared,
    batch: int,
    play_at_least: float,
    ros_arguments: list[str],
    process: NodeProcess | None,
    progress: Progress,
) -> Outcome:
    """Play, plan and optimize against the node; returns everything measured.

    Motions shorter than `play_at_least` s are played several times.
    `process` is the node if the demo started it. Raises ToolFailure where the node does not come up or stops
    answering, ProcessEnded where `process` ends.
    """
    participant = Participant(NODE_NAME, name="demo", ros_arguments=ros_arguments)
    try:
        recording = prepared.recording
        passes = max(1, math.ceil(play_at_least / recording.duration - 0.5))
        planner = DemoPlanner(participant, prepared.paths, batch)
        optimizer = Optimizer(participant)
        # Last, so that a node that has received a joint state has discovered everything before it, too.
        states = StatePublisher(participant, recording.joint_names)
        player = MotionPlayer(states, recording, passes)
        if process is not None:
            participant.check = process.check
        with participant.in_background():
            try:
                _wait_for_node(participant, prepared, planner, player, process is not None, progress)
                _play(player, planner, progress)
                result = _optimize(optimizer, prepared, progress)
                # The last answers, and the node's counts of everything before.
                planner.drain(ANSWERS_WITHIN_S)
                planner.wait_for_diagnostics(2, ANSWERS_WITHIN_S)
            finally:
                player.stop()
        return _outcome(prepared, states, planner, result)
    finally:
        participant.close()


def _wait_for_node(
    participant: Participant,
    prepared: Prepared,
    planner: DemoPlanner,
    player: MotionPlayer,
    is_ours: bool,
    progress: Progress,
) -> None:
    """Wait until the node is active, receives joint states, and we receive its messages."""
    begin, status = time.monotonic(), planner.status
    if not is_ours:
        progress.stage("Waiting for the node")

    def connected() -> bool:
        progress.update(time.monotonic() - begin)
        if is_ours and CONFIGURE_FAILED in status.message:
            raise ToolFailure(f"the node could not configure itself: {textwrap.shorten(status.message, 300)}")
        return planner.is_connected

    def heard() -> bool:
        player.announce()
        return status.values.get("state_age_s", "none") != "none"

    if not participant.spin_until(connected, NODE_WITHIN_S):
        if not status.messages:
            raise ToolFailure(
                f"no node {NODE_NAME} within {NODE_WITHIN_S:.0f} s: nothing on /diagnostics in this ROS domain"
            )
        raise ToolFailure(
            f"the node {NODE_NAME} is not ready within {NODE_WITHIN_S:.0f} s; it says on /diagnostics: {status.message}"
        )
    if not participant.spin_until(heard, STATE_WITHIN_S):
        raise ToolFailure(
            f"no joint state reached the node within {STATE_WITHIN_S:.0f} s; are its joints "
            f"{', '.join(prepared.recording.joint_names)}? It says: {status.message}"
        )


def _play(player: MotionPlayer, planner: DemoPlanner, progress: Progress) -> None:
    progress.stage("Playing and planning", player.duration_s)
    player.start()

    def show() -> None:
        progress.update(player.elapsed_s, f"{planner.ledger.sent} sequences, {planner.ledger.answered} answered")

    planner.run(player, show)


def _optimize(optimizer: Optimizer, prepared: Prepared, progress: Progress) -> dict[Steering, OptimizerResult]:
    progress.stage("Optimizing over the services")
    try:
        # The problem over positions counts the rows of backward differences.
        optimizer.participant.set_parameters(finite_difference=FiniteDifference.BACKWARD.value)
        return {steering: minimize(problem_from(prepared.planned, steering), optimizer) for steering in Steering}
    except (Refused, TimeoutError) as error:
        raise ToolFailure(f"optimizer: {error}") from None


def _outcome(
    prepared: Prepared,
    states: StatePublisher,
    planner: DemoPlanner,
    optimized: dict[Steering, OptimizerResult],
) -> Outcome:
    counts = planner.status.total.counts
    return Outcome(
        prepared=prepared,
        bounds=velocity_bounds(planner.measured, prepared.recording),
        inconsistency=inconsistency(prepared.cleaned),
        balance=planner.ledger.balance(counts.refused),
        by_reason=counts.by_reason,
        refused_on_purpose=planner.refused_on_purpose,
        unknown_answers=planner.ledger.unknown_answers,
        latencies=planner.ledger.latencies_s(),
        measured=planner.measured,
        faults=dict(planner.planner.faults + planner.controller.faults),
        joint_states=states.messages,
        joint_trajectories=planner.controller.received,
        restarts=planner.restarts,
        node=planner.status.values,
        optimized=optimized,
        kept=planner.kept,
    )
