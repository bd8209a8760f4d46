"""One stream on a simulated clock: policy, node, controller and arm, with the delays between them."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .core import ActionFields, Message, NodeCore, Positions, Refusal
from .model import Models
from .plans import Bounds
from .policies import Chunk, Policy
from .robots import recorded_robots
from .scenes import BEGIN_S, DEAD, FREEZE, Link, Scene

SECOND = 1_000_000_000
STOP = "stop"
_TICK_NS = 10_000_000
_AFTER_S = 0.5
"""Simulated after the last trajectory has ended."""
_LONGEST_END_S = 9.0
"""Longest time after the last observation that is simulated."""
_PUBLISH_NS = 100_000, 600_000
"""Shortest and longest time from a sequence to its trajectory."""


class Step(NamedTuple):
    """Something that is sent to the node at a time, s."""

    time: float
    make: Callable[[int, np.ndarray], ActionFields | Positions | str | None]
    """From the time, ns, and what is measured then `[2, D]`; STOP calls ~/stop, None sends nothing."""


@dataclass
class Answer:
    """What the node made of a chunk that arrived."""

    chunk: Chunk
    arrived_ns: int
    answer: Message | Refusal | None


@dataclass
class Sent:
    """A message to the controller."""

    sent_ns: int
    arrived_ns: int
    message: Message
    refusal: str = ""
    """Why the controller did not take it."""


@dataclass
class Run:
    """What happened."""

    scene: Scene
    commands: np.ndarray
    """Position, velocity and acceleration `[3, T, D]` of each cycle, commanded for a period later."""
    off: np.ndarray
    """Cycles without a controller `[T]`."""
    policy: Policy
    answers: list[Answer] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    scripted: list[tuple[int, Message | Refusal | None]] = field(default_factory=list)
    """Times, ns, and answers of what a script sent."""
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
        """The cycle at a time, ns, even if the run begins later or is over before."""
        return int((time_ns - self.begin_ns) // self.period_ns)

    def met(self, answer: Answer) -> int:
        """The cycle in which a chunk is taken up, or would be after the run."""
        return self.cycle_at(answer.arrived_ns) + round(self.scene.lead_time * SECOND / self.period_ns)


def simulate(
    scene: Scene,
    models: Models,
    *,
    plain: bool = False,
    core: Callable[..., NodeCore] = NodeCore,
    script: Sequence[Step] = (),
    **parameters: object,
) -> Run:
    """Simulate a scene.

    Args:
        scene: what to simulate.
        models: of controller and arm.
        plain: whether the controller's model itself runs in each cycle, instead of blocks that are equal to it.
        core: makes the node.
        script: what is sent beside the chunks of the policy.
        parameters: of the node.

    """
    return _Simulation(scene, models, plain, core, parameters).run(script)


class _Simulation:
    def __init__(self, scene: Scene, models: Models, plain: bool, core: Callable, parameters: dict) -> None:
        self.scene, self.random = scene, np.random.default_rng([scene.seed, 2])
        self.core = core(scene.joints, **{"start_from": "previous", **node_parameters(scene), **parameters})
        cycles = round((scene.sending.end - BEGIN_S + _LONGEST_END_S + 1.0) * 1000)
        self.robot = recorded_robots(models)[0 if plain else 1](
            scene.joints,
            begin_ns=round(BEGIN_S * SECOND),
            cycles=cycles,
            lag=scene.lag,
            droop=scene.droop,
            noise=scene.noise,
            quantization=scene.quantization,
            seed=scene.seed,
            hard_replacement=scene.hard,
            interpolate_from_desired_state=scene.from_desired,
        )
        self.robot.set_state(scene.start)
        self.policy = scene.policy(np.random.default_rng([scene.seed, 3]))
        self.log = Run(scene, self.robot.commands, self.robot.off, self.policy)
        self.end_ns = round((scene.sending.end + _AFTER_S) * SECOND)
        self._inbox: list[tuple[int, int, tuple]] = []  # states on their way to the node
        self._to_controller: deque[Sent] = deque()
        self._last_arrival = {"controller": 0, "joints": 0, "state": 0}
        self._node_ns = 0  # the node's clock, which does not go back
        self._seen = None  # the latest joint state that has arrived
        self._count = 0
        self._joints_every = max(1000 // scene.joint_rate, 1)
        self._state_every = max(1000 // scene.state_rate, 1) if scene.state_rate else 0
        self._disturbed = [(it, round(it.begin * SECOND), round(it.end * SECOND)) for it in scene.disturbances]
        self._was_off = False

    def run(self, script: Sequence[Step]) -> Run:
        sending = self.scene.sending
        events: list[tuple[int, int, str, object]] = []
        for step in script:
            heapq.heappush(events, (round(step.time * SECOND), self._next(), "script", step))
            self.end_ns = max(self.end_ns, round((step.time + _AFTER_S) * SECOND))
        for k, time in enumerate(np.arange(sending.begin, sending.end, 1 / sending.rate)):
            observed = time + self.random.uniform(-0.5, 0.5) * sending.jitter * (k > 0)
            heapq.heappush(events, (round(observed * SECOND), self._next(), "observe", None))
        first = round(BEGIN_S * SECOND) + int(self.random.integers(_TICK_NS))
        heapq.heappush(events, (first, self._next(), "tick", None))
        last_ns = round((sending.end + _LONGEST_END_S) * SECOND)
        while events:
            now_ns, _, what, chunk = heapq.heappop(events)
            if now_ns > min(self.end_ns, last_ns):
                break
            if what != "observe":
                now_ns = max(now_ns, self._node_ns)  # it is busy until then
            self._run_cycles(now_ns)
            self._deliver_states(now_ns)
            if what == "observe":
                self._observe(now_ns, events)
            elif what == "chunk":
                self._answer(now_ns, chunk)
            elif what == "script":
                self._play(now_ns, chunk)
            else:
                self._tick(now_ns)
                heapq.heappush(events, (now_ns + _TICK_NS, self._next(), "tick", None))
        self._run_cycles(min(self.end_ns, last_ns))
        count = self.robot.cycle + 1
        self.log.commands, self.log.off = self.robot.commands[:, :count], self.robot.off[:count]
        self.log.assumed = self.core.assumed()
        return self.log

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _observe(self, now_ns: int, events: list) -> None:
        if self._seen is None:
            return
        chunk = self.policy.chunk(now_ns, self._seen)
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
            heapq.heappush(events, (at_ns, self._next(), "chunk", chunk))
            self.end_ns = max(self.end_ns, at_ns + round(_AFTER_S * SECOND))

    def _answer(self, now_ns: int, chunk: Chunk) -> None:
        done_ns = now_ns + int(self.random.integers(*_PUBLISH_NS))
        self._node_ns = done_ns
        chunk.arrivals_ns.append(now_ns)
        answer = self.core.sequence(ActionFields(chunk.stamp_ns, chunk.space, chunk.dt, chunk.data), now_ns, done_ns)
        self.log.answers.append(Answer(chunk, now_ns, answer))
        if isinstance(answer, Message):
            self._send(answer, done_ns)

    def _play(self, now_ns: int, step: Step) -> None:
        given = step.make(now_ns, self._seen)
        if given is None:
            return
        self._node_ns = done_ns = now_ns + _PUBLISH_NS[0]
        stops = given is STOP
        answer = self.core.stop(now_ns, done_ns) if stops else self.core.sequence(given, now_ns, done_ns)
        self.log.scripted.append((now_ns, answer))
        if isinstance(answer, Message):
            self._send(answer, done_ns)

    def _tick(self, now_ns: int) -> None:
        message = self.core.tick(now_ns)
        if message is not None:
            self._send(message, now_ns)

    def _send(self, message: Message, now_ns: int) -> None:
        arrived_ns = self._arrival("controller", self.scene.to_controller, now_ns)
        sent = Sent(now_ns, arrived_ns, message)
        self._to_controller.append(sent)
        self.log.sent.append(sent)
        ends_ns = (message.stamp_ns or arrived_ns) + int(message.points.time_ns[-1]) + round(_AFTER_S * SECOND)
        self.end_ns = max(self.end_ns, ends_ns)

    def _arrival(self, topic: str, link: Link, now_ns: int) -> int:
        arrived = max(self._last_arrival[topic], now_ns + round(self.random.uniform(link.low, link.high) * SECOND))
        self._last_arrival[topic] = arrived
        return arrived

    def _deliver_states(self, now_ns: int) -> None:
        inbox, joints = self._inbox, self.scene.joints
        while inbox and inbox[0][0] <= now_ns:
            arrived_ns, _, (kind, stamp_ns, values) = heapq.heappop(inbox)
            self._node_ns = arrived_ns = max(arrived_ns, self._node_ns)
            if kind == "joints":
                self._seen = np.stack(values)
                self.core.joint_state(joints, *values, stamp_ns, arrived_ns)
            else:
                self.core.controller_state(stamp_ns, values[0], arrived_ns)

    def _run_cycles(self, until_ns: int) -> None:
        """Run all cycles before a time."""
        robot, waiting = self.robot, self._to_controller
        while robot.now_ns < until_ns:
            now_ns = robot.now_ns
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
            cycle = robot.cycle + 1
            if reading and cycle % self._joints_every == 0:
                arrived_ns = self._arrival("joints", self.scene.from_joints, now_ns)
                heapq.heappush(self._inbox, (arrived_ns, self._next(), ("joints", now_ns, robot.measured())))
            if off:
                robot.skip()
                self._was_off = True
                continue
            if self._was_off:
                robot.restart()
                self._was_off = False
            tells = self._state_every and cycle % self._state_every == 0
            if tells and not self.scene.state_is_next:
                self._tell(now_ns)
            robot.step()
            if tells and self.scene.state_is_next:
                self._tell(now_ns)

    def _tell(self, now_ns: int) -> None:
        arrived_ns = self._arrival("state", self.scene.from_controller, now_ns)
        heapq.heappush(self._inbox, (arrived_ns, self._next(), ("state", now_ns, self.robot.controller_state())))

    def _receive(self, sent: Sent, off: bool) -> None:
        if off:
            sent.refusal = "off"
            return
        now, stamp = sent.arrived_ns / SECOND, sent.message.stamp_ns / SECOND
        taken = self.robot.receive(self.scene.joints, *sent.message.points, now=now, stamp=stamp)
        sent.refusal = "" if taken else self.robot.refusal


def node_parameters(scene: Scene) -> dict[str, object]:
    """What the node is told of a scene."""
    parameters = {
        "publish.lead_time": scene.lead_time,
        "limits.velocity": scene.bounds.velocity.tolist(),
        "limits.position_min": scene.position_min.tolist(),
        "limits.position_max": scene.position_max.tolist(),
    }
    if scene.complete:
        parameters |= {
            "limits.acceleration": scene.bounds.acceleration.tolist(),
            "limits.jerk": scene.bounds.jerk.tolist(),
        }
    return parameters
