"""One trajectory as its sender planned it, what is published of it, and the average of overlapping chunks. No ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..engine.call import Ends
from ..execution.motion import Motion, State, resting
from ..execution.rows import Points, action_steps, cubic_spline
from ..kernels import AccelerationIntegrator, ControlMap, ControlSpace, SplineForm
from .rejection import Rejected, RejectionReason
from .requests import ActionRequest

if TYPE_CHECKING:  # it imports this
    from .courses import Course

GOALS = "follow_joint_trajectory"
"""The `topic` of plans that are goals of the action."""
_MOST_CHUNKS = 128
"""Most chunks that are remembered; more than ACT needs at most: chunks of 100 actions, one with each action."""
_SAME_TIME_NS = 1_000
_MOMENT_S = 1e-6
_NANOSECOND_S = 1e-9
_SHORTEST_REST_S = 1e-6
"""A step with less time left counts as over: points closer together than this are of no use to a controller."""


@dataclass(frozen=True)
class Plan:
    """One planned trajectory, in the node's joint order; the arrays must not be changed."""

    map: ControlMap
    """Its kernel makes the rows of the actions."""
    steps: np.ndarray
    """Length of each step, s, in whole nanoseconds, `[H]`; none for a position trajectory of one point at time 0."""
    actions: np.ndarray
    """float64 `[H, dof]`; NaN for joints that a position trajectory leaves out: they hold their position."""
    start: State | None
    """State at the origin; None: the robot's own state. NaN as in actions."""
    origin_ns: int
    """When the first step begins, ns of the node's clock; 0: when the trajectory starts."""
    spline: SplineForm | None = None
    """Form of the spline if the actions are control points; steps are then segments."""
    goal: State | None = None
    """For a spline: the state in which it ends."""
    left_out: np.ndarray | None = None
    """Joints that a position trajectory does not name, bool `[dof]`; None: it names all."""
    untimed: bool = False
    """Whether its actions are a path without times: it has no steps, and is passed as fast as limits allow."""
    stamp_ns: int = 0
    """Of the message, which is told where it is refused, ns."""
    topic: str = "action_sequence"
    """Where the message came."""
    is_complete: bool = False
    """Whether it ends at rest at its last position, which is its goal; otherwise another plan may follow."""
    velocities: np.ndarray | None = None
    """Of a complete plan: at the end of each step, rad/s, `[H, dof]`, NaN as in actions; None: not given."""
    accelerations: np.ndarray | None = None
    """Likewise, rad/s^2."""
    received_ns: int = 0
    """When it came, ns of the node's clock."""
    making: float = 0.0
    """How long its trajectory takes to be made, s, beyond what publish.lead_time allows for."""

    @cached_property
    def ends(self) -> np.ndarray:
        """End of each step, s from the origin, `[H]`."""
        return self.steps.cumsum()

    @property
    def is_positions(self) -> bool:
        """Whether actions are positions at the ends of steps."""
        return self.map.control_space is ControlSpace.POSITION

    @property
    def is_velocities(self) -> bool:
        """Whether actions are mean velocities of steps."""
        return self.map.control_space is ControlSpace.VELOCITY

    @property
    def holds_accelerations(self) -> bool:
        """Whether actions are accelerations that are held over steps, which semi-implicit Euler does not."""
        is_acceleration = self.map.control_space is ControlSpace.ACCELERATION
        return is_acceleration and self.map.schemes["acceleration_integrator"] == AccelerationIntegrator.ZOH.value

    @property
    def is_chunk(self) -> bool:
        """Whether its actions are positions at times of the clock, for which other chunks may have positions, too."""
        return bool(self.origin_ns) and self.is_positions and not (self.untimed or self.is_complete)

    @property
    def duration(self) -> float:
        """Duration of all steps, s."""
        return float(self.ends[-1]) if len(self.steps) else 0.0

    def completed(self, before: Motion, turning: np.ndarray) -> Plan:
        """The same with left-out joints resting where a motion ends, and `turning` joints, `[dof]`, near it."""
        if self.left_out is None and not np.count_nonzero(turning):
            return self
        position, start, actions = before.end.position, self.start, self.actions
        changes: dict[str, object] = {}
        if start is not None:
            where = turned(_filled(start.position, position), position, turning)
            rates = (None if part is None else _filled(part, 0.0) for part in start[1:])
            changes["start"] = start = State(where, *rates)
        if (self.is_positions or self.spline is not None) and len(actions):
            actions = _filled(actions, position)
            if np.count_nonzero(turning):
                rows = np.vstack([position if start is None else start.position, actions])
                rows[:, turning] = np.unwrap(rows[:, turning], axis=0)
                actions = rows[1:]
            changes["actions"] = actions
        if self.goal is not None and len(actions):
            changes["goal"] = self.goal._replace(position=turned(self.goal.position, actions[-1], turning))
        for name in ("velocities", "accelerations"):
            if (values := getattr(self, name)) is not None:
                changes[name] = _filled(values, 0.0)
        return replace(self, **changes)


def _filled(values: np.ndarray, otherwise: np.ndarray | float) -> np.ndarray:
    """Values with others where they are not a number."""
    return np.where(np.isnan(values), otherwise, values)


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion to be published: its points, its start, and how it follows the previous motion."""

    motion: Motion
    """From the controller's present command on."""
    points: Points
    start_ns: int
    """When the motion starts, ns of the node's clock; the stamp of the message."""
    due_ns: int
    """When the plan is taken up: the controller must have received the message by then."""
    course: Course
    """The plan that the motion leads to."""
    known_from_ns: int
    """The controller executes the motion from here on; later than now where it comes to the first point by itself."""
    brakes_at: float = np.inf
    """When the plan ends and a brake begins, s from the start; infinite: there is no brake."""
    own_until: float = np.inf
    """s from the start; see `Course`."""
    delay: float = 0.0
    """By how much the plan was slowed to keep its limits, s."""
    dropped: int = 0
    """Number of steps that were over at its start."""
    seam: State | None = None
    """Difference of the command from the plan when it is taken up; None if nothing was in execution."""
    origin_ns: int = 0
    """When the plan's first step began according to its sender, ns; 0: unknown."""
    topic: str = ""
    """Where its plan came; empty: it is a stop."""
    received_ns: int = 0
    """When its plan came, ns."""
    chunk: Plan | None = None
    """The chunk as the policy sent it, to be averaged with later ones; None if chunks are not averaged."""


def plan_of_sequence(
    request: ActionRequest, row: int, default_dt: float, origin_ns: int, stamp_ns: int = 0, now_ns: int = 0
) -> Plan:
    """Return one trajectory of a checked sequence as a plan.

    Args:
        request: with actions.
        row: of the batch.
        default_dt: s, used if the sequence gives none.
        origin_ns: when the first step begins, ns; 0: when the trajectory starts.
        stamp_ns: of the sequence.
        now_ns: when it came.

    """
    dt = request.dt
    if isinstance(dt, np.ndarray) and dt.ndim == 2:
        dt = dt[row]
    actions, goal = request.actions[row].astype(np.float64), _state_of(request.goal, row)
    start = _state_of(request.start, row)
    spline, came = request.spline, {"stamp_ns": stamp_ns, "received_ns": now_ns}
    if spline is not None:
        step = default_dt if dt is None else _decimal(dt).ravel()[0]
        segments = _whole_nanoseconds(np.full(spline.segments(request.horizon), spline.steps * step))
        return Plan(request.control_map, segments, actions, start, origin_ns, spline, goal, **came)
    if goal is not None:  # later rows would only lead away from the goal
        actions[request.control_map.goal_place :] = goal.position
    if dt is None:
        steps = _equal_steps(default_dt, True, request.horizon)
    elif isinstance(dt, float):
        steps = _equal_steps(dt, False, request.horizon)
    else:
        steps = _whole_nanoseconds(action_steps(_decimal(dt), request.horizon))
    return Plan(request.control_map, steps, actions, start, origin_ns, **came)


@lru_cache(maxsize=32)
def _equal_steps(dt: float, is_exact: bool, horizon: int) -> np.ndarray:
    """Steps of one length, in whole nanoseconds; cached, so they must not be changed."""
    steps = _whole_nanoseconds(action_steps(dt if is_exact else _decimal(dt), horizon))
    steps.flags.writeable = False
    return steps


def _whole_nanoseconds(steps: np.ndarray) -> np.ndarray:
    return np.maximum(np.rint(steps * 1e9), 1) * 1e-9


def _decimal(dt: np.ndarray | float) -> np.ndarray:
    """Step lengths in float64; those from float32 rounded to 7 digits: 0.05 s is 50 ms to the nanosecond."""
    if isinstance(dt, np.ndarray) and dt.dtype == np.float64:
        return dt
    dt = np.asarray(dt, np.float64)
    scale = 10.0 ** (6 - np.floor(np.log10(dt)))
    return np.rint(dt * scale) / scale


def _state_of(ends: Ends, row: int) -> State | None:
    """State of a trajectory from the rows; an acceleration that the sequence does not give is unknown."""
    if not ends.rows:
        return None
    index = min(row, ends.count - 1) if ends.index is None else int(ends.index[row])
    given = [None if values is None else values[index].astype(np.float64) for values in ends.rows]
    position, velocity, acceleration = given + [None] * (3 - len(given))
    return State(position, np.zeros(position.shape) if velocity is None else velocity, acceleration)


def turned(position: np.ndarray, near: np.ndarray, turning: np.ndarray) -> np.ndarray:
    """Positions `[dof]`, those of joints that turn on and on, bool `[dof]`, by whole turns next to others."""
    if not np.count_nonzero(turning):
        return position
    return position + np.where(turning, 2 * np.pi * np.rint((near - position) / (2 * np.pi)), 0.0)


def schedule(plan: Plan, earliest_ns: int, now_ns: int, longest_wait: float) -> tuple[float, int]:
    """How long a plan waits from the earliest start on, s, and how many of its steps are over then.

    Args:
        plan: without an origin or steps, it begins at once.
        earliest_ns: the earliest time at which a motion can start.
        now_ns: the node's clock.
        longest_wait: longest time from now until the plan begins, s.

    Raises:
        Rejected: stale_sequence, if all steps are over at the start; future_sequence.

    """
    into = (earliest_ns - plan.origin_ns) * _NANOSECOND_S
    if not plan.origin_ns or not (len(plan.steps) or plan.untimed):
        return 0.0, 0
    if into < 0:
        ahead = (plan.origin_ns - now_ns) * _NANOSECOND_S
        if ahead > longest_wait:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: expected at most {longest_wait:g} s ahead of the node's clock (parameter "
                f"publish.longest_wait), got {ahead:.3f} s",
            )
        return -into, 0
    dropped = int(plan.ends.searchsorted(into + _SHORTEST_REST_S, side="right"))
    if dropped == len(plan.steps):
        raise Rejected(
            RejectionReason.STALE_SEQUENCE,
            f"header.stamp: all {dropped} steps are over; the first began {(now_ns - plan.origin_ns) * 1e-9:.3f} s ago "
            f"and the last ended {into - plan.duration:.3f} s before a trajectory can start "
            f"(in {(earliest_ns - now_ns) * 1e-9:.3f} s, parameter publish.lead_time)",
        )
    return 0.0, dropped


# Overlapping chunks, averaged


@dataclass(frozen=True)
class _Remembered:
    """A chunk of positions with the times of its rows, in ns of the node's clock."""

    origin_ns: int
    first_ns: int
    last_ns: int
    positions: Motion
    """The spline through the rows, from the first one on, for times between them."""

    def at(self, times_ns: np.ndarray) -> np.ndarray:
        """Positions `[N, dof]` at times `[N]`; NaN before its first row and after its last."""
        found = self.positions.states_at((times_ns - self.first_ns) * 1e-9)[0]
        found[(times_ns < self.first_ns - _SAME_TIME_NS) | (times_ns > self.last_ns + _SAME_TIME_NS)] = np.nan
        return found


class ChunkMemory:
    """The chunks of positions that were published and are not over, in the order of their observations."""

    def __init__(self) -> None:
        self._chunks: list[_Remembered] = []
        self._most_averaged = 0
        self.forgotten = 0
        """Number of chunks that were not over when something else replaced them, or when there were too many."""

    def averaged(self, chunk: Plan, decay: float, *, newest_first: bool) -> Plan:
        """Return the chunk with each position averaged with remembered chunks' for the same time.

        Steps may differ: between the rows of a chunk its spline is evaluated. A remembered chunk with the same origin
        is left out, because `chunk` replaces it. Chunks are ranked by origin, not by arrival. The start of a chunk is
        where that chunk begins, not where the average was, so an average has no start.

        Args:
            chunk: positions with an origin.
            decay: see `ensemble`, as for `newest_first`.
            newest_first: whether weights count from the newest observation; otherwise from the oldest.

        """
        times_ns = _row_times(chunk)
        others = [other for other in self._chunks if other.origin_ns != chunk.origin_ns]
        older = sum(other.origin_ns < chunk.origin_ns for other in others)
        positions = [other.at(times_ns) for other in others]
        positions.insert(older, chunk.actions)
        covering = (~np.isnan([rows[:, 0] for rows in positions])).sum(axis=0)
        self._most_averaged = max(self._most_averaged, int(covering.max()))
        if covering.max() == 1:
            return chunk
        averaged = ensemble(positions, decay, newest_first=newest_first)
        return replace(chunk, actions=averaged, start=None)

    def take(self, chunk: Plan | None, now_ns: int) -> None:
        """Remember a published chunk as the policy sent it; None: something else was published, so forget all."""
        running = [other for other in self._chunks if other.last_ns > now_ns]
        if chunk is None:
            self._chunks = []
            self.forgotten += len(running)
            return
        running = [other for other in running if other.origin_ns != chunk.origin_ns] + [_remembered(chunk)]
        running.sort(key=lambda other: other.origin_ns)
        self.forgotten += max(0, len(running) - _MOST_CHUNKS)
        self._chunks = running[-_MOST_CHUNKS:]

    def most_averaged(self) -> int:
        """Return the largest number of chunks averaged for one time since the last call."""
        most, self._most_averaged = self._most_averaged, 0
        return most

    def clear(self) -> None:
        """Forget all chunks, because the robot no longer executes any."""
        self._chunks = []


def _row_times(chunk: Plan) -> np.ndarray:
    return chunk.origin_ns + np.rint(chunk.ends * 1e9).astype(np.int64)


def _remembered(chunk: Plan) -> _Remembered:
    times_ns = _row_times(chunk)
    several = len(chunk.steps) > 1
    positions = cubic_spline(chunk.steps[1:], chunk.actions) if several else resting(chunk.actions[0], _MOMENT_S)
    return _Remembered(chunk.origin_ns, int(times_ns[0]), int(times_ns[-1]), positions)


def ensemble(chunks: Sequence[np.ndarray], decay: float, *, newest_first: bool = False) -> np.ndarray:
    """Average positions of chunks at the same times, with weights exp(-decay i).

    Args:
        chunks: from the oldest to the newest, `[N, D]` each, NaN where a chunk does not cover the time; the newest
            covers all times.
        decay: m of ACT, where i counts the chunks that cover the time from the oldest; 0: equal weights.
        newest_first: whether i counts from the newest instead.

    Returns:
        `[N, D]`.

    """
    stacked = np.stack(chunks)
    covers = ~np.isnan(stacked[:, :, 0])
    order = np.flip(covers, 0).cumsum(0) if newest_first else covers.cumsum(0)
    rank = (np.flip(order, 0) if newest_first else order) - 1
    weights = np.where(covers, np.exp(-decay * rank), 0.0)
    weights /= weights.sum(axis=0)
    return np.einsum("cn,cnd->nd", weights, np.where(covers[:, :, None], stacked, 0.0))
