"""Simulates one stream: policy, node, controller and arm, with the delays between them."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kit.arm import Robot
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.requests.inputs import Actions, Positions
from traj_integrator_ros.requests.rejection import Rejected

from .core import Message, NodeCore
from .plans import Bounds
from .policies import Chunk, Policy
from .scenes import BEGIN_S, DEAD, FREEZE, Scene

SECOND = 1_000_000_000
STOP = "stop"
_TICK_NS = 10_000_000
_AFTER_S = 0.5
"""Time simulated after the last trajectory has ended, s."""
_LONGEST_END_S = 9.0
"""Longest time simulated after the last observation, s."""
_PUBLISH_NS = 100_000, 600_000
"""Shortest and longest time from a sequence to its trajectory, ns."""


class Refusal(NamedTuple):
    """The node's reason to publish nothing."""

    reason: str
    message: str


class Step(NamedTuple):
    """A message to the node at a time, s."""

    time: float
    make: Callable[[int, np.ndarray], Actions | Positions | str | None]
    """Makes input from the time, ns, and the measured state `[2, D]`: STOP calls ~/stop, None sends nothing."""


@dataclass
class Answer:
    """Answer of the node to a chunk that arrived."""

    chunk: Chunk
    arrived_ns: int
    answer: Message | Refusal | None


@dataclass
class Sent:
    """A message to the controller."""

    arrived_ns: int
    message: Message
    refusal: str = ""
    """The controller's reason to refuse the message."""


@dataclass
class Run:
    """Record of a simulated stream."""

    scene: Scene
    commands: np.ndarray
    """Position, velocity and acceleration that each cycle commands for the end of its period, `[3, T, D]`."""
    off: np.ndarray
    """Cycles without a controller `[T]`."""
    policy: Policy
    answers: list[Answer] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    scripted: list[tuple[int, Message | Refusal | None]] = field(default_factory=list)
    """Times of a script's messages, ns, and the node's answers."""
    assumed: Bounds | None = None
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


def simulate(
    scene: Scene,
    *,
    core: Callable[..., NodeCore] = NodeCore,
    script: Sequence[Step] = (),
    **parameters: object,
) -> Run:
    """Simulate a scene.

    Args:
        scene: what to simulate.
        core: makes the node.
        script: messages in addition to the chunks of the policy.
        parameters: parameters of the node.

    """
    return _Simulation(scene, core, parameters).run(script)


class _Simulation:
    def __init__(self, scene: Scene, core: Callable, parameters: dict) -> None:
        self.scene, self.random = scene, np.random.default_rng([scene.seed, 2])
        self.core = core(scene.joints, **{"start_from": "previous", **node_parameters(scene), **parameters})
        options = {name: getattr(scene, name) for name in ("lag", "droop", "noise", "quantization", "seed")}
        options["interpolate_from_desired_state"] = scene.from_desired
        self.robot = Robot(scene.joints, hard_replacement=True, **options)
        self.robot.set_state(scene.start)
        policy = scene.policy(np.random.default_rng([scene.seed, 3]))
        cycles = (self._last_ns - Run.begin_ns) // self.robot.period + 1
        self.log = Run(scene, np.zeros((3, cycles, scene.dof)), np.zeros(cycles, bool), policy)
        self.cycle = 0  # the next one
        self.end_ns = round((scene.sending.end + _AFTER_S) * SECOND)
        self._events: list[tuple] = []  # time, number, method and its arguments
        self._inbox: list[tuple] = []  # states in transit to the node
        self._to_controller: deque[Sent] = deque()
        self._last_arrival = dict.fromkeys(("controller", "joints", "state"), 0)
        self._node_ns = 0  # the node's clock, which does not go back
        self._seen = None  # the latest joint state that has arrived
        self._numbers = itertools.count()  # tie-breaker of two events at one time
        self._disturbed = [(it, round(it.begin * SECOND), round(it.end * SECOND)) for it in scene.disturbances]
        self._was_off = False

    @property
    def _last_ns(self) -> int:
        return round((self.scene.sending.end + _LONGEST_END_S) * SECOND)

    def run(self, script: Sequence[Step]) -> Run:
        sending = self.scene.sending
        for step in script:
            self._at(round(step.time * SECOND), self._play, step)
            self.end_ns = max(self.end_ns, round((step.time + _AFTER_S) * SECOND))
        for k, time in enumerate(np.arange(sending.begin, sending.end, 1 / sending.rate)):
            observed = time + self.random.uniform(-0.5, 0.5) * sending.jitter * (k > 0)
            self._at(round(observed * SECOND), self._observe)
        self._at(round(BEGIN_S * SECOND) + int(self.random.integers(_TICK_NS)), self._tick)
        while self._events:
            now_ns, _, what, *given = heapq.heappop(self._events)
            if now_ns > min(self.end_ns, self._last_ns):
                break
            if what != self._observe:
                now_ns = max(now_ns, self._node_ns)  # the node is busy until then
            self._run_cycles(now_ns)
            self._deliver_states(now_ns)
            what(now_ns, *given)
        self._run_cycles(min(self.end_ns, self._last_ns))
        self.log.commands, self.log.off = self.log.commands[:, : self.cycle], self.log.off[: self.cycle]
        self.log.assumed = self.core.assumed_bounds()
        return self.log

    def _at(self, time_ns: int, what: Callable[..., None], *given: object) -> None:
        heapq.heappush(self._events, (time_ns, next(self._numbers), what, *given))

    def _observe(self, now_ns: int) -> None:
        chunk = None if self._seen is None else self.log.policy.chunk(now_ns, self._seen)
        if chunk is None:
            return
        sending, random = self.scene.sending, self.random
        delay = random.uniform(*sending.inference)
        draws = random.random(3)
        if draws[0] < sending.late:
            delay += random.uniform(0.1, 0.4)
        arrivals = [] if draws[1] < sending.lost else [now_ns + round(delay * SECOND)]
        if arrivals and draws[2] < sending.doubled:
            arrivals.append(arrivals[0] + int(random.integers(50_000_000)))
        for at_ns in arrivals:
            self._at(at_ns, self._answer, chunk)
            self.end_ns = max(self.end_ns, at_ns + round(_AFTER_S * SECOND))

    def _answer(self, now_ns: int, chunk: Chunk) -> None:
        done_ns = now_ns + int(self.random.integers(*_PUBLISH_NS))
        fields = Actions(chunk.stamp_ns, chunk.space, chunk.dt, chunk.data)
        self.log.answers.append(
            Answer(chunk, now_ns, self._ask(done_ns, self.core.execute, fields, now_ns, lambda: done_ns))
        )

    def _play(self, now_ns: int, step: Step) -> None:
        given, done_ns = step.make(now_ns, self._seen), now_ns + _PUBLISH_NS[0]
        if given is None:
            return
        what = (self.core.stop, now_ns) if given is STOP else (self.core.execute, given, now_ns, lambda: done_ns)
        self.log.scripted.append((now_ns, self._ask(done_ns, *what)))

    def _tick(self, now_ns: int) -> None:
        self._ask(now_ns, self.core.tick, now_ns)
        self._at(now_ns + _TICK_NS, self._tick)

    def _ask(
        self, done_ns: int, work: Callable[..., ExecutableTrajectory | None], *given: object
    ) -> Message | Refusal | None:
        """Return the node's answer, which is sent to the controller when it is computed."""
        self._node_ns = done_ns
        try:
            made = work(*given)
        except Rejected as rejected:
            return Refusal(rejected.reason.value, rejected.message)
        message = made and Message.of(made)
        if message is not None:
            sent = Sent(self._arrival("controller", done_ns), message)
            self._to_controller.append(sent)
            self.log.sent.append(sent)
            last_ns = (message.stamp_ns or sent.arrived_ns) + int(message.points.time_ns[-1])
            self.end_ns = max(self.end_ns, last_ns + round(_AFTER_S * SECOND))
        return message

    def _arrival(self, topic: str, now_ns: int) -> int:
        """Return the time of arrival of a message sent now; messages keep their order."""
        arrived = now_ns + round(self.random.uniform(*self.scene.transport) * SECOND)
        self._last_arrival[topic] = max(self._last_arrival[topic], arrived)
        return self._last_arrival[topic]

    def _deliver_states(self, now_ns: int) -> None:
        inbox = self._inbox
        while inbox and inbox[0][0] <= now_ns:
            arrived_ns, _, topic, stamp_ns, values = heapq.heappop(inbox)
            self._node_ns = arrived_ns = max(arrived_ns, self._node_ns)
            if topic == "joints":
                self._seen = np.stack(values)
                self.core.joint_state(*values, arrived_ns, stamp_ns)
            else:
                self.core.controller_state(stamp_ns, values[0], arrived_ns)

    def _run_cycles(self, until_ns: int) -> None:
        """Run all cycles before a time."""
        robot, waiting, log, scene = self.robot, self._to_controller, self.log, self.scene
        while (now_ns := log.begin_ns + self.cycle * robot.period) < until_ns:
            off, reading = False, True
            for it, begin_ns, end_ns in self._disturbed:
                now = begin_ns <= now_ns < end_ns
                if it.kind == FREEZE:
                    robot.frozen = now
                elif it.kind == DEAD:
                    reading = not now
                elif now:
                    off, reading = True, not it.states_too
            while waiting and waiting[0].arrived_ns <= now_ns:
                self._receive(waiting.popleft(), off)
            if reading and self._is_due(scene.joint_rate):
                self._tell("joints", now_ns, robot.measured)
            log.off[self.cycle] = off
            tells = not off and scene.state_rate and self._is_due(scene.state_rate)
            if off:  # the arm stands still
                log.commands[:, self.cycle], robot._speed = np.nan, np.zeros(scene.dof)
            elif self._was_off:
                robot.restart()
            if tells and not scene.state_is_next:
                self._tell("state", now_ns, robot.controller_state)
            if not off:
                log.commands[:, self.cycle] = robot.update(now_ns)
            if tells and scene.state_is_next:
                self._tell("state", now_ns, robot.controller_state)
            self._was_off = off
            self.cycle += 1

    def _is_due(self, rate: int) -> bool:
        return self.cycle % max(1000 // rate, 1) == 0

    def _tell(self, topic: str, now_ns: int, values: Callable[[], tuple]) -> None:
        """Send the node a state."""
        arrived_ns = self._arrival(topic, now_ns)
        heapq.heappush(self._inbox, (arrived_ns, next(self._numbers), topic, now_ns, values()))

    def _receive(self, sent: Sent, off: bool) -> None:
        if off:
            sent.refusal = "off"
            return
        stamp_ns, points, _ = sent.message
        self.robot.receive(self.scene.joints, *points, now_ns=sent.arrived_ns, stamp_ns=stamp_ns)
        sent.refusal = self.robot.refusal


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
