"""A policy that streams chunks of positions, and the robot that executes the node's trajectories."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

import numpy as np
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_ros.execution.points import Points
from traj_integrator_ros.tools.controller_model import scheduled_points
from traj_integrator_ros.traffic import planner
from traj_integrator_ros.traffic.messages import sequence
from traj_integrator_ros.traffic.participant import Participant, received_ns
from traj_integrator_ros.traffic.player import StatePublisher
from traj_integrator_ros.wire.sequence_gaps import SequenceGaps

from .client import Role
from .commanded import Commanded
from .motion import Swing

HORIZON, DT_S = 16, 0.05
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


class Policy(Role):
    """Sends chunks stamped with the time of their observation, at changing rates, late, with jitter and with stops.

    A stream continues its own plan over short stops; if the robot has come to rest in a longer one, it begins anew from
    there.
    """

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        del rate_hz  # it changes with every stream
        self._planner: planner.Planner[None] = planner.Planner(participant, _fault)
        super().__init__(_TICK_HZ, self._planner.ledger, self._planner.faults)
        self._swing = swing
        self._random = np.random.default_rng(3)
        self._state: tuple[np.ndarray, np.ndarray] | None = None
        participant.subscribe(JointState, "joint_states", self._on_state, depth=1)
        self._origin: np.ndarray | None = None
        self._paused = True
        self._stream_begin_ns = self._stream_end_ns = self._resume_ns = self._due_ns = 0
        self._period_s = 0.1
        self._thinking: deque[tuple[int, int, ActionSequence]] = deque()

    def greet(self) -> bool:
        """Send chunks until one is answered; from then on, losses are noticed."""
        self.send()
        return self.ledger.answered > 0

    def send(self) -> None:
        """Observe if that is due, and send chunks whose inference is over."""
        now_ns = time.time_ns()
        if self._state is not None and now_ns >= self._due_ns:
            self._observe(now_ns)
        while self._thinking and now_ns >= self._thinking[0][0]:
            ready_ns, observed_ns, message = self._thinking.popleft()
            if now_ns - ready_ns > _TOO_LATE_NS:  # the soak has stopped us in the meantime
                continue
            self._planner.send(message, None, observed_ns=observed_ns)

    def counts(self) -> dict[str, int]:
        """Numbers of chunks sent and answered, of lost answers, and of answers to no chunk."""
        return self._planner.counts()

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
        times_s = (now_ns - self._stream_begin_ns) * 1e-9 + DT_S * np.arange(1, HORIZON + 1)
        message = sequence(self._plan(times_s)[None], dt=[DT_S], joint_names=self._swing.joint_names)
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


class Follower(Role):
    """The robot and its controller: executes trajectories, checks the commands, and publishes joint states."""

    def __init__(self, participant: Participant, swing: Swing, rate_hz: float) -> None:
        super().__init__(rate_hz)
        limits = swing.limits
        self._joints = swing.joint_names
        self._states = StatePublisher(participant, self._joints)
        self._commanded = Commanded(
            swing.middle, self._joints, limits.velocity, limits.acceleration, time.time_ns() - LAG_NS
        )
        self._waiting: deque[tuple[int, int, Points]] = deque()
        self._gaps = SequenceGaps()
        participant.subscribe(JointTrajectory, "~/joint_trajectory", self._on_trajectory)

    def greet(self) -> bool:
        """Wait for the node's subscription."""
        self.send()
        return self._states.publisher.get_subscription_count() > 0

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
        return {"sent": self._states.messages, "executed": self._commanded.taken, "late": self._commanded.late}

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


def _fault(about: None, message: TrajectoryBatch) -> str:
    """What is wrong with an answer."""
    del about
    return "" if np.isfinite(message.position).all() else "trajectory_batch: expected finite numbers in position"
