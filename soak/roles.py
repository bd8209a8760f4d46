"""Roles of the clients: how the robot swings, and what robot, controller, planner and optimizer do."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.ledger import Ledger
from kit.messages import Template
from kit.participant import Participant, received_ns
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.client import ORDERS, Gradient, sequence
from traj_integrator_ros.client.requests import SECOND_NS, stamp_of
from traj_integrator_ros.limits.joint_limits import JointLimits
from traj_integrator_ros.motions.trajectories import planned_trajectory
from traj_integrator_ros.tools.checker import Expectation, check
from traj_integrator_ros.wire.readers import SequenceGaps

from .client import Role, work

DEPTH = 1000
"""Depth of our queues: answers that displace each other in them would not be losses of the node."""
AMPLITUDE_RAD = 0.1
BATCH, HORIZON, DT_S = 16, 32, 0.02
ACCELERATION_RAD_S2 = 0.3
SEQUENCES, REQUESTS = 16, 4
"""Numbers of different sequences, and of different gradient requests, that are sent in turn."""


@dataclass(frozen=True)
class Swing:
    """Where the joints of a robot with limits of position swing, each around the middle of its range."""

    limits: JointLimits

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The robot's joints."""
        return self.limits.joint_names

    @property
    def middle(self) -> np.ndarray:
        """Middle of each joint's range `[dof]`, rad."""
        return (np.asarray(self.limits.position_min) + np.asarray(self.limits.position_max)) / 2

    def at(self, time_ns: int) -> tuple[np.ndarray, np.ndarray]:
        """Position, rad, and velocity, rad/s, `[dof]` each, at a time since the epoch; the same in every process."""
        omega = 2 * np.pi * np.linspace(0.1, 0.25, len(self.joint_names))
        phase = omega * (time_ns % 10**14 * 1e-9)
        return self.middle + AMPLITUDE_RAD * np.sin(phase), AMPLITUDE_RAD * omega * np.cos(phase)


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


def robot(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """The robot's driver: publishes joint states, with the least work for each message."""
    publisher = participant.publisher(JointState, "joint_states", depth=10)
    fields = np.random.default_rng(0).random((2, len(swing.joint_names)))
    position, velocity = (array("d", values.tobytes()) for values in fields)
    template = Template(JointState(name=list(swing.joint_names), position=position, velocity=velocity), *fields)
    counts = Counter(sent=0)

    def send() -> None:
        now_ns = time.time_ns()
        publisher.publish(template.stamped(now_ns, *swing.at(now_ns)))
        counts["sent"] += 1

    return Role(lambda: dict(counts), lambda: publisher.get_subscription_count() > 0, send, rate_hz)


def planner(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """A sampling planner: sends batches of accelerations from the robot's present state, and checks the answers.

    The stamp of a sequence, the time of sending, identifies its answer.
    """
    shape, space = (SEQUENCES, BATCH, HORIZON, len(swing.joint_names)), ActionSequence.ACCELERATION
    actions = ACCELERATION_RAD_S2 * np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    fields = {"dt": [DT_S], "control_space": space, "joint_names": swing.joint_names}
    templates = [Template(sequence(rows, **fields)) for rows in actions]
    ledger: Ledger[int] = Ledger()
    missed, faults, gaps = Counter(missed=0), Counter(), SequenceGaps()
    publisher = participant.publisher(ActionSequence, "~/action_sequence", DEPTH)

    def on_batch(message: TrajectoryBatch, info: Mapping[str, object]) -> None:
        missed["missed"] += gaps.missed_before(info)
        variant = ledger.answer(stamp_of(message), received_ns(info) / SECOND_NS)
        if variant is not None and (fault := fault_of_batch(actions[variant], message)):
            faults[fault] += 1

    def send() -> None:
        variant, now_ns = ledger.sent % SEQUENCES, time.time_ns()
        ledger.send(now_ns, variant, now_ns / SECOND_NS)
        publisher.publish(templates[variant].stamped(now_ns))

    def counts() -> dict[str, int]:
        return {"sent": ledger.sent, "answered": ledger.answered, "unknown": ledger.unknown_answers, **missed}

    participant.subscribe(TrajectoryBatch, "~/trajectory_batch", on_batch, DEPTH)
    return Role(counts, lambda: ledger.answered > 0, send, rate_hz, ledger, faults)


def fault_of_batch(actions: np.ndarray, message: TrajectoryBatch) -> str:
    """The fault of an answer; held accelerations must be returned unchanged, a step later."""
    for name in ORDERS:
        values = np.frombuffer(getattr(message, name), np.float32)
        if values.size != actions.size:
            return f"trajectory_batch: expected {actions.size} values in {name}, got {values.size}"
        if not np.isfinite(values).all():
            return f"trajectory_batch: expected finite numbers in {name}"
        moved = values.reshape(actions.shape)[:, 1:]
        if name == "acceleration" and not np.array_equal(moved, actions[:, :-1]):
            return "trajectory_batch: expected the accelerations that were sent, got others"
    return ""


def controller(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """Checks every joint trajectory as joint_trajectory_controller does, and beyond; met when one answers a greeting.

    Limits must hold at the points: the robot swings by itself, and trajectories start elsewhere.
    """
    expected = partial(Expectation, swing.joint_names, limits=swing.limits, between_points=False)
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
