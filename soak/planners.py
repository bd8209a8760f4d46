"""How a robot swings, and who sends action sequences: a sampling planner, and a policy that streams chunks."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from sensor_msgs.msg import JointState

from kit.ledger import Ledger
from kit.messages import Template
from kit.participant import Participant, received_ns
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.client import ORDERS, sequence
from traj_integrator_ros.client.requests import SECOND_NS, stamp_of
from traj_integrator_ros.limits.joint_limits import JointLimits
from traj_integrator_ros.wire.readers import SequenceGaps

from .client import Role
from .streams.plans import Bounds, Course, Way
from .streams.policies import POSITION, Chunk, Form, Policy

DEPTH = 1000
"""Depth of our queues: answers that displace each other in them would not be losses of the node."""
AMPLITUDE_RAD = 0.1

# Batches
BATCH, HORIZON, DT_S = 16, 32, 0.02
ACCELERATION_RAD_S2 = 0.3
SEQUENCES = 16
"""Number of different messages that are sent in turn."""

# Chunks
FORM = Form(POSITION, dt=0.05, horizon=16, stamped=True)
RATES_HZ = 10.0, 25.0
INFERENCE_S, JITTER_S = 0.15, 0.015
"""Longest."""
STREAM_S, PAUSE_S = (2.0, 6.0), (0.1, 2.0)
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


def planner(participant: Participant, swing: Swing, rate_hz: float) -> Role:
    """A sampling planner: sends batches of accelerations from the robot's present state, and checks the answers."""
    shape, space = (SEQUENCES, BATCH, HORIZON, len(swing.joint_names)), ActionSequence.ACCELERATION
    sent = ACCELERATION_RAD_S2 * np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    fields = {"dt": [DT_S], "control_space": space, "joint_names": swing.joint_names}
    templates = [Template(sequence(actions, **fields)) for actions in sent]
    own = Planner(participant, lambda variant, message: fault_of_batch(sent[variant], message))

    def send() -> None:
        variant = own.ledger.sent % SEQUENCES
        own.send(templates[variant], variant)

    return own.role(send, rate_hz)


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
    sender = Planner(participant, fault)
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
    return sender.role(send, _TICK_HZ)


class Planner:
    """Sends action sequences, each with a unique stamp, the time of sending, which identifies its answer.

    `check` is called with what a sequence is about, and with the answer; it returns what is wrong with it, or "".
    """

    def __init__(self, participant: Participant, check: Callable[[int, TrajectoryBatch], str]) -> None:
        self.ledger: Ledger[int] = Ledger()
        self.faults: Counter[str] = Counter()
        self.missed = 0
        """Answers that were lost on their way to us."""
        self._check = check
        self._gaps = SequenceGaps()
        self._last_stamp_ns = 0
        self._publisher = participant.publisher(ActionSequence, "~/action_sequence", DEPTH)
        participant.subscribe(TrajectoryBatch, "~/trajectory_batch", self._on_batch, DEPTH)

    def send(self, message: Template, about: int, observed_ns: int = 0) -> None:
        """Publish a sequence; `observed_ns` is its stamp, where that is another time than the sending."""
        now_ns = time.time_ns()
        stamp_ns = self._last_stamp_ns = max(observed_ns or now_ns, self._last_stamp_ns + 1)
        self.ledger.send(stamp_ns, about, now_ns / SECOND_NS)
        self._publisher.publish(message.stamped(stamp_ns))

    def role(self, send: Callable[[], None], rate_hz: float) -> Role:
        """Counts are sequences sent and answered, answers that were lost on their way, and that answer nothing."""
        ledger = self.ledger

        def counts() -> dict[str, int]:
            sent = {"sent": ledger.sent, "answered": ledger.answered}
            return {**sent, "missed": self.missed, "unknown": ledger.unknown_answers}

        return Role(counts, lambda: ledger.answered > 0, send, rate_hz, ledger, self.faults)

    def _on_batch(self, message: TrajectoryBatch, info: Mapping[str, object]) -> None:
        self.missed += self._gaps.missed_before(info)
        about = self.ledger.answer(stamp_of(message), received_ns(info) / SECOND_NS)
        if about is not None and (fault := self._check(about, message)):
            self.faults[fault] += 1
