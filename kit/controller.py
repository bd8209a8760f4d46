"""A model of joint_trajectory_controller, cycle by cycle, written from its behavior, without ROS.

It accepts or refuses trajectories by the controller's rules, replaces or blends a running one by its rules, and returns
what it would command to the joints in each cycle, with its interpolation (quintic where both points have velocity and
acceleration, cubic where they have velocity, else linear) and perfect tracking: the measured state is the last command.
test/kit holds it against recordings of the controller's own code, of release 6.9.0 and of the main branch after it: it
refuses the same messages, and its commands are equal to 1e-10. Its clock advances by `scaling` times the period in each
cycle, as docs/connecting_an_arm.md says. Not modelled: tolerances, actions, continuous joints, and points without
positions.

    controller = Controller(["a", "b"], rate=1000)
    controller.set_state([0, 0])
    accepted = controller.receive(["a", "b"], time_ns, positions, velocities, accelerations, now_ns=0)
    position, velocity, acceleration = controller.run(0, 10**9)

Times are whole nanoseconds, as in the controller; those of points count from the start of their trajectory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline

SECOND = 1_000_000_000
Rows = Sequence[Sequence[float]] | np.ndarray
FLOAT_EPSILON = float(np.finfo(np.float32).eps)
_POWERS = np.arange(6)
_FACTORS = np.stack([np.ones(6), _POWERS, _POWERS * (_POWERS - 1)])
_EXPONENTS = np.maximum(_POWERS - np.arange(3)[:, None], 0)
"""Exponents of the terms of a polynomial and its two derivatives, `[3, 6]`."""


@dataclass
class Point:
    """A state at a time [ns] from the start of its trajectory; velocity or acceleration may be missing."""

    time: int
    position: np.ndarray
    velocity: np.ndarray | None
    acceleration: np.ndarray | None

    @property
    def parts(self) -> tuple[np.ndarray | None, ...]:
        """Position, velocity, acceleration."""
        return self.position, self.velocity, self.acceleration


@dataclass
class Plan:
    """A trajectory in the controller. Without a stamp, `start`, ns, is 0 until it is first sampled."""

    start: int
    points: list[Point]
    sampled: bool = False
    pieces: dict[int, np.ndarray] = field(default_factory=dict)
    """Polynomials `[6, joints]` by the index of the point in which they end, computed when needed."""

    @cached_property
    def times(self) -> np.ndarray:
        """Times of the points, ns."""
        return np.array([point.time for point in self.points])


def fields_of(message: object) -> dict[str, object]:
    """Fields of a JointTrajectory message that `Controller.receive` takes."""
    times = [point.time_from_start.sec * SECOND + point.time_from_start.nanosec for point in message.points]
    names = ("positions", "velocities", "accelerations")
    given = {name: [getattr(point, name) for point in message.points] for name in names}
    stamp = message.header.stamp
    return {
        "joints": list(message.joint_names),
        "time_ns": np.array(times, np.int64),
        **given,
        "stamp_ns": stamp.sec * SECOND + stamp.nanosec,
    }


class Controller:
    """One controller with position, velocity and acceleration commands.

    Args:
        joints: names.
        rate: cycles per second.
        allow_partial_joints_goal: trajectories may name some of the joints; the others hold.
        allow_nonzero_velocity_at_trajectory_end: the last velocity need not be 0.
        hard_replacement: a new trajectory replaces the old one at once, as in all releases before 6.8 (Humble, Jazzy,
            Kilted) and later with allow_trajectory_replacement = false. Default: blending, as after 6.9.0.
        defers: a trajectory with a stamp in the future waits for it, and then replaces the old one at once, as in 6.8
            and 6.9 with allow_trajectory_replacement = true; needs `hard_replacement`.
        interpolate_from_desired_state: a new trajectory begins at the last command, not at the measured state.
        keeps_clock: its clock runs on from one trajectory to the next, as in UR's driver up to Iron; otherwise each
            trajectory sets it to the time of the cycle that takes it.
        upsampling: policy_frequency of positions_upsampling, Hz, with which points without times get them; 0: points
            have times. Positions alone then become a cubic spline that rests at its first and last point. None: off.

    Raises:
        ValueError: `defers` without `hard_replacement`.
    """

    def __init__(
        self,
        joints: Sequence[str],
        rate: float = 1000.0,
        *,
        allow_partial_joints_goal: bool = False,
        allow_nonzero_velocity_at_trajectory_end: bool = False,
        hard_replacement: bool = False,
        interpolate_from_desired_state: bool = False,
        keeps_clock: bool = False,
        defers: bool = False,
        upsampling: float | None = None,
    ) -> None:
        if defers and not hard_replacement:
            raise ValueError("defers: expected with hard_replacement, got without")
        self.joints, self.period = list(joints), round(SECOND / rate)
        self.partial = allow_partial_joints_goal
        self.moving_end = allow_nonzero_velocity_at_trajectory_end
        self.hard = hard_replacement
        self.from_desired = interpolate_from_desired_state
        self.keeps_clock = keeps_clock
        self.defers, self.upsampling = defers, upsampling
        self.scaling = 1.0
        """Speed slider, 0 or more: the share of a period by which the clock advances in a cycle."""
        self.refusal = ""
        self._state = Point(0, *(np.zeros(len(self.joints)) for _ in range(3)))
        self._before = self._state
        self._plan: Plan | None = None
        self._waiting: tuple[int, list[str], list[Point]] | None = None
        self._clock = 0  # play position of the plan, ns
        self._commanded_at = 0

    def set_state(
        self,
        position: Sequence[float],
        velocity: Sequence[float] | None = None,
        acceleration: Sequence[float] | None = None,
    ) -> None:
        """Set where the joints are before the first cycle."""
        zeros = np.zeros(len(self.joints))
        given = (position, velocity, acceleration)
        self._state = Point(0, *(zeros if x is None else np.array(x, float) for x in given))

    def receive(
        self,
        joints: Sequence[str],
        time_ns: np.ndarray,
        positions: Rows | None,
        velocities: Rows | None = None,
        accelerations: Rows | None = None,
        *,
        now_ns: int = 0,
        stamp_ns: int = 0,
    ) -> bool:
        """Hand over a message, which the next cycle takes; return False if it is refused: `refusal` says why.

        Args:
            joints: names, in the order of the columns.
            time_ns: times of the points from the start, int64 `[points]`.
            positions: `[points, joints]`; an empty row at a point that has none.
            velocities: as positions; None: no point has any.
            accelerations: the same.
            now_ns: time of arrival.
            stamp_ns: stamp of the header; with 0 the trajectory starts in the next cycle.
        """
        given = (positions, velocities, accelerations)
        columns = [[np.asarray(row, float) for row in ([[]] * len(time_ns) if x is None else x)] for x in given]
        if self.upsampling is not None:
            time_ns, columns = _upsampled(np.asarray(time_ns), columns, self.upsampling)
        self.refusal = self._refusal(list(joints), time_ns, columns, now_ns, stamp_ns)
        if self.refusal:
            return False
        points = [
            Point(int(t), *(row if len(row) else None for row in rows))
            for t, *rows in zip(time_ns, *columns, strict=True)
        ]
        self._waiting = (stamp_ns, list(joints), points)
        return True

    def update(self, now_ns: int) -> np.ndarray:
        """One cycle: position, velocity, acceleration commanded for one period later, `[3, joints]`."""
        return self._cycles(now_ns, 1)[:, 0]

    def run(self, begin_ns: int, end_ns: int) -> np.ndarray:
        """All cycles from `begin_ns` up to `end_ns`: commands as those of `update`, `[3, cycles, joints]`."""
        return self._cycles(begin_ns, len(range(begin_ns, end_ns, self.period)))

    def _cycles(self, now: int, count: int) -> np.ndarray:
        commands = [self._cycle(now + cycle * self.period) for cycle in range(count)]
        return np.reshape(commands, (count, 3, len(self.joints))).swapaxes(0, 1)

    def _cycle(self, now: int) -> np.ndarray:
        """One cycle, which takes the message that has arrived, `[3, joints]`."""
        if self._waiting is not None and not (self.defers and now < self._waiting[0]):
            self._take(now)
        goes_on = self._clock and (self.keeps_clock or self._plan is None or self._plan.sampled)
        self._clock = self._clock + self._advance if goes_on else now
        if self._plan is None:  # it holds
            self._commanded_at = now
            return np.array(self._state.parts)
        if not self._plan.sampled:
            self._join(now)
        if (state := self._state_at(self._clock + self.period)) is not None:
            self._state, self._commanded_at = state, now
        return np.array(self._state.parts)

    @property
    def _advance(self) -> int:
        """Advance of the clock in a cycle [ns]."""
        return self._scaled(self.period)

    def _scaled(self, duration: int) -> int:
        """A duration [ns] times the scaling, cut to whole ns without rounding the product."""
        numerator, denominator = float(self.scaling).as_integer_ratio()
        return duration * numerator // denominator

    @property
    def commanded(self) -> Point:
        """The last command."""
        return self._state

    @property
    def reference(self) -> Point:
        """Reference of controller_state in the next cycle: the state of the plan at the controller's clock.

        The command is one period of the plan ahead of it; if the speed is scaled, joints go only a part of that period.
        """
        if self._plan is None or not self._plan.sampled or self.scaling == 1:
            return self._state
        return self._state_at(self._clock + self._advance) or self._state

    # Acceptance

    def _refusal(
        self, names: list[str], times: np.ndarray, columns: list[list[np.ndarray]], now: int, stamp: int
    ) -> str:
        if not self.partial and len(names) != len(self.joints):
            return f"joints: expected all {len(self.joints)}, got {len(names)}"
        if not names:
            return "no joints"
        if not len(times):
            return "no points"
        unknown = [name for name in names if name not in self.joints]
        if unknown:
            return f"unknown joint {unknown[0]}"
        fastest = np.abs(columns[1][-1]).max(initial=0)
        if not self.moving_end and fastest > FLOAT_EPSILON:
            return f"last velocity is {fastest:.3g}, not 0"
        if stamp and stamp + int(times[-1]) < now:
            return "ends in the past"
        if (np.diff(times) <= 0).any():
            return f"times do not increase at point {int(np.argmax(np.diff(times) <= 0)) + 1}"
        for what, rows in zip(("positions", "velocities", "accelerations"), columns, strict=True):
            for index, row in enumerate(rows):
                if len(row) != len(names) and (len(row) or what == "positions"):
                    return f"points[{index}].{what}: expected {len(names)}, got {len(row)}"
        return ""

    # A new trajectory

    def _take(self, now: int) -> None:
        stamp, names, points = self._waiting
        self._waiting = None
        old = self._plan
        if not self.hard and old is not None and len(old.points) > 1:
            self._plan = Plan(0, self._blended(stamp, names, points, now))
        else:
            full = [self._all_joints(point, names, self._state, keep_moving=False) for point in points]
            self._plan = Plan(stamp, full)

    def _all_joints(self, point: Point, names: list[str], others: Point, *, keep_moving: bool) -> Point:
        """A point in the controller's order; unnamed joints take `others`, at rest unless `keep_moving`."""
        column = [self.joints.index(name) for name in names]
        full = []
        for k, values in enumerate(point.parts):
            if values is None:
                full.append(None)
                continue
            rest = others.parts[k] if k == 0 or keep_moving else None
            out = np.zeros(len(self.joints)) if rest is None else np.array(rest, float)
            out[column] = values
            full.append(out)
        return Point(point.time, *full)

    def _blended(self, stamp: int, names: list[str], points: list[Point], now: int) -> list[Point]:
        """Return the old plan until the new one begins, then the new one; joints that it lacks keep the rest of the old
        one.

        Times of the result count from the play position of the last cycle, but it is played from this cycle on: one
        period of the old plan comes twice. That is how the controller does it (as of August 2026).
        """
        old, cursor = self._plan, self._clock
        begin = cursor + (self._scaled(stamp - now) if stamp > now else 0)
        bridge = self._state_at(begin)
        merged = [
            self._all_joints(p, names, self._state_at(begin + p.time) or self._state, keep_moving=True) for p in points
        ]
        for point in merged:
            point.time += begin - cursor
        head = [Point(old.start + p.time - cursor, *p.parts) for p in old.points if cursor < old.start + p.time < begin]
        if bridge is not None and begin - cursor < merged[0].time:
            head.append(Point(begin - cursor, *bridge.parts))
        tail = []
        omitted = [j for j, name in enumerate(self.joints) if name not in names]
        if omitted:
            end, last = cursor + merged[-1].time, merged[-1]
            for p in old.points:
                if old.start + p.time > end:
                    parts = [None if x is None else x.copy() for x in p.parts]
                    named = [j for j in range(len(self.joints)) if j not in omitted]
                    for part, value in zip(parts, (last.position[named], 0.0, 0.0), strict=True):
                        if part is not None:
                            part[named] = value
                    tail.append(Point(old.start + p.time - cursor, *parts))
        return head + merged + tail

    def _join(self, now: int) -> None:
        """Begin a plan in its first cycle: set the state at which it begins, and the time."""
        since = self._commanded_at or now if self.from_desired else now
        self._before = Point(self._clock if self.keeps_clock else since, *self._state.parts)
        self._plan.start = self._plan.start or self._clock
        self._plan.sampled = True

    # Between the points

    def _state_at(self, time: int) -> Point | None:
        """The state of the plan at `time` [ns]; None before it can be sampled."""
        plan, elapsed = self._plan, time - self._plan.start
        if time < self._before.time and elapsed < plan.points[0].time:
            return None
        end = int(plan.times.searchsorted(elapsed, side="right"))  # index of the point in which the piece ends
        if end == len(plan.points):  # held unchanged, even in motion
            still = np.zeros(len(self.joints))
            return Point(0, *(still if part is None else part for part in plan.points[-1].parts))
        left = plan.points[end - 1] if end else Point(self._before.time - plan.start, *self._before.parts)
        if end not in plan.pieces:
            plan.pieces[end] = _polynomial(left, plan.points[end], (plan.points[end].time - left.time) / SECOND)
        since = (elapsed - left.time) / SECOND
        return Point(0, *(_FACTORS * since**_EXPONENTS @ plan.pieces[end]))


def _upsampled(
    times: np.ndarray, columns: list[list[np.ndarray]], frequency: float
) -> tuple[np.ndarray, list[list[np.ndarray]]]:
    """Times of the points and their parts after positions_upsampling, which leaves all but positions alone as it is."""
    positions, *others = columns
    if not len(times) or not all(len(row) for row in positions) or any(len(row) for rows in others for row in rows):
        return times, columns
    if frequency > 0 and not times.any():
        times = np.array([int((i + 1) * (1.0 / frequency) * SECOND) for i in range(len(times))])
    if len(times) < 2 or len({len(row) for row in positions}) > 1 or (np.diff(times) <= 0).any():
        return times, columns
    velocities = CubicSpline(times / SECOND, np.stack(positions), bc_type="clamped")(times / SECOND, 1)
    velocities[[0, -1]] = 0.0
    return times, [positions, list(velocities), others[1]]


def _polynomial(left: Point, right: Point, span: float) -> np.ndarray:
    """Return the coefficients `[6, joints]` between two points, of the highest degree that both allow."""
    p0, p1 = left.position, right.position
    velocity = left.velocity is not None and right.velocity is not None
    acceleration = left.acceleration is not None and right.acceleration is not None
    coefficients = np.zeros((6, len(p0)))
    coefficients[0] = p0
    if span <= 0:
        pass
    elif velocity and acceleration:
        v0, v1, a0, a1 = left.velocity, right.velocity, left.acceleration, right.acceleration
        p, v, a = p1 - p0 - v0 * span - a0 * span**2 / 2, v1 - v0 - a0 * span, a1 - a0
        coefficients[1:] = (
            v0,
            a0 / 2,
            (10 * p - 4 * v * span + a * span**2 / 2) / span**3,
            (-15 * p + 7 * v * span - a * span**2) / span**4,
            (6 * p - 3 * v * span + a * span**2 / 2) / span**5,
        )
    elif velocity:
        v0, v1 = left.velocity, right.velocity
        p, v = p1 - p0 - v0 * span, v1 - v0
        coefficients[1:4] = v0, (3 * p - v * span) / span**2, (-2 * p + v * span) / span**3
    else:
        coefficients[1] = (p1 - p0) / span
    return coefficients
