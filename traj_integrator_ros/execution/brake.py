"""The end of a motion as a brake: from any state to rest within limits, on the plan's own grid of points."""

from __future__ import annotations

import numpy as np

from .motion import Motion, State

_PIECES = 16
"""Of a brake at least, where the plan's point spacing is long against it."""
_MOST_PIECES = 1000
"""Of a brake that takes for ever: its points are further apart."""


def brake(
    state: State,
    spacing: float,
    *,
    acceleration: np.ndarray | None = None,
    jerk: np.ndarray | None = None,
    brake_time: float = 0.25,
) -> Motion:
    """From a state to rest as fast as limits and the grid of points allow, all joints at the same time.

    Acceleration is linear between the points, each joint's slope at most its jerk limit: nothing between the points
    exceeds what holds at them, and the controller repeats it exactly. The motion goes on in its direction; it turns
    back only where the acceleration cannot be taken away before the velocity has changed its sign (where it just can,
    the grid may leave jerk x step^2 / 8 of it). It takes at most 3 points more than the fastest brake off the grid.

    Args:
        state: where the brake begins; an unknown acceleration is 0.
        spacing: of the points, s; split into equal parts where the brake would have fewer than 16 of them.
        acceleration: limits `[D]`, rad/s^2; None or infinite: none.
        jerk: limits `[D]`, rad/s^3. None or infinite: what brings the joint to rest within `brake_time`.
        brake_time: s.

    """
    v = np.asarray(state.velocity, np.float64)
    a = np.zeros_like(v) if state.acceleration is None else np.asarray(state.acceleration, np.float64)
    largest = np.full_like(v, np.inf) if acceleration is None else np.asarray(acceleration, np.float64)
    slope = needed_jerk(v, a, brake_time)
    if jerk is not None:
        slope = np.where(np.isfinite(jerk), jerk, slope)
    duration = float(brake_duration(v, a, largest, slope).max())
    step = spacing / max(1, np.ceil(spacing * _PIECES / max(duration, 1e-3)))
    step *= max(1, np.ceil(duration / step / _MOST_PIECES))
    return _on_grid(State(state.position, v, a), largest, slope, duration, step)


def needed_jerk(velocity: np.ndarray, acceleration: np.ndarray, brake_time: float) -> np.ndarray:
    """Jerk `[D]` whose fastest brake takes `brake_time`, s, or less where only that keeps a joint from turning back."""
    v, a = np.where(velocity < 0, [-velocity, -acceleration], [velocity, acceleration])
    x = brake_time * a + 2 * v
    jerk = (x + np.hypot(x, brake_time * a)) / brake_time**2
    with np.errstate(divide="ignore", invalid="ignore"):
        straight = np.where((a < 0) & (v > 0), a * a / v, 0.0)
    return np.maximum(np.maximum(jerk, straight), np.where(a == 0, 1e-9, np.abs(a) / brake_time))


def brake_duration(
    velocity: np.ndarray, acceleration: np.ndarray, largest_acceleration: np.ndarray, jerk: np.ndarray
) -> np.ndarray:
    """Shortest time to rest of each joint, s `[D]`, as ruckig has it in its velocity interface."""
    _, a, need = _towards_rest(velocity, acceleration, jerk)
    peak = np.sqrt(jerk * need + a * a / 2)  # without a limit on acceleration
    top = np.maximum(np.minimum(peak, largest_acceleration), 0)
    down = a > largest_acceleration  # first from beyond the limit down to it
    ramps = np.where(down, a * a, 2 * top * top - a * a) / (2 * jerk)
    with np.errstate(divide="ignore", invalid="ignore"):
        hold = np.where(top > 0, np.maximum(need - ramps, 0) / top, 0.0)
    hold = np.where(peak > largest_acceleration, hold, 0.0)
    return np.where(down, a, 2 * top - a) / jerk + hold


def _towards_rest(
    velocity: np.ndarray, acceleration: np.ndarray, jerk: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Direction to push in, +-1 `[D]`; in it, acceleration and the change of velocity that is needed."""
    released = velocity + acceleration * np.abs(acceleration) / (2 * jerk)  # once acceleration is taken away
    push = np.where(released > 0, -1.0, 1.0)
    return push, acceleration * push, -velocity * push


def _on_grid(state: State, largest: np.ndarray, jerk: np.ndarray, duration: float, step: float) -> Motion:
    """The brake with the fewest steps, never shorter than `duration`.

    Of all accelerations that change by at most jerk x step from point to point, begin at the state's and end at 0,
    `lowest` is the least and `highest` the greatest at each point. clip(level, lowest, highest) changes by no more
    than they do; the level that makes the sum of it what is needed lies within the limit if there are enough steps.
    """
    push, a, need = _towards_rest(state.velocity, state.acceleration, jerk)
    count = max(int(np.ceil(duration / step - 1e-9)), 1)
    while True:
        k = np.arange(1, count)[:, None]
        rise, fall = k * (jerk * step), (count - k) * (jerk * step)
        highest, lowest = np.minimum(a + rise, fall), np.maximum(a - rise, -fall)
        total = need / step - a / 2
        if (a <= count * step * jerk * (1 + 1e-9)).all():
            most = np.clip(largest, lowest, highest).sum(axis=0)
            least = np.clip(-largest, lowest, highest).sum(axis=0)
            slack = 1e-10 * (1 + np.abs(total) + count * np.abs(a))  # of rounding
            if ((total <= most + slack) & (total >= least - slack)).all():
                break
        count += 1
    inner = np.clip(_level(lowest, highest, total), lowest, highest)
    accelerations = np.vstack([state.acceleration, inner * push, np.zeros_like(a)])
    slopes = np.diff(accelerations, axis=0) / step
    begin = accelerations[:-1]
    velocities = state.velocity + np.vstack(
        [np.zeros_like(a), ((begin + accelerations[1:]) * (step / 2)).cumsum(axis=0)]
    )
    velocities[-1] = 0.0
    advance = (velocities[:-1] + (begin / 2 + slopes * (step / 6)) * step) * step
    positions = state.position + np.vstack([np.zeros_like(a), advance.cumsum(axis=0)[:-1]])
    return Motion(
        np.arange(count + 1) * step,
        np.stack([positions, velocities[:-1], begin / 2, slopes / 6], axis=1),
        ends_at_rest=True,
    )


def _level(lowest: np.ndarray, highest: np.ndarray, total: np.ndarray) -> np.ndarray:
    """For each column the level whose clip(level, lowest, highest) `[N, D]` sums to `total` `[D]`."""
    if not len(lowest):
        return np.zeros_like(total)
    bends = np.concatenate([lowest, highest])
    order = bends.argsort(axis=0)
    bends = np.take_along_axis(bends, order, axis=0)
    rate = np.where(order < len(lowest), 1.0, -1.0).cumsum(axis=0)  # of the sum, behind each bend
    sums = np.vstack([lowest.sum(axis=0), lowest.sum(axis=0) + (rate[:-1] * np.diff(bends, axis=0)).cumsum(axis=0)])
    at = np.clip((sums < total).sum(axis=0) - 1, 0, len(bends) - 2)[None]
    s, r, b = (np.take_along_axis(x, at, axis=0)[0] for x in (sums, rate, bends))
    return b + np.where(r > 0, (total - s) / np.maximum(r, 1.0), 0.0)
