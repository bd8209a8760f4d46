"""One run of the demo over DDS: its nodes, in this process, against the integrator node in another."""

from __future__ import annotations

import math
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from ..tools.progress import Progress
from .jerk_problem import problem_from
from .metrics import inconsistency, velocity_bounds
from .optimizer import DemoOptimizer, OptimizerResult, ServiceError
from .planner import DemoPlanner
from .player import JointStatePlayer
from .prepare import Prepared
from .process import NODE_NAME, IntegratorProcess, wait_until
from .report import Outcome

NODE_WITHIN = 30.0
STATE_WITHIN = 5.0
ANSWERS_WITHIN = 5.0
CONFIGURE_FAILED = "configure failed"
"""What the node says on /diagnostics where its parameters or its device do not serve."""


class SessionError(Exception):
    """The session cannot go on; the message is for the user."""


def run_session(
    prepared: Prepared,
    batch: int,
    play_at_least: float,
    ros_arguments: list[str],
    process: IntegratorProcess | None,
    progress: Progress,
) -> Outcome:
    """Play, plan and optimize against the node; returns everything measured.

    Motions shorter than `play_at_least` s are played several times.
    `process` is the node where the demo started it, None where it runs by itself. Raises SessionError where the node
    does not come up or stops answering, NodeDied where `process` ends.
    """
    rclpy.init(args=ros_arguments, signal_handler_options=SignalHandlerOptions.NO)
    try:
        recording = prepared.recording
        passes = max(1, math.ceil(play_at_least / recording.duration - 0.5))
        planner = DemoPlanner(prepared.paths, batch)
        optimizer = DemoOptimizer()
        # Last, so that a node that has heard the robot has heard of everything before, too.
        player = JointStatePlayer(recording, passes)
        with _spinning([player, planner, optimizer]) as check_executor:

            def tick() -> None:
                check_executor()
                if process is not None:
                    process.check()

            try:
                _wait_for_node(prepared, planner, player, process, progress, tick)
                _play(player, planner, progress, tick)
                result = _optimize(optimizer, prepared, progress, tick)
                _settle(planner, tick)
            finally:
                player.stop()
        return _outcome(prepared, player, planner, result)
    finally:
        rclpy.try_shutdown()


def _wait_for_node(
    prepared: Prepared,
    planner: DemoPlanner,
    player: JointStatePlayer,
    process: IntegratorProcess | None,
    progress: Progress,
    tick: Callable[[], None],
) -> None:
    """Wait until the node is active, hears the robot, and we hear the node."""
    begin = time.monotonic()
    if process is None:
        progress.stage("Waiting for the node")

    def alive() -> None:
        tick()
        progress.update(time.monotonic() - begin)
        if process is not None and CONFIGURE_FAILED in planner.node.message:
            raise SessionError(f"the node could not configure itself: {textwrap.shorten(planner.node.message, 300)}")

    def announce() -> None:
        tick()
        player.announce()

    if wait_until(lambda: planner.is_connected, alive, NODE_WITHIN):
        if wait_until(lambda: planner.node.knows_robot, announce, STATE_WITHIN):
            return
        raise SessionError(
            f"no joint state reached the node within {STATE_WITHIN:.0f} s; are its joints "
            f"{', '.join(prepared.recording.joint_names)}? It says: {planner.node.message}"
        )
    if not planner.node.messages:
        raise SessionError(
            f"no node {NODE_NAME} within {NODE_WITHIN:.0f} s: nothing on /diagnostics in this ROS domain"
        )
    raise SessionError(
        f"the node {NODE_NAME} is not ready within {NODE_WITHIN:.0f} s; it says on /diagnostics: {planner.node.message}"
    )


def _play(player: JointStatePlayer, planner: DemoPlanner, progress: Progress, tick: Callable[[], None]) -> None:
    progress.stage("Playing and planning", player.duration)
    player.start()

    def show() -> None:
        tick()
        progress.update(player.elapsed, f"{planner.ledger.sent} sequences, {planner.ledger.answered} answered")

    planner.run(player, show)


def _optimize(
    optimizer: DemoOptimizer, prepared: Prepared, progress: Progress, tick: Callable[[], None]
) -> OptimizerResult:
    progress.stage("Optimizing over the services")
    try:
        return optimizer.minimize(problem_from(prepared.planned), tick)
    except ServiceError as error:
        raise SessionError(str(error)) from None


def _settle(planner: DemoPlanner, tick: Callable[[], None]) -> None:
    """Wait for the last answers, and for the node's counts of everything before."""
    planner.drain(ANSWERS_WITHIN, tick)
    planner.wait_for_diagnostics(2, ANSWERS_WITHIN, tick)


def _outcome(prepared: Prepared, player: JointStatePlayer, planner: DemoPlanner, optimizer: OptimizerResult) -> Outcome:
    return Outcome(
        prepared=prepared,
        bounds=velocity_bounds(planner.measured, prepared.recording),
        inconsistency=inconsistency(prepared.cleaned),
        balance=planner.ledger.balance(planner.counts.refused),
        by_reason=planner.counts.by_reason,
        refused_on_purpose=planner.refused_on_purpose,
        unknown_answers=planner.ledger.unknown_answers,
        latencies=planner.ledger.latencies(),
        measured=planner.measured,
        faults=dict(planner.faults),
        joint_states=player.messages,
        joint_trajectories=planner.joint_trajectories,
        unmatched_starts=planner.unmatched_starts,
        restarts=planner.restarts,
        node=planner.node.values,
        optimizer=optimizer,
        kept=planner.kept,
    )


@contextmanager
def _spinning(nodes: list[Node]) -> Iterator[Callable[[], None]]:
    """Spin nodes in a thread; yields a function that raises what went wrong in a callback."""
    executor = SingleThreadedExecutor()
    for node in nodes:
        executor.add_node(node)
    stop = threading.Event()
    errors: list[BaseException] = []

    def spin() -> None:
        try:
            while not stop.is_set():
                executor.spin_once(timeout_sec=0.1)
        except Exception as error:  # raised again by check, in the thread that can end the demo
            errors.append(error)

    def check() -> None:
        if errors:
            raise errors[0]

    thread = threading.Thread(target=spin, name="demo-executor", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        stop.set()
        executor.wake()
        thread.join()
        executor.shutdown()
        for node in nodes:
            node.destroy_node()
