"""What the clients do: robot, controller, planner and optimizer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.handling.limits import JointLimits
from traj_integrator_ros.tools.checker import Expectation
from traj_integrator_ros.tools.controller_model import scheduled_points
from traj_integrator_ros.traffic import roles
from traj_integrator_ros.traffic.messages import ORDERS, Template, gradient_request, sequence
from traj_integrator_ros.traffic.participant import Participant, received_ns
from traj_integrator_ros.traffic.player import StatePublisher
from traj_integrator_ros.wire.readers import SequenceGaps

from .client import Role, work
from .commanded import Commanded

AMPLITUDE_RAD = 0.1

# Batches
BATCH, HORIZON, DT_S = 16, 32, 0.02
ACCELERATION_RAD_S2 = 0.3
SEQUENCES, REQUESTS = 16, 4
"""Number of different messages that are sent in turn."""

# Chunks
CHUNK_HORIZON, CHUNK_DT_S = 16, 0.05
RATES_HZ = 10.0, 25.0
INFERENCE_S, JITTER_S = 0.15, 0.015
"""Longest."""
STREAM_S, PAUSE_S = (2.0, 6.0), (0.1, 2.0)
LAG_NS = 40_000_000
"""Lag of the joints behind their commands."""
_TICK_HZ = 500.0
_TOO_LATE_NS = 500_000_000
_APPROACH_S = 2.0
_PACE = 3.0
"""Amplitude of the policy's swing: up to 0.5 rad/s and 2 rad/s^2."""
_REST_RAD_S = 1e-3
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


class Robot(Role):
    """The robot's driver: publishes joint states."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        super().__init__(rate_hz)
        self._swing = swing
        self._states = StatePublisher(participant, swing.joint_names)

    def greet(self) -> bool:
        """Wait for the node's subscription."""
        self.send()
        return self._states.publisher.get_subscription_count() > 0

    def send(self) -> None:
        """Publish a joint state of now."""
        now_ns = time.time_ns()
        self._states.publish(*self._swing.at(now_ns), now_ns)

    def counts(self) -> dict[str, int]:
        """Joint states sent."""
        return {"sent": self._states.messages}


class Follower(Robot):
    """The robot and its controller: executes trajectories, checks the commands, and publishes joint states."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        super().__init__(participant, swing, rate_hz)
        limits, now_ns = swing.limits, time.time_ns() - LAG_NS
        self._commanded = Commanded(swing.middle, swing.joint_names, limits.velocity, limits.acceleration, now_ns)
        self._waiting: deque[tuple[int, int, Points]] = deque()
        self._gaps = SequenceGaps()
        participant.subscribe(JointTrajectory, "~/joint_trajectory", self._on_trajectory)

    def send(self) -> None:
        """Publish a joint state: the joints follow their commands with a lag.

        The cycles are computed later by the same lag, so that each sees all messages received by its time, however busy
        the machine.
        """
        now_ns = time.time_ns()
        cycle_ns = now_ns - LAG_NS
        while self._waiting and self._waiting[0][0] <= cycle_ns:
            received, stamp_ns, points = self._waiting.popleft()
            self._commanded.take(stamp_ns, points, received)
        state = self._commanded.at(cycle_ns)
        self._states.publish(state.position, state.velocity, now_ns)

    def counts(self) -> dict[str, int]:
        """Numbers of joint states sent, of trajectories executed, and of those that came after their own start."""
        return super().counts() | {"executed": self._commanded.taken, "late": self._commanded.late}

    def peaks(self) -> dict[str, float]:
        """Largest commands since the start; also records faults."""
        self._commanded.judge(time.time_ns() - LAG_NS)
        for fault in self._commanded.faults:
            self.faults[fault] += 1
        self._commanded.faults.clear()
        return dict(self._commanded.peaks)

    def _on_trajectory(self, message: JointTrajectory, info: Mapping[str, object]) -> None:
        if self._gaps.missed_before(info):
            self.faults["joint_trajectory: the robot missed one"] += 1
        self._waiting.append((received_ns(info), *scheduled_points(message)))


class Sender(Role):
    """Whoever sends sequences, checks the answers."""

    def __init__(self, participant: Participant, check: Callable[[int, TrajectoryBatch], str], rate_hz: float) -> None:
        self._planner: roles.Planner[int] = roles.Planner(participant, check)
        super().__init__(rate_hz, self._planner.ledger, self._planner.faults)
        self.counts = self._planner.counts


class Planner(Sender):
    """A sampling planner: sends batches of accelerations from the robot's present state, and checks the answers."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        shape = (SEQUENCES, BATCH, HORIZON, len(swing.joint_names))
        self._actions = ACCELERATION_RAD_S2 * np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
        self._templates = [
            Template(
                sequence(actions, dt=[DT_S], control_space=ActionSequence.ACCELERATION, joint_names=swing.joint_names)
            )
            for actions in self._actions
        ]
        super().__init__(participant, self._fault, rate_hz)

    def send(self) -> None:
        """Publish the next sequence."""
        variant = self.ledger.sent % SEQUENCES
        self._planner.send(self._templates[variant], variant)

    def _fault(self, variant: int, message: TrajectoryBatch) -> str:
        """The fault of an answer; held accelerations must be returned unchanged, a step later."""
        actions = self._actions[variant]
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


class Policy(Sender):
    """Sends chunks stamped with the time of their observation, at changing rates, late, with jitter and with stops.

    A stream continues its own plan over short stops; if the robot has come to rest in a longer one, it begins anew from
    there.
    """

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        del rate_hz  # it changes with every stream
        super().__init__(participant, self._fault, _TICK_HZ)
        self._swing = swing
        self._random = np.random.default_rng(3)
        self._state: tuple[np.ndarray, np.ndarray] | None = None
        participant.subscribe(JointState, "joint_states", self._on_state, depth=1)
        self._origin: np.ndarray | None = None
        self._paused = True
        self._stream_begin_ns = self._stream_end_ns = self._resume_ns = self._due_ns = 0
        self._period_s = 0.1
        self._thinking: deque[tuple[int, int, ActionSequence]] = deque()

    def send(self) -> None:
        """Observe if that is due, and send chunks whose inference is over."""
        now_ns = time.time_ns()
        if self._state is not None and now_ns >= self._due_ns:
            self._observe(now_ns)
        while self._thinking and now_ns >= self._thinking[0][0]:
            ready_ns, observed_ns, message = self._thinking.popleft()
            if now_ns - ready_ns > _TOO_LATE_NS:  # the soak has stopped us in the meantime
                continue
            self._planner.send(Template(message), 0, observed_ns=observed_ns)

    def _observe(self, now_ns: int) -> None:
        if now_ns >= self._stream_end_ns:
            pause_s = self._random.uniform(*PAUSE_S) if self._stream_end_ns else 0.0
            self._resume_ns = now_ns + round(pause_s * 1e9)
            self._stream_end_ns = self._resume_ns + round(self._random.uniform(*STREAM_S) * 1e9)
            self._period_s = 1 / self._random.uniform(*RATES_HZ)
        if now_ns < self._resume_ns:
            self._due_ns, self._paused = self._resume_ns, True
            return
        position, velocity = self._state
        if self._begins_anew(now_ns, position, velocity):
            self._origin, self._stream_begin_ns = position, now_ns
        self._paused = False
        times_s = (now_ns - self._stream_begin_ns) * 1e-9 + CHUNK_DT_S * np.arange(1, CHUNK_HORIZON + 1)
        message = sequence(self._plan(times_s)[None], dt=[CHUNK_DT_S], joint_names=self._swing.joint_names)
        ready_ns = now_ns + round(1e9 * (self._random.uniform(0, INFERENCE_S) + self._random.uniform(0, JITTER_S)))
        if self._thinking:  # one network: its outputs come in order
            ready_ns = max(ready_ns, self._thinking[-1][0])
        self._thinking.append((ready_ns, now_ns, message))
        self._due_ns = now_ns + round(self._period_s * 1e9)

    def _begins_anew(self, now_ns: int, position: np.ndarray, velocity: np.ndarray) -> bool:
        if self._origin is None:
            return True
        (planned,) = self._plan(np.array([(now_ns - self._stream_begin_ns) * 1e-9]))
        lost = np.abs(planned - position).max() > _LOST_RAD
        return (self._paused or lost) and np.abs(velocity).max() < _REST_RAD_S

    def _plan(self, times_s: np.ndarray) -> np.ndarray:
        """Positions `[T, dof]`: from rest where the stream began, within two seconds into the swing of the robot."""
        t = np.clip(times_s / _APPROACH_S, 0.0, 1.0)[:, None]
        share = t**3 * (10 - 15 * t + 6 * t * t)
        swung = np.stack([self._swing.at(round(_PACE * time_s * 1e9))[0] for time_s in times_s])
        return self._origin + share * (swung - self._origin)

    def _on_state(self, message: JointState) -> None:
        self._state = np.array(message.position), np.array(message.velocity)

    def _fault(self, about: int, message: TrajectoryBatch) -> str:
        """What is wrong with an answer."""
        return "" if np.isfinite(message.position).all() else "trajectory_batch: expected finite numbers in position"


class Controller(Role):
    """Checks what the node publishes for controllers.

    Limits must hold between the points, too, if a robot executes them; else it swings by itself, and they start
    elsewhere.
    """

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float, *, between_points: bool = False) -> None:
        given = {"complete": True, "limits": swing.limits, "between_points": between_points}
        expected = partial(Expectation, swing.joint_names, **given)
        self._controller = roles.Controller(participant, lambda now_ns: expected(now_ns=now_ns))
        super().__init__(faults=self._controller.faults)

    def greet(self) -> bool:
        """Wait for a trajectory that answers the planner's greeting."""
        return self._controller.received > 0

    def counts(self) -> dict[str, int]:
        """Trajectories received, lost on their way, unfit."""
        return {name: getattr(self._controller, name) for name in ("received", "missed", "unfit")}


class Optimizer(Role):
    """Calls for gradients without waiting for earlier answers; equal requests must have equal answers."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        self._optimizer: roles.Optimizer[int] = roles.Optimizer(participant)
        super().__init__(rate_hz, self._optimizer.ledger)
        self._requests = [_gradient_request(swing, seed) for seed in range(REQUESTS)]
        self._expected: dict[int, bytes] = {}
        self._refused = 0

    def greet(self) -> bool:
        """Call repeatedly: the answer to a first call is lost if the node has not discovered us yet."""
        return self._optimizer.is_connected and super().greet()

    def send(self) -> None:
        """Call once more, and do not wait."""
        variant = self.ledger.sent % REQUESTS
        self._optimizer.send(self._requests[variant], variant, self._on_answer)

    def counts(self) -> dict[str, int]:
        """Numbers of calls, of answers, and of answers without success."""
        answered = self.ledger.answered - self._refused
        return {"called": self.ledger.sent, "answered": answered, "refused": self._refused}

    def _on_answer(self, variant: int, response: ComputeGradient.Response) -> None:
        if not response.success:
            self._refused += 1
            self.faults[f"compute_gradient: {response.message}"] += 1
            return
        gradient = np.frombuffer(response.grad_action, np.float32)
        expected = self._expected.setdefault(variant, gradient.tobytes())
        if not gradient.size or not np.isfinite(gradient).all() or gradient.tobytes() != expected:
            self.faults["compute_gradient: expected the finite gradient of the first answer"] += 1


def _gradient_request(swing: Swing, seed: int) -> ComputeGradient.Request:
    generator = np.random.default_rng(seed)
    shape = (BATCH, HORIZON, len(swing.joint_names))
    actions, *upstream = (generator.standard_normal(shape, np.float32) for _ in range(5))
    message = sequence(
        actions, dt=[DT_S], control_space=ActionSequence.JERK, joint_names=swing.joint_names, position=swing.middle
    )
    return gradient_request(message, dict(zip(ORDERS, upstream, strict=True)))


ROLES = {"robot": Robot, "controller": Controller, "planner": Planner, "optimizer": Optimizer}
CHUNK_ROLES = ROLES | {
    "robot": Follower, "controller": partial(Controller, between_points=True), "planner": Policy,
}  # fmt: skip
"""Who works where a policy streams chunks to a robot that executes them."""
