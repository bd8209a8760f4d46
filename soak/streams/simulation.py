"""Simulates one stream: policy, node, controller and arm, with the delays between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kit.arm import Robot
from kit.controller import SECOND
from rig.simulated import BEGIN_S, Answer, Sent, Simulated
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.requests.inputs import Actions

from .core import NodeCore
from .plans import Bounds
from .policies import Chunk, Policy
from .scenes import DEAD, FREEZE, RESTART, Disturbance, Scene

_AFTER_S = 0.5
"""Time simulated after the last trajectory has ended, s."""
_LONGEST_END_S = 9.0
"""Longest time simulated after the last observation, s."""
_COMPUTING_S = 1e-4, 6e-4
"""Shortest and longest time from a sequence to its trajectory, s."""


@dataclass
class Answered:
    """A chunk that arrived, and the node's answer."""

    chunk: Chunk
    arrived_ns: int
    answer: Answer


@dataclass
class Run:
    """Record of a simulated stream."""

    scene: Scene
    commands: np.ndarray
    """Position, velocity and acceleration that each cycle commands for the end of its period, `[3, T, D]`."""
    off: np.ndarray
    """Cycles without a controller `[T]`."""
    policy: Policy
    answers: list[Answered] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    assumed: Bounds | None = None
    """The bounds that the node assumes if none are given."""
    begin_ns: int = round(BEGIN_S * SECOND)
    period_ns: int = 1_000_000

    def time(self, cycle: int) -> float:
        """The time of a cycle, s of the scene."""
        return (self.begin_ns + cycle * self.period_ns) / SECOND

    def cycle(self, time: float) -> int:
        """The cycle at a time, s."""
        return int(np.clip(self.cycle_at(round(time * SECOND)), 0, len(self.off) - 1))

    def cycle_at(self, time_ns: float) -> int:
        """Return the cycle at a time, ns, even if that is before the begin or after the end."""
        return int((time_ns - self.begin_ns) // self.period_ns)


def simulate(scene: Scene, *, core: Callable[..., NodeCore] = NodeCore, **parameters: object) -> Run:
    """Simulate a scene with a node that `core` makes of parameters."""
    given = {"start_from": "previous", **node_parameters(scene), **parameters}
    return _Stream(scene, core(scene.joints, **given)).run()


class _Stream(Simulated):
    def __init__(self, scene: Scene, core: NodeCore) -> None:
        options = {name: getattr(scene, name) for name in ("lag", "droop", "noise", "quantization", "seed")}
        options["interpolate_from_desired_state"] = scene.from_desired
        robot = Robot(scene.joints, hard_replacement=True, **options)
        robot.set_state(scene.start)
        super().__init__(
            robot, core, states_hz=scene.joint_rate, reports_hz=scene.state_rate, report_is_next=scene.state_is_next,
            transport=scene.transport, computing=_COMPUTING_S, seed=[scene.seed, 2],
        )  # fmt: skip
        self.scene = scene
        policy = scene.policy(np.random.default_rng([scene.seed, 3]))
        self.log = Run(scene, np.empty(0), np.empty(0), policy, sent=self.sent)
        self._end_s = scene.sending.end + _AFTER_S

    def run(self) -> Run:
        sending = self.scene.sending
        for k, time in enumerate(np.arange(sending.begin, sending.end, 1 / sending.rate)):
            observed = time + self.random.uniform(-0.5, 0.5) * sending.jitter * (k > 0)
            self._later(round(observed * SECOND), self._observe)
        for it in self.scene.disturbances:
            self._later(round(it.begin * SECOND), self._disturb, it, True)
            self._later(round(it.end * SECOND), self._disturb, it, False)
        while self.clock_s < min(self._end_s, sending.end + _LONGEST_END_S):
            self._cycle()
        log = self.log
        log.off = np.array([row.off for row in self.rows])
        log.commands = np.array([row.command for row in self.rows]).swapaxes(0, 1)
        log.commands[:, log.off] = np.nan
        velocity = np.asarray(self.core.parameters.limits_velocity)
        acceleration = 2 * velocity / (brake_s := self.core.parameters.publish_brake_time)
        log.assumed = Bounds(velocity, acceleration, 2 * acceleration / brake_s)
        return log

    def _disturb(self, at_ns: int, it: Disturbance, begins: bool) -> None:
        if it.kind == FREEZE:
            self.robot.frozen = begins
        elif it.kind == DEAD or (begins and it.states_too):
            self.missing = (it.begin - BEGIN_S, it.end - BEGIN_S)
        if it.kind == RESTART and begins:
            self.robot.off = True
        elif it.kind == RESTART:
            self.robot.restart()

    def _observe(self, now_ns: int) -> None:
        chunk = None if self.seen is None else self.log.policy.chunk(now_ns, self.seen)
        if chunk is None:
            return
        sending, random = self.scene.sending, self.random
        delay, draws = random.uniform(*sending.inference), random.random(3)
        if draws[0] < sending.late:
            delay += random.uniform(0.1, 0.4)
        arrivals = [] if draws[1] < sending.lost else [now_ns + round(delay * SECOND)]
        if arrivals and draws[2] < sending.doubled:
            arrivals.append(arrivals[0] + int(random.integers(50_000_000)))
        for at_ns in arrivals:
            self._later(at_ns, self._arrive, chunk)
            self._end_s = max(self._end_s, at_ns / SECOND + _AFTER_S)

    def _arrive(self, now_ns: int, chunk: Chunk) -> None:
        fields = Actions(chunk.stamp_ns, chunk.space, chunk.dt, chunk.data)
        self.log.answers.append(Answered(chunk, now_ns, self.answer(now_ns, fields)))

    def _publish(self, made: object, at_ns: int) -> ExecutableTrajectory | None:
        message = super()._publish(made, at_ns)
        if message is not None:
            last_ns = (message.stamp_ns or self.sent[-1].arrived_ns) + int(message.points.time_ns[-1])
            self._end_s = max(self._end_s, last_ns / SECOND + _AFTER_S)
        return message


def node_parameters(scene: Scene) -> dict[str, object]:
    """Parameters of the node in a scene."""
    given = {
        "publish.lead_time": scene.lead_time,
        "limits.velocity": scene.bounds.velocity.tolist(),
        "limits.position_min": scene.position_min.tolist(),
        "limits.position_max": scene.position_max.tolist(),
    }
    if scene.complete:
        given |= {f"limits.{name}": getattr(scene.bounds, name).tolist() for name in ("acceleration", "jerk")}
    return given
