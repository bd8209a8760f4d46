"""A brake at the end of a motion: from any state to rest within limits, on the plan's own grid of points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .motion import Motion, State, taylor_shift

_PIECES = 16
"""Least number of pieces of a brake; a longer spacing of the plan is divided."""
_MOST_PIECES = 1000
"""Largest number of pieces; the points of a longer brake are further apart."""
_SAME_POINT = 3e-5
"""s, within which two points become one: the velocity left then has less effect than rounding has on the jerk."""
_ROUNDING = 1e-6
"""Rounding of a velocity."""


def brake(
    state: State,
    spacing: float,
    *,
    acceleration: np.ndarray | None = None,
    jerk: np.ndarray | None = None,
    brake_time: float = 0.25,
) -> Motion:
    """Return the motion from a state to rest that is as fast as limits and grid allow, for all joints at once.

    Acceleration is linear between the points, with a slope of at most the joint's jerk limit: nothing between the
    points exceeds what holds at them, and the controller reproduces it exactly. A joint keeps its direction; it
    reverses only if its acceleration cannot be reduced to 0 before the velocity changes its sign. If it just can,
    velocity and acceleration become 0 together, at a point between those of the grid. The brake takes at most 3 points
    more than the fastest brake that is not bound to the grid.

    Args:
        state: where the brake begins; an unknown acceleration counts as 0.
        spacing: of the points, s; divided into equal parts if the brake would have fewer than 16 of them.
        acceleration: limits `[D]`, rad/s^2; None or infinite: none.
        jerk: limits `[D]`, rad/s^3. None or infinite: the jerk that brings the joint to rest within `brake_time`.
        brake_time: s.

    """
    return fastest_brake(state, acceleration=acceleration, jerk=jerk, brake_time=brake_time).on_grid(spacing)


@dataclass(frozen=True)
class FastestBrake:
    """How fast each joint could stop; `on_grid` gives the brake on a grid of points."""

    state: State
    largest: np.ndarray
    """Acceleration, rad/s^2, `[D]`."""
    jerk: np.ndarray
    """rad/s^3, `[D]`."""
    durations: np.ndarray
    """s, `[D]`."""

    def on_grid(self, spacing: float) -> Motion:
        """Return the brake of all joints at once; see `brake`."""
        duration = float(self.durations.max())
        step = spacing / max(1, math.ceil(spacing * _PIECES / max(duration, 1e-3)))
        step *= max(1, math.ceil(duration / step / _MOST_PIECES))
        step = max(round(step * 1e9), 1) * 1e-9  # messages count time in whole nanoseconds
        motion = _on_grid(self.state, self.largest, self.jerk, duration, step)
        return _with_releases(motion, self.state, self.jerk, step)


def fastest_brake(
    state: State, *, acceleration: np.ndarray | None = None, jerk: np.ndarray | None = None, brake_time: float = 0.25
) -> FastestBrake:
    """Return how fast each joint comes to rest; arguments as for `brake`."""
    v = np.asarray(state.velocity, np.float64)
    a = np.zeros_like(v) if state.acceleration is None else np.asarray(state.acceleration, np.float64)
    largest = np.full_like(v, np.inf) if acceleration is None else np.asarray(acceleration, np.float64)
    if jerk is None or not np.isfinite(jerk).all():
        slope = needed_jerk(v, a, brake_time)
        jerk = slope if jerk is None else np.where(np.isfinite(jerk), jerk, slope)
    return FastestBrake(State(state.position, v, a), largest, jerk, brake_duration(v, a, largest, jerk))


def needed_jerk(velocity: np.ndarray, acceleration: np.ndarray, brake_time: float) -> np.ndarray:
    """Jerk `[D]` whose fastest brake takes `brake_time`, s, or less if only that keeps a joint from reversing."""
    v, a = np.where(velocity < 0, [-velocity, -acceleration], [velocity, acceleration])
    x = brake_time * a + 2 * v
    jerk = (x + np.hypot(x, brake_time * a)) / brake_time**2
    with np.errstate(divide="ignore", invalid="ignore"):
        straight = np.where((a < 0) & (v > 0), a * a / v, 0.0)
    return np.maximum(np.maximum(jerk, straight), np.where(a == 0, 1e-9, np.abs(a) / brake_time))


def brake_duration(
    velocity: np.ndarray, acceleration: np.ndarray, largest_acceleration: np.ndarray, jerk: np.ndarray
) -> np.ndarray:
    """Shortest time to rest of each joint, s `[D]`, as in ruckig's velocity interface."""
    _, a, need = _towards_rest(velocity, acceleration, jerk)
    half = a * a / 2
    peak = np.sqrt(np.maximum(jerk * need + half, 0))  # if acceleration has no limit
    cut, down = peak > largest_acceleration, a > largest_acceleration
    if not (cut.any() or down.any()):
        return (2 * peak - a) / jerk
    # If the limit is reached: up or down to the limit, held there, and back to 0.
    top = np.minimum(peak, largest_acceleration)
    ramps = np.where(down, half, top * top - half) / jerk
    with np.errstate(divide="ignore", invalid="ignore"):
        hold = np.where(cut & (top > 0), np.maximum(need - ramps, 0) / top, 0.0)
    return np.where(down, a, 2 * top - a) / jerk + hold


def _towards_rest(
    velocity: np.ndarray, acceleration: np.ndarray, jerk: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Direction of the jerk, +-1 `[D]`; in that direction, acceleration and the required change of velocity."""
    released = velocity + acceleration * np.abs(acceleration) / (2 * jerk)  # once acceleration has been reduced to 0
    push = np.where(released > 0, -1.0, 1.0)
    return push, acceleration * push, -velocity * push


def _on_grid(state: State, largest: np.ndarray, jerk: np.ndarray, duration: float, step: float) -> Motion:
    """The brake with the fewest steps, never shorter than `duration`.

    Of all accelerations that change by at most jerk x step from point to point, begin with the state's and end at 0,
    `lowest` is the least and `highest` the greatest at each point. clip(level, lowest, highest) changes by no more than
    they do; the level for which its sum is the required one is within the limit if there are enough steps.
    """
    push, a, need = _towards_rest(state.velocity, state.acceleration, jerk)
    rate = jerk * step
    total = need / step - a / 2
    count = max(math.ceil(duration / step - 1e-9), 1)
    rounding = 1e-10 * (1 + np.abs(total) + count * np.abs(a))
    while True:
        k = np.arange(1, count)[:, None]
        rise, fall = k * rate, k[::-1] * rate
        highest, lowest = np.minimum(a + rise, fall), np.maximum(a - rise, -fall)
        most = np.minimum(highest, np.maximum(lowest, largest)).sum(axis=0)
        least = np.maximum(lowest, np.minimum(highest, -largest)).sum(axis=0)
        enough = (total <= most + rounding) & (total >= least - rounding) & (a <= rate * (count * (1 + 1e-9)))
        if enough.all():
            break
        count += 1
    accelerations = np.empty((count + 1, len(a)))
    accelerations[0], accelerations[-1] = state.acceleration, 0.0
    level = _level(lowest, highest, total)
    accelerations[1:-1] = np.minimum(highest, np.maximum(lowest, level)) * push
    begin, after = accelerations[:-1], accelerations[1:]
    pieces = np.empty((count, 4, len(a)))
    pieces[0, 0], pieces[0, 1] = state.position, state.velocity
    pieces[:, 2], pieces[:, 3] = begin / 2, (after - begin) / (6 * step)
    pieces[1:, 1] = state.velocity + ((begin + after) * (step / 2))[:-1].cumsum(axis=0)
    advance = ((pieces[:-1, 3] * step + pieces[:-1, 2]) * step + pieces[:-1, 1]) * step
    pieces[1:, 0] = state.position + advance.cumsum(axis=0)
    return Motion(np.arange(count + 1) * step, pieces, ends_at_rest=True)


def _with_releases(motion: Motion, state: State, jerk: np.ndarray, step: float) -> Motion:
    """The brake, with a direct release of the acceleration for joints that need nothing else to stop.

    On the grid it would take until the next point, and cause up to jerk x step^2 / 8 of reverse velocity.
    """
    v, a = state.velocity, state.acceleration
    left = np.abs(v) - a * a / (2 * jerk)  # by the steepest release
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.rint(np.where(v * a < 0, -2 * v / a, np.inf) * 1e9) * 1e-9
    releases = (ends <= motion.duration) & (left >= -_ROUNDING * np.abs(v)) & (left < jerk * step**2 / 8)
    if not releases.any():
        return motion
    between = [end for end in np.unique(ends[releases]) if np.abs(motion.knots - end).min() > _SAME_POINT]
    knots = np.union1d(motion.knots, between)
    pieces = np.clip(np.searchsorted(motion.knots, knots[:-1], side="right") - 1, 0, len(motion.coefficients) - 1)
    shift = taylor_shift(knots[:-1] - motion.knots[pieces], motion.degree)
    coefficients = shift @ motion.coefficients[pieces]
    for joint in np.flatnonzero(releases):
        end, slope = ends[joint], -a[joint] / ends[joint]
        cubic = np.array([state.position[joint], v[joint], a[joint] / 2, slope / 6])
        released = knots[:-1] < end - _SAME_POINT
        coefficients[:, :, joint] = taylor_shift(np.minimum(knots[:-1], end), 3) @ cubic
        coefficients[~released, 1:, joint] = 0.0
    return Motion(knots, coefficients, ends_at_rest=True)


def _level(lowest: np.ndarray, highest: np.ndarray, total: np.ndarray) -> np.ndarray:
    """For each column the level whose clip(level, lowest, highest) `[N, D]` sums to `total` `[D]`."""
    count, columns = len(lowest), np.arange(len(total))
    if not count:
        return np.zeros_like(total)
    bends = np.concatenate([lowest, highest])
    order = bends.argsort(axis=0)
    bends = bends[order, columns]
    rate = (1.0 - 2.0 * (order >= count)).cumsum(axis=0)  # slope of the sum after each bend
    sums = np.empty_like(bends)
    sums[0] = 0.0
    (rate[:-1] * (bends[1:] - bends[:-1])).cumsum(axis=0, out=sums[1:])
    missing = total - lowest.sum(axis=0)
    at = np.minimum(np.maximum((sums < missing).sum(axis=0) - 1, 0), 2 * count - 2)
    return bends[at, columns] + (missing - sums[at, columns]) / np.maximum(rate[at, columns], 1.0)
