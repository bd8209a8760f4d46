"""A physical arm and the executor in one process, with one simulated clock: runs do not depend on the machine."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from kit.controller import SECOND
from soak.streams.core import NodeCore
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.supervision import Guard
from traj_integrator_ros.requests.inputs import Actions, Positions
from traj_integrator_ros.requests.plan import Plan
from traj_integrator_ros.requests.rejection import Rejected

from .robot import PhysicalRobot

_BEGIN_NS = 10 * SECOND
"""Time at which the simulation begins, ns."""
_TICK_NS = 10_000_000
"""Period of the supervision, ns."""
_TRANSPORT_NS = 1_000_000
"""Delay from a sender to its receiver, ns."""
_COMPUTED_NS = 300_000
"""Time, ns, in which a motion is computed from a plan."""


class Log(NamedTuple):
    """Record of the motion, cycle by cycle."""

    time: np.ndarray
    command: np.ndarray
    place: np.ndarray
    speed: np.ndarray
    force: np.ndarray
    """Forces of contacts, N."""


class Loop:
    """The executor around an arm, with joint states, reports, plans and periodic supervision at their times.

    Args:
        robot: the arm, at rest.
        states_hz: rate of joint states.
        reports_hz: rate of the controller's reports; 0: none.
        jitter: largest lateness of stamps of joint states, s.
        late: delay of joint states, s.
        tells: whether stamps are the time of measurement, not of arrival.
        seed: seed of the jitter.
        parameters: parameters of the node.

    """

    def __init__(
        self,
        robot: PhysicalRobot,
        *,
        states_hz: float = 250.0,
        reports_hz: float = 50.0,
        jitter: float = 0.002,
        late: float = 0.0,
        tells: bool = True,
        seed: int = 5,
        **parameters: object,
    ) -> None:
        arm = robot.arm
        limits = {
            f"limits__{name}": list(map(float, getattr(arm, of)))
            for name, of in (("velocity",) * 2, ("acceleration",) * 2, ("jerk",) * 2, ("position_min", "low"),
                             ("position_max", "high"))
        }  # fmt: skip
        self.robot, self.random = robot, np.random.default_rng(seed)
        self.refused: list[tuple[float, Rejected]] = []
        self.core = NodeCore(arm.joints, self._refused, **{"start_from": "previous", **limits, **parameters})
        self.sent: list[float] = []
        self._jitter, self._late_ns, self._tells = jitter, round(late * SECOND), tells
        self.slip: np.ndarray | float = 0.0
        """Error of the encoders, rad, `[dof]`."""
        self.misread: np.ndarray | float = 0.0
        """Error of the next joint state alone, rad, `[dof]`."""
        self.missing = (0.0, 0.0)
        """Times, s, between which no joint state is sent."""
        self.stall = (0.0, 0.0)
        """Times, s, between which the network carries no messages; trajectories arrive at the end."""
        self._ns, self._numbers, self._events = _BEGIN_NS, itertools.count(), []
        self._rows: list[tuple] = []
        self._repeat(self._state, round(SECOND / states_hz))
        if reports_hz:
            self._repeat(self._report, round(SECOND / reports_hz))
        self._repeat(self._tick, _TICK_NS)

    @property
    def guard(self) -> Guard:
        """The supervision."""
        return self.core.published.guard

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
            until_ns = self._ns + self.robot.period
            while self._events and self._events[0][0] < until_ns:
                at_ns, _, what, *given = heapq.heappop(self._events)
                what(at_ns, *given)
            command = self.robot.update(self._ns)
            q, v = self.robot.output()
            self._rows.append((self.now, command[0], q, v, self.robot.contact))
            self._ns = until_ns

    def log(self, begin: float = 0.0, end: float = np.inf) -> Log:
        """The cycles between two times."""
        rows = [row for row in self._rows if begin <= row[0] <= end]
        return Log(*(np.array(column) for column in zip(*rows, strict=True)))

    def sequence(self, rows: np.ndarray, dt: float, *, space: int = 1, since: float | None = None,
                 start: Sequence[np.ndarray] = ()) -> None:  # fmt: skip
        """Send a chunk whose first step begins now, or at a time, s."""
        stamp_ns = self._ns if since is None else _BEGIN_NS + round(since * SECOND)
        self._ask(self.core.execute, Actions(stamp_ns, space, dt, rows, start))

    def plan(self, times: np.ndarray, *rows: np.ndarray, end: str | None = None) -> None:
        """Send positions, and perhaps velocities and accelerations, at times."""
        self._ask(self.core.execute, Positions(0, times, *rows, end=end))

    def stop(self, hold: bool = False) -> ExecutableTrajectory | None:
        """Call ~/stop."""
        made = self.core.stop(self._ns, hold)
        self._publish(made, self._ns)
        return made

    def reasons(self, since: float = 0.0) -> list[str]:
        """Return the reasons for which plans were refused, each once."""
        return sorted({rejected.reason.value for at, rejected in self.refused if at >= since})

    def _repeat(self, what: Callable[[int], None], period_ns: int) -> None:
        def again(at_ns: int) -> None:
            what(at_ns)
            heapq.heappush(self._events, (at_ns + period_ns, next(self._numbers), again))

        first_ns = self._ns + int(self.random.integers(period_ns))
        heapq.heappush(self._events, (first_ns, next(self._numbers), again))

    def _later(self, at_ns: int, what: Callable[..., None], *given: object) -> None:
        heapq.heappush(self._events, (at_ns, next(self._numbers), what, *given))

    def _state(self, at_ns: int) -> None:
        late_ns = round(self.random.uniform(0.0, self._jitter) * SECOND)
        position, velocity = self.robot.measured()
        if not self._stalls(at_ns) and not self.missing[0] <= self.now < self.missing[1]:
            told_ns = late_ns + (0 if self._tells else self._late_ns)
            given = self._ns + told_ns, position + self.slip + self.misread, velocity
            self.misread = 0.0
            self._later(at_ns + late_ns + self._late_ns + _TRANSPORT_NS, self._take_state, *given)

    def publishes_too(self, position: np.ndarray, hz: float) -> None:
        """Let a second publisher of joint states send a position, rad, periodically."""
        self._repeat(lambda at_ns: self._take_state(at_ns, at_ns, position, 0 * position), round(SECOND / hz))

    def _stalls(self, at_ns: int) -> bool:
        begin, end = self.stall
        return begin <= (at_ns - _BEGIN_NS) / SECOND < end

    def _take_state(self, at_ns: int, stamp_ns: int, position: np.ndarray, velocity: np.ndarray) -> None:
        with suppress(Rejected):  # An older stamp than that of another publisher is ignored.
            self.core.joint_state(position, velocity, at_ns, stamp_ns)

    def _report(self, at_ns: int) -> None:
        if not self.robot.off and not self._stalls(at_ns):
            reference = tuple(part.copy() for part in self.robot.reference.parts)
            self._later(at_ns + _TRANSPORT_NS, self._take_report, self._ns, reference)

    def _take_report(self, at_ns: int, stamp_ns: int, reference: tuple[np.ndarray, ...]) -> None:
        self.core.controller_state(stamp_ns, reference, at_ns)

    def _tick(self, at_ns: int) -> None:
        self._publish(self.core.tick(at_ns), at_ns)

    def _ask(self, execute: Callable[..., ExecutableTrajectory | None], plan: Actions | Positions) -> None:
        self._later(self._ns + _TRANSPORT_NS, self._asked, execute, plan)

    def _asked(self, at_ns: int, execute: Callable[..., ExecutableTrajectory | None], plan: object) -> None:
        done_ns = at_ns + _COMPUTED_NS
        try:
            self._publish(execute(plan, at_ns, lambda: done_ns), done_ns)
        except Rejected as rejected:
            self._refused(rejected, None)

    def _refused(self, rejected: Rejected, _: Plan | None) -> None:
        self.refused.append((self.now, rejected))

    def _publish(self, made: ExecutableTrajectory | None, at_ns: int) -> None:
        if made is not None:
            self.sent.append(self.now)
            arrives_ns = _BEGIN_NS + round(self.stall[1] * SECOND) if self._stalls(at_ns) else at_ns
            self._later(arrives_ns + _TRANSPORT_NS, self._received, made.stamp_ns, made.points)

    def _received(self, at_ns: int, stamp_ns: int, points: tuple) -> None:
        taken = self.robot.off or self.robot.receive(self.robot.joints, *points, now_ns=at_ns, stamp_ns=stamp_ns)
        if not taken and not self.stall[1]:  # a trajectory that a stall delayed may end in the past
            raise AssertionError(f"the controller refused a trajectory: {self.robot.refusal}")
