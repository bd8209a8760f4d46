"""An arm and the executor in one process, with one simulated clock: runs do not depend on the machine."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kit.arm import Robot
from kit.controller import SECOND
from soak.streams.core import Message, NodeCore
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.requests.inputs import Actions, Positions
from traj_integrator_ros.requests.plan import Plan
from traj_integrator_ros.requests.rejection import Rejected

BEGIN_S = 10.0
"""Time at which simulations begin, s."""
_BEGIN_NS = round(BEGIN_S * SECOND)
_TICK_NS = 10_000_000
"""Period of the supervision, ns."""
_STOP_NS = 100_000
"""Time in which a stop is computed, ns."""
Span = tuple[float, float]
"""Shortest and longest time, s, between which one is drawn."""


class Refusal(NamedTuple):
    """The node's reason to publish nothing."""

    reason: str
    message: str


Answer = Message | Refusal | None
"""What comes of a plan at once; None: it has to wait."""


@dataclass
class Sent:
    """A message to the controller."""

    arrived_ns: int
    message: Message
    refusal: str = ""
    """The controller's reason to refuse the message."""


class Row(NamedTuple):
    """One cycle: its time, the command for its end (position, velocity, acceleration), and what became of it then."""

    time: float
    command: np.ndarray
    place: np.ndarray
    speed: np.ndarray
    off: bool
    """True if there was no controller."""
    force: float
    """Force of a contact, N."""


class Simulated:
    """The executor around an arm, with joint states, reports, plans and periodic supervision at their times.

    Args:
        robot: the arm, at rest.
        core: the executor.
        states_hz: rate of joint states.
        reports_hz: rate of the controller's reports; 0: none.
        report_is_next: whether a report has the command of its own cycle, for its end, and not the one before.
        transport: time of each message on its way, s; messages of a topic keep their order.
        computing: time from a plan to its trajectory, s.
        jitter: largest lateness of stamps of joint states, s.
        late: delay of joint states, s.
        tells: whether stamps are the time of measurement, not of arrival.
        seed: seed of what is drawn.

    """

    def __init__(
        self,
        robot: Robot,
        core: NodeCore,
        *,
        states_hz: float = 250.0,
        reports_hz: float = 50.0,
        report_is_next: bool = False,
        transport: Span = (1e-3, 1e-3),
        computing: Span = (3e-4, 3e-4),
        jitter: float = 0.0,
        late: float = 0.0,
        tells: bool = True,
        seed: object = 5,
    ) -> None:
        self.robot, self.core, self.random = robot, core, np.random.default_rng(seed)
        self.sent: list[Sent] = []
        self.refused: list[tuple[float, Rejected]] = []
        """Times, s, and reasons of plans that were refused."""
        self.seen: np.ndarray | None = None
        """Position and velocity of the latest joint state that the node has, `[2, dof]`."""
        self.slip: np.ndarray | float = 0.0
        """Error of the encoders, rad, `[dof]`."""
        self.misread: np.ndarray | float = 0.0
        """Error of the next joint state alone, rad, `[dof]`."""
        self.missing = (0.0, 0.0)
        """Times, s, between which no joint state is sent."""
        self.stall = (0.0, 0.0)
        """Times, s, between which the network carries no messages; trajectories arrive at the end."""
        self.rows: list[Row] = []
        self._transport, self._computing = transport, computing
        self._jitter, self._late_ns, self._tells = jitter, round(late * SECOND), tells
        self._report_is_next, self._reports_now = report_is_next, False
        self._ns, self._numbers, self._events = _BEGIN_NS, itertools.count(), []
        self._busy_ns, self._arrived_ns = 0, dict.fromkeys(("states", "reports", "trajectories"), 0)
        self._repeat(self._state, round(SECOND / states_hz))
        if reports_hz:
            self._repeat(self._report, round(SECOND / reports_hz))
        self._repeat(self._tick, _TICK_NS)

    @property
    def now(self) -> float:
        """The time, s from the beginning."""
        return (self._ns - _BEGIN_NS) / SECOND

    @property
    def clock_s(self) -> float:
        """The time by the clock of the robot, s."""
        return self._ns / SECOND

    @property
    def place(self) -> np.ndarray:
        """The present command."""
        return self.robot.reference.position.copy()

    def go(self, seconds: float, every: float = 0.0, send: Callable[[], None] | None = None) -> None:
        """Let time pass, and call `send` periodically."""
        end_ns, next_ns = self._ns + round(seconds * SECOND), self._ns
        while self._ns < end_ns:
            if send is not None and self._ns >= next_ns:
                send()
                next_ns += round(every * SECOND)
            self._cycle()

    def sequence(self, rows: np.ndarray, dt: float, *, space: int = 1, since: float | None = None,
                 start: Sequence[np.ndarray] = ()) -> None:  # fmt: skip
        """Send a chunk whose first step begins now, or at a time, s."""
        stamp_ns = self._ns if since is None else _BEGIN_NS + round(since * SECOND)
        self._later(self._sent(), self.answer, Actions(stamp_ns, space, dt, rows, start))

    def plan(self, times: np.ndarray, *rows: np.ndarray, end: str | None = None) -> None:
        """Send positions, and perhaps velocities and accelerations, at times."""
        self._later(self._sent(), self.answer, Positions(0, times, *rows, end=end))

    def stop(self, hold: bool = False) -> ExecutableTrajectory | None:
        """Call ~/stop."""
        self._busy_ns = max(self._ns, self._busy_ns) + _STOP_NS
        made = self.core.stop(self._busy_ns - _STOP_NS, hold)
        self._publish(made, self._busy_ns)
        return made

    def answer(self, at_ns: int, plan: Actions | Positions) -> Answer:
        """Let the node execute a plan that has arrived."""
        at_ns = max(at_ns, self._busy_ns)
        done_ns = self._busy_ns = at_ns + self._drawn_ns(self._computing)
        try:
            return self._publish(self.core.execute(plan, at_ns, lambda: done_ns), done_ns)
        except Rejected as rejected:
            self._refused(rejected, None)
            return Refusal(rejected.reason.value, rejected.message)

    def publishes_too(self, position: np.ndarray, hz: float) -> None:
        """Let a second publisher of joint states send a position, rad, periodically."""
        self._repeat(lambda at_ns: self._take_state(at_ns, at_ns, position, 0 * position), round(SECOND / hz))

    def reasons(self, since: float = 0.0) -> list[str]:
        """Return the reasons for which plans were refused since a time, s, each once."""
        return sorted({rejected.reason.value for at, rejected in self.refused if at >= since})

    def _cycle(self) -> None:
        while self._events and self._events[0][0] <= self._ns:
            at_ns, _, what, *given = heapq.heappop(self._events)
            what(at_ns, *given)
        time, off = self.now, self.robot.off
        command = self.robot.update(self._ns)
        self.rows.append(Row(time, command, *self.robot.output(), off, self.robot.contact))
        if self._reports_now:
            self._tell_reference()
        self._ns += self.robot.period

    def _later(self, at_ns: int, what: Callable[..., None], *given: object) -> None:
        """Call a function at a time, ns by the clock of the robot, with that time and what is given."""
        heapq.heappush(self._events, (at_ns, next(self._numbers), what, *given))

    def _repeat(self, what: Callable[[int], None], period_ns: int) -> None:
        def again(at_ns: int) -> None:
            what(at_ns)
            self._later(at_ns + period_ns, again)

        self._later(self._ns + int(self.random.integers(period_ns)), again)

    def _refused(self, rejected: Rejected, _: Plan | None) -> None:
        self.refused.append((self.now, rejected))

    def _drawn_ns(self, span: Span) -> int:
        return round(self.random.uniform(*span) * SECOND)

    def _sent(self) -> int:
        return self._ns + self._drawn_ns(self._transport)

    def _arrival(self, topic: str, sent_ns: int) -> int:
        self._arrived_ns[topic] = max(self._arrived_ns[topic], sent_ns + self._drawn_ns(self._transport))
        return self._arrived_ns[topic]

    def _stalls(self) -> bool:
        return self.stall[0] <= self.now < self.stall[1]

    # The robot's side

    def _state(self, _: int) -> None:
        late_ns = round(self.random.uniform(0.0, self._jitter) * SECOND)
        position, velocity = self.robot.measured()
        if not self._stalls() and not self.missing[0] <= self.now < self.missing[1]:
            told_ns = late_ns + (0 if self._tells else self._late_ns)
            given = self._ns + told_ns, position + self.slip + self.misread, velocity
            self.misread = 0.0
            self._later(self._arrival("states", self._ns + late_ns + self._late_ns), self._take_state, *given)

    def _report(self, _: int) -> None:
        self._reports_now = self._report_is_next
        if not self._reports_now:
            self._tell_reference()

    def _tell_reference(self) -> None:
        self._reports_now = False
        if not self.robot.off and not self._stalls():
            reference = tuple(part.copy() for part in self.robot.reference.parts)
            self._later(self._arrival("reports", self._ns), self._take_report, self._ns, reference)

    def _received(self, at_ns: int, sent: Sent) -> None:
        stamp_ns, points, _ = sent.message
        if self.robot.off:
            sent.refusal = "off"
        elif not self.robot.receive(self.robot.joints, *points, now_ns=at_ns, stamp_ns=stamp_ns):
            sent.refusal = self.robot.refusal

    # The node's side

    def _take_state(self, at_ns: int, stamp_ns: int, position: np.ndarray, velocity: np.ndarray) -> None:
        self._busy_ns = max(at_ns, self._busy_ns)
        self.seen = np.stack([position, velocity])
        with suppress(Rejected):  # An older stamp than that of another publisher is ignored.
            self.core.joint_state(position, velocity, self._busy_ns, stamp_ns)

    def _take_report(self, at_ns: int, stamp_ns: int, reference: tuple[np.ndarray, ...]) -> None:
        self._busy_ns = max(at_ns, self._busy_ns)
        self.core.controller_state(stamp_ns, reference, self._busy_ns)

    def _tick(self, at_ns: int) -> None:
        self._busy_ns = max(at_ns, self._busy_ns)
        self._publish(self.core.tick(self._busy_ns), self._busy_ns)

    def _publish(self, made: ExecutableTrajectory | None, at_ns: int) -> Message | None:
        if made is None:
            return None
        if self._stalls():
            at_ns = _BEGIN_NS + round(self.stall[1] * SECOND)
        sent = Sent(self._arrival("trajectories", at_ns), Message.of(made))
        self.sent.append(sent)
        self._later(sent.arrived_ns, self._received, sent)
        return sent.message
