"""An arm and the executor in one process, with one simulated clock: runs do not depend on the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kit.arm import Robot
from kit.controller import SECOND
from soak.streams.core import NodeCore
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.requests.inputs import Actions, Positions
from traj_integrator_ros.requests.plan import Plan
from traj_integrator_ros.requests.rejection import Rejected

from .player import Player

BEGIN_S = 10.0
"""Time at which simulations begin, s."""
_BEGIN_NS = round(BEGIN_S * SECOND)
_TICK_NS = 10_000_000
"""Period of the supervision, ns."""
_ACKNOWLEDGED_NS = 6_000_000
"""Time, ns, from a message's arrival until the middleware tells of it: that of Fast DDS on one machine."""
_STOP_NS = 100_000
"""Time in which a stop is computed, ns."""
Span = tuple[float, float]
"""Shortest and longest time, s, between which one is drawn."""


class Refusal(NamedTuple):
    """The node's reason to publish nothing."""

    reason: str
    message: str


Answer = ExecutableTrajectory | Refusal | None
"""What comes of a plan at once; None: it has to wait."""


@dataclass
class Sent:
    """A message to the controller."""

    arrived_ns: int
    message: ExecutableTrajectory
    refusal: str = ""
    """The controller's reason to refuse the message."""


class Simulated(Player):
    """The executor around an arm, with joint states, reports, plans and periodic supervision at their times.

    Rates are Hz, 0 is none; times are s. Messages take a `transport`, those of a topic keep their order, and a plan
    takes a time of `computing`. A report has the command of its own cycle, for its end, if it `report_is_next`, or else
    the one before. Joint states are `late`, and stamped up to a `jitter` later than they are measured; unless it
    `tells`, their stamps are of arrival.
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
        super().__init__(robot, _BEGIN_NS)
        self.core, self.random = core, np.random.default_rng(seed)
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
        self.stall, self.ways = (0.0, 0.0), ("from", "to")
        """Times, s, between which the network carries no messages from, or to, the robot; trajectories then arrive."""
        self._transport, self._computing = transport, computing
        self._jitter, self._late_ns, self._tells = jitter, round(late * SECOND), tells
        self._report_is_next, self._reports_now = report_is_next, False
        self._busy_ns, self._arrived_ns = 0, dict.fromkeys(("states", "reports", "trajectories"), 0)
        core.planner.arrives, self._tried = self._arrives, None
        self._repeat(self._state, round(SECOND / states_hz))
        if reports_hz:
            self._repeat(self._report, round(SECOND / reports_hz))
        self._repeat(self._tick, _TICK_NS)

    @property
    def clock_s(self) -> float:
        """The time by the clock of the robot, s."""
        return self._ns / SECOND

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
        super()._cycle()
        if self._reports_now:
            self._tell_reference(self._ns - self.robot.period)

    def _repeat(self, what: Callable[[int], None], period_ns: int) -> None:
        super()._repeat(what, period_ns, int(self.random.integers(period_ns)))

    def _refused(self, rejected: Rejected, _: Plan | None) -> None:
        self.refused.append((self.now, rejected))

    def _drawn_ns(self, span: Span) -> int:
        return round(self.random.uniform(*span) * SECOND)

    def _sent(self) -> int:
        return self._ns + self._drawn_ns(self._transport)

    def _arrival(self, topic: str, sent_ns: int) -> int:
        self._arrived_ns[topic] = max(self._arrived_ns[topic], sent_ns + self._drawn_ns(self._transport))
        return self._arrived_ns[topic]

    def _stalls(self, *ways: str) -> bool:
        return self.stall[0] <= self.now < self.stall[1] and not {*ways}.isdisjoint(self.ways)

    # The robot's side

    def _state(self, _: int) -> None:
        late_ns = round(self.random.uniform(0.0, self._jitter) * SECOND)
        position, velocity = self.robot.measured()
        if not self._stalls("from") and not self.missing[0] <= self.now < self.missing[1]:
            told_ns = late_ns + (0 if self._tells else self._late_ns)
            given = self._ns + told_ns, position + self.slip + self.misread, velocity
            self.misread = 0.0
            self._later(self._arrival("states", self._ns + late_ns + self._late_ns), self._take_state, *given)

    def _report(self, _: int) -> None:
        self._reports_now = self._report_is_next
        if not self._reports_now:
            self._tell_reference(self._ns)

    def _tell_reference(self, at_ns: int) -> None:
        self._reports_now = False
        if not self.robot.off and not self._stalls("from"):
            reference = tuple(part.copy() for part in self.robot.reference.parts)
            self._later(self._arrival("reports", at_ns), self._take_report, at_ns, reference, self.robot.scaling)

    def _received(self, at_ns: int, sent: Sent) -> None:
        made = sent.message
        if self.robot.off:
            sent.refusal = "off"
        elif not self.robot.receive(self.robot.joints, *made.points, now_ns=at_ns, stamp_ns=made.stamp_ns):
            sent.refusal = self.robot.refusal

    # The node's side

    def _take_state(self, at_ns: int, stamp_ns: int, position: np.ndarray, velocity: np.ndarray) -> None:
        self._busy_ns = max(at_ns, self._busy_ns)
        self.seen = np.stack([position, velocity])
        with suppress(Rejected):  # An older stamp than that of another publisher is ignored.
            self.core.joint_state(position, velocity, self._busy_ns, stamp_ns)

    def _take_report(self, at_ns: int, stamp_ns: int, reference: tuple[np.ndarray, ...], scaling: float) -> None:
        self._busy_ns = max(at_ns, self._busy_ns)
        self.core.report(ControllerReport(stamp_ns, State(*reference).known, scaling), self._busy_ns)

    def _tick(self, at_ns: int) -> None:
        self._busy_ns = max(at_ns, self._busy_ns)
        self._publish(self.core.tick(self._busy_ns), self._busy_ns)

    def _arrives(self, message: ExecutableTrajectory | None) -> bool:
        """Send the motion in execution once more, and return whether the middleware has told that it arrived."""
        if message is not None and self._tried is not message.motion:
            self._publish(message, self._busy_ns)
            self._tried = message.motion
        return not self._stalls("from") and self._ns >= self._arrived_ns["trajectories"] + _ACKNOWLEDGED_NS

    def _publish(self, made: ExecutableTrajectory | None, at_ns: int) -> ExecutableTrajectory | None:
        if made is None:
            return None
        self._tried = None
        if self._stalls("to"):
            at_ns = _BEGIN_NS + round(self.stall[1] * SECOND)
        sent = Sent(self._arrival("trajectories", at_ns), made)
        self.sent.append(sent)
        self._later(sent.arrived_ns, self._received, sent)
        return made
