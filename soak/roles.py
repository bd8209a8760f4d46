"""Roles of the clients: robot, controller, planner and optimizer."""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.controller import fields_of
from kit.ledger import Ledger
from kit.messages import Template
from kit.participant import Participant, received_ns
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.client import ORDERS, Gradient, sequence
from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.tools.checker import Expectation, check
from traj_integrator_ros.wire.readers import SequenceGaps

from .client import Role, work
from .commanded import Commanded
from .planners import BATCH, DEPTH, DT_S, HORIZON, Swing, planner, policy

REQUESTS = 4
"""Number of different gradient requests that are sent in turn."""
LAG_NS = 40_000_000
"""Lag of the joints behind their commands."""


def run_role(name: str, role: Callable[..., Role], swing: Swing, rate_hz: float, pipe: Connection) -> None:
    """Work as the client of this name, in a process of its own, until the pipe says that it ends."""
    participant = Participant(name=f"soak_{name}")

    def spin(duration_s: float) -> None:
        end = time.monotonic() + duration_s
        participant.spin_once(max(0.0, duration_s))
        while (left := end - time.monotonic()) > 0:
            participant.spin_once(left)

    try:
        work(role(participant, swing, rate_hz), spin, pipe)
    finally:
        participant.close()


class StatePublisher:
    """The robot's driver: publishes where the joints are, with the least work for each message."""

    def __init__(self, participant: Participant, joint_names: tuple[str, ...]) -> None:
        self.messages = 0
        """Joint states published so far."""
        self.publisher = participant.publisher(JointState, "joint_states", depth=10)
        fields = np.random.default_rng(0).random((2, len(joint_names)))
        position, velocity = (array("d", values.tobytes()) for values in fields)
        self._template = Template(JointState(name=list(joint_names), position=position, velocity=velocity), *fields)

    def publish(self, position: np.ndarray, velocity: np.ndarray, stamp_ns: int) -> None:
        """Publish a joint state `[dof]`, float64; rad and rad/s."""
        self.publisher.publish(self._template.stamped(stamp_ns, position, velocity))
        self.messages += 1


def robot(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """The robot's driver: publishes joint states."""
    states = StatePublisher(participant, swing.joint_names)

    def send() -> None:
        now_ns = time.time_ns()
        states.publish(*swing.at(now_ns), now_ns)

    return Role(lambda: {"sent": states.messages}, lambda: _is_heard(states), send, rate_hz)


def follower(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """The robot and its controller: executes trajectories, checks the commands, and publishes joint states.

    The joints follow their commands with a lag. The cycles are computed later by the same lag, so that each sees all
    messages received by its time, however busy the machine.
    """
    states, limits, gaps = StatePublisher(participant, swing.joint_names), swing.limits, SequenceGaps()
    now_ns = time.time_ns() - LAG_NS
    commanded = Commanded(swing.joint_names, swing.middle, limits.velocity, limits.acceleration, now_ns)
    waiting: deque[tuple[int, JointTrajectory]] = deque()

    def on_trajectory(message: JointTrajectory, info: Mapping[str, object]) -> None:
        if gaps.missed_before(info):
            commanded.faults["joint_trajectory: the robot missed one"] += 1
        waiting.append((received_ns(info), message))

    def send() -> None:
        now_ns = time.time_ns()
        while waiting and waiting[0][0] <= now_ns - LAG_NS:
            received, message = waiting.popleft()
            commanded.receive(**fields_of(message), now_ns=received)
        states.publish(*commanded.at(now_ns - LAG_NS)[:2], now_ns)

    def peaks() -> dict[str, float]:
        commanded.judge(time.time_ns() - LAG_NS)
        return dict(commanded.peaks)

    def counts() -> dict[str, int]:
        return {"sent": states.messages, "executed": commanded.taken, "late": commanded.late}

    participant.subscribe(JointTrajectory, "~/joint_trajectory", on_trajectory)
    return Role(counts, lambda: _is_heard(states), send, rate_hz, faults=commanded.faults, peaks=peaks)


def _is_heard(states: StatePublisher) -> bool:
    return states.publisher.get_subscription_count() > 0


def controller(participant: Participant, swing: Swing, rate_hz: float, *, between_points: bool = False) -> Role:
    """Checks every joint trajectory as joint_trajectory_controller does, and beyond; met when one answers a greeting.

    Limits must hold between the points, too, if a robot executes them; else it swings by itself, and they start
    elsewhere.
    """
    expected = partial(Expectation, swing.joint_names, limits=swing.limits, between_points=between_points)
    counts, faults, gaps = Counter(received=0, missed=0, unfit=0), Counter(), SequenceGaps()

    def on_trajectory(message: JointTrajectory, info: Mapping[str, object]) -> None:
        findings = check(planned_trajectory(message), expected(now_ns=received_ns(info)))
        counts.update(received=1, missed=gaps.missed_before(info), unfit=bool(findings))
        faults.update(f"joint_trajectory: {finding}" for finding in findings)

    participant.subscribe(JointTrajectory, "~/joint_trajectory", on_trajectory, DEPTH)
    return Role(lambda: dict(counts), lambda: counts["received"] > 0, faults=faults)


def optimizer(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """Calls for gradients without waiting for earlier answers; equal requests must have equal answers."""
    requests = [_gradient_request(swing, seed) for seed in range(REQUESTS)]
    service = participant.client(ComputeGradient, "compute_gradient")
    ledger: Ledger[int] = Ledger()
    expected: dict[int, bytes] = {}
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    def answered(number: int, answer: Future[Gradient]) -> None:
        variant = ledger.answer(number, time.monotonic())
        if (error := answer.exception()) is not None:
            totals["refused"] += 1
            faults[f"compute_gradient: {error}"] += 1
            return
        gradient = answer.result().action
        right = expected.setdefault(variant, gradient.tobytes())
        if not np.isfinite(gradient).all() or gradient.tobytes() != right:
            faults["compute_gradient: expected the finite gradient of the first answer"] += 1

    def send() -> None:
        number, variant = ledger.sent, ledger.sent % REQUESTS
        if service.service_is_ready():
            ledger.send(number, variant, time.monotonic())
            participant.futures.compute_gradient(*requests[variant]).add_done_callback(partial(answered, number))

    def counts() -> dict[str, int]:
        refused = totals["refused"]
        return {"called": ledger.sent, "answered": ledger.answered - refused, "refused": refused}

    return Role(counts, lambda: ledger.answered > 0, send, rate_hz, ledger, faults)


def _gradient_request(swing: Swing, seed: int) -> tuple[ActionSequence, dict[str, np.ndarray]]:
    generator = np.random.default_rng(seed)
    shape = (BATCH, HORIZON, len(swing.joint_names))
    actions, *upstream = (generator.standard_normal(shape, np.float32) for _ in range(5))
    message = sequence(actions, dt=DT_S, control_space="jerk", joint_names=swing.joint_names, position=swing.middle)
    return message, dict(zip(ORDERS, upstream, strict=True))


ROLES = {"robot": robot, "controller": controller, "planner": planner, "optimizer": optimizer}
CHUNK_ROLES = ROLES | {
    "robot": follower, "controller": partial(controller, between_points=True), "planner": policy,
}  # fmt: skip
"""Roles where a policy streams chunks to a robot that executes them."""
