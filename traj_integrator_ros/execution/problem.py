"""The problem of joining: a state that the controller commands, a plan, and the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .bounds import Bounds
from .limits import extremes
from .motion import SHORTEST_GAP, Motion, State
from .stopping import Rates, fastest_stop, peak_speed
from .tolerances import SAME, SAME_END_RAD, STANDS_RAD_S

_CLOSING_S = 5.0
"""A joint catches up fast enough to close a gap within this time, even if its plan is slow."""
_SLOWEST = 0.01
"""Share of the largest velocity that a joint may always use to catch up."""


CROSSING = 1.7
"""Factor on an assumed limit of jerk: going over from one spline of a plan to another asks for so many times the
jerk of each where the plan has corners.
"""


@dataclass(frozen=True)
class Joining:
    """How plans are joined."""

    fade_times: Sequence[float]
    """s, tried in this order."""
    catch_up: float
    """Largest speed while joining, relative to the plan's largest from row to row."""


_MOST_WORK = 90
"""Work of some 5 ms, which a sequence may take on an idle core."""


@dataclass
class Work:
    """Remaining work of a search, in candidates of one joint that are tried (some 50 us each).

    A count, not a clock: the same is found wherever and whenever it is sought.
    """

    left: int = _MOST_WORK

    def spend(self, by: int = 1) -> bool:
        """Count work that takes as long as so many candidates; return whether as much was left."""
        self.left -= by
        return self.left >= 0


@dataclass  # not frozen: making that takes longer than to see that nothing has to be joined
class Problem:
    """A join from a commanded state to a plan; must not be changed."""

    present: State
    """The commanded state when the plan begins, with an acceleration."""
    plan: Motion
    """The plan, from its begin on; it is joined after `plan_from` and, unless it rests at its end, before that."""
    bounds: Bounds
    """The bounds that hold for the plan."""
    joining: Joining
    floating: np.ndarray | bool = False
    """Joints whose plan is about velocities, bool `[D]`: it is shifted to where they have reached them."""
    executed: Motion | None = None
    """The motion that would be executed from the present state on without the plan; None: not known."""
    crossing: np.ndarray | None = None
    """Jerk, rad/s^3, `[D]`, that going over from the plan before may ask for; None: as the bounds say."""
    plan_pace: np.ndarray | float = np.inf
    """Speed, rad/s, `[D]`, that the whole plan goes at; infinite: it is a goal, gone to as fast as limits allow."""
    work: Work = field(default_factory=Work)
    """Work left for better joins; each joint is joined in any case."""

    lack: np.ndarray = field(init=False)
    """Position, velocity and acceleration of the present state beyond the plan's, `[3, D]`."""
    beyond: np.ndarray = field(init=False)
    """Flags of differences that are more than rounding, bool `[3, D]`."""

    def __post_init__(self) -> None:
        self.lack = self.present.beyond(self.plan.begin)
        if not self.plan.with_accelerations:
            self.lack[2] = 0.0  # it jumps anyway
        self.beyond = np.abs(self.lack) > SAME

    @property
    def jumps_only(self) -> bool:
        """True if the present state is on the plan but for its acceleration."""
        return self.plan.plan_from <= 0 and not np.count_nonzero(self.beyond[:2])

    @cached_property
    def floats(self) -> np.ndarray:
        """Joints that float, and have not reached the velocities of their plan, bool `[D]`."""
        return self.floating & self.beyond[1:].any(axis=0)

    @property
    def moves(self) -> np.ndarray:
        """Joints whose plan moves, bool `[D]`."""
        return self._speeds[0] > STANDS_RAD_S

    @property
    def pace(self) -> np.ndarray:
        """Speed, rad/s, `[D]`, of joints that are already on their way to where the plan ends; infinite of others."""
        if self.executed is None:
            return np.full(self.plan.dof, np.inf)
        least, most = extremes(self.executed)
        same = np.abs(self.executed.end.position - self.plan.end.position) <= SAME_END_RAD
        return np.where(same, np.maximum(most[1], -least[1]), np.inf)

    @cached_property
    def caps(self) -> np.ndarray:
        """Largest speed of each joint while it joins, rad/s, `[D]`."""
        (own, peak), bounds = self._speeds, self.bounds
        speed = peak_speed(self.present.velocity, self.present.acceleration, bounds.jerk)
        closing = np.maximum(np.abs(self.lack[0]) / _CLOSING_S + _SLOWEST * bounds.velocity, speed)
        own_pace = np.maximum(self.joining.catch_up * own, peak)
        resting = np.minimum(self.joining.catch_up * self.plan_pace, self.pace)
        pace = own_pace if self.moves.all() else np.where(self.moves, own_pace, resting)
        return np.minimum(np.maximum(pace, closing), bounds.velocity)

    @cached_property
    def _speeds(self) -> tuple[np.ndarray, np.ndarray]:
        """Largest mean speed of the plan's pieces, `[D]`, and the largest speed of the plan and its brake.

        A spline that rings is faster than its plan, which is not to be caught up with at even more. Nor does the first
        piece show how fast a plan of positions is: it leads from the plan before, wherever that is.
        """
        plan, knots = self.plan, self.plan.knots
        begin = max(plan.plan_from, float(knots[1]))
        last = max(int(knots.searchsorted(min(plan.plan_until, plan.duration) - SHORTEST_GAP)), 1)
        rows = plan.coefficients[: last + 1, 0]
        if last == len(plan.coefficients):
            rows = np.vstack([rows, plan.end.position])
        means = np.abs(rows[1:] - rows[:-1]) / (knots[1 : last + 1] - knots[:last])[:, None]
        first = int(knots.searchsorted(begin - SHORTEST_GAP))
        own = means[min(first, last - 1) :].max(axis=0)
        least, most = extremes(plan.from_time(begin) if begin < plan.duration else plan)
        return np.where(self.floats, means.max(axis=0), own), np.maximum(most[1], -least[1])

    @cached_property
    def stopping(self) -> np.ndarray:
        """Least and greatest positions during the fastest stop, `[2, D]`, rad; infinite where none is found."""
        try:
            return extremes(fastest_stop(self.present, self.bounds))[:, 0]
        except ValueError:
            return np.array([[-np.inf], [np.inf]]) * np.ones(self.plan.dof)

    def start(self, joint: int) -> np.ndarray:
        """The present state of one joint, `[3]`."""
        return np.array([part[joint] for part in self.present])

    def rates_of(self, joint: int) -> Rates:
        """Its rates while it joins, whether it speeds up or slows down."""
        either = float(self.bounds.either[joint])
        return Rates(float(self.caps[joint]), either, float(self.bounds.jerk[joint]), either)
