"""What the clients do: robot, controller, planner and optimizer."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from kit.controller import fields_of
from kit.ledger import Ledger
from kit.messages import Template
from kit.participant import Participant, received_ns
from kit.roles import Controller, Planner, StatePublisher
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.client import ORDERS, Gradient, sequence
from traj_integrator_ros.limits.joint_limits import JointLimits
from traj_integrator_ros.tools.checker import Expectation
from traj_integrator_ros.wire.readers import SequenceGaps

from .client import Role, work
from .commanded import Commanded
from .streams.plans import Bounds, Course, Way
from .streams.policies import POSITION, Chunk, Form, Policy

AMPLITUDE_RAD = 0.1

# Batches
BATCH, HORIZON, DT_S = 16, 32, 0.02
ACCELERATION_RAD_S2 = 0.3
SEQUENCES, REQUESTS = 16, 4
"""Number of different messages that are sent in turn."""

# Chunks
FORM = Form(POSITION, dt=0.05, horizon=16, stamped=True)
RATES_HZ = 10.0, 25.0
INFERENCE_S, JITTER_S = 0.15, 0.015
"""Longest."""
STREAM_S, PAUSE_S = (2.0, 6.0), (0.1, 2.0)
LAG_NS = 40_000_000
"""Lag of the joints behind their commands."""
MEANT = 0.5, 2.0, 20.0
"""Velocity, acceleration and jerk that a policy asks for of each joint, rad and s."""
REACH_RAD = 0.3
"""How far from the middle of its range a policy moves a joint."""
_TICK_HZ = 500.0
_TOO_LATE_NS = 500_000_000
_LOST_RAD = 0.1
"""Distance from the plan from which on the robot counts as stopped by its brake."""


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


def _of_planner(planner: Planner[int], send: Callable[[], None], rate_hz: float) -> Role:
    ledger = planner.ledger
    return Role(planner.counts, lambda: ledger.answered > 0, send, rate_hz, ledger, planner.faults)


def planner(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """A sampling planner: sends batches of accelerations from the robot's present state, and checks the answers."""
    shape, space = (SEQUENCES, BATCH, HORIZON, len(swing.joint_names)), ActionSequence.ACCELERATION
    sent = ACCELERATION_RAD_S2 * np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    fields = {"dt": [DT_S], "control_space": space, "joint_names": swing.joint_names}
    templates = [Template(sequence(actions, **fields)) for actions in sent]
    own: Planner[int] = Planner(participant, lambda variant, message: fault_of_batch(sent[variant], message))

    def send() -> None:
        variant = own.ledger.sent % SEQUENCES
        own.send(templates[variant], variant)

    return _of_planner(own, send, rate_hz)


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


def policy(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """A policy of the random streams, which sends chunks at changing rates, late, with jitter and with stops."""
    del rate_hz  # it changes with every stream
    random, dof, seen = np.random.default_rng(3), len(swing.joint_names), []
    meant = Bounds(*(np.full(dof, most) for most in MEANT))

    def course(now: float, measured: np.ndarray) -> Course:
        """Ways between places around the middle, for as long as a stream may last."""
        speed = np.clip(measured[1], -meant.velocity, meant.velocity)  # faster where it catches up
        ways, begin, state = [], now, np.array([measured[0], speed, np.zeros(dof)])
        while begin <= now + STREAM_S[1]:
            ways.append(Way(begin, state, swing.middle + random.uniform(-REACH_RAD, REACH_RAD, dof), meant))
            begin, state = ways[-1].end, ways[-1].state(ways[-1].end)
        return Course(ways)

    def fault(about: int, message: TrajectoryBatch) -> str:
        return "" if np.isfinite(message.position).all() else "trajectory_batch: expected finite numbers in position"

    first = course(time.time(), np.array([swing.middle, np.zeros(dof)]))
    own = Policy(FORM, np.ones(dof), random, [], course, first, _LOST_RAD)
    sender: Planner[int] = Planner(participant, fault)
    thinking: deque[tuple[int, Chunk]] = deque()
    due_ns, stream_end_ns, period_s = 0, 0, 0.0

    def send() -> None:
        """Observe if that is due, and send chunks whose inference is over."""
        nonlocal due_ns, stream_end_ns, period_s
        now_ns = time.time_ns()
        if seen and now_ns >= due_ns:
            if now_ns >= stream_end_ns:  # the next one begins where the robot is then
                pause_s = random.uniform(*PAUSE_S) * bool(stream_end_ns)
                own.pauses = [(now_ns * 1e-9, now_ns * 1e-9 + pause_s)]
                stream_end_ns = now_ns + round(1e9 * (pause_s + random.uniform(*STREAM_S)))
                period_s = 1 / random.uniform(*RATES_HZ)
            if chunk := own.chunk(now_ns, seen[-1]):
                ready_ns = now_ns + round(1e9 * (random.uniform(0, INFERENCE_S) + random.uniform(0, JITTER_S)))
                # One network: its outputs come in order.
                thinking.append((max(ready_ns, thinking[-1][0]) if thinking else ready_ns, chunk))
            due_ns = now_ns + round(period_s * 1e9)
        while thinking and now_ns >= thinking[0][0]:
            ready_ns, chunk = thinking.popleft()
            if now_ns - ready_ns <= _TOO_LATE_NS:  # else the soak has stopped us in the meantime
                message = sequence(chunk.data[None], dt=[chunk.dt], joint_names=swing.joint_names)
                sender.send(Template(message), 0, observed_ns=chunk.observed_ns)

    def on_state(message: JointState) -> None:
        seen[:] = [np.array([message.position, message.velocity])]

    participant.subscribe(JointState, "joint_states", on_state, depth=1)
    return _of_planner(sender, send, _TICK_HZ)


def controller(participant: Participant, swing: Swing, rate_hz: float, *, between_points: bool = False) -> Role:
    """Checks what the node publishes for controllers; met when a trajectory answers the planner's greeting.

    Limits must hold between the points, too, if a robot executes them; else it swings by itself, and they start
    elsewhere.
    """
    given = {"limits": swing.limits, "between_points": between_points}
    expected = partial(Expectation, swing.joint_names, **given)
    own = Controller(participant, lambda now_ns: expected(now_ns=now_ns))

    def counts() -> dict[str, int]:
        return {name: getattr(own, name) for name in ("received", "missed", "unfit")}

    return Role(counts, lambda: own.received > 0, faults=own.faults)


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
"""Who works where a policy streams chunks to a robot that executes them."""
