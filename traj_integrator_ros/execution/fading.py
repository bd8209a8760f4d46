"""Differences from a plan that fade: as quintics to 0, or from the motion in execution, where both are one plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from . import native
from .bounds import Bounds
from .extremes import extremes
from .motion import Motion, quintics, shifted, taylor_shift
from .reaching import RETREAT_RAD, ROUNDING, Problem, retreats, samples
from .tracks import DEGREE, SHORTEST_GAP

_NEAR_RAD = 1e-3
"""By how much a difference may grow while it fades: a plan may be known no better between its rows."""
_SAME_PLAN_RAD = 5e-3
"""Difference up to which the motion in execution may be on the same plan."""
_GROWS_BY_VELOCITY, _GROWS_BY_ACCELERATION = 0.17, 0.0173
"""Greatest value of the quintic to 0 from a velocity, or acceleration, of 1, in 1 s."""
_OF_JERK = 1.25
"""Times what a plan asks for, where jerk is only assumed: two splines through other rows of it cross."""


def blended(joined: Motion, problem: Problem, joints: np.ndarray, time: float) -> tuple[Motion, np.ndarray, np.ndarray]:
    """Like `faded`, from the motion in execution: where that is on the same plan, both know what the other does not.

    The one knows the rows that are over, the other those that are new. The difference of both fades by a smooth weight.
    """
    if problem.executed is None:
        return joined, *_nothing(problem)
    weights = _weights_of_samples(problem.longest, time)
    apart = np.abs(problem.apart[: len(weights)] * weights).max(axis=0)
    joints = joints & (apart <= np.minimum(np.abs(problem.lack[0]), _SAME_PLAN_RAD) + _NEAR_RAD) & ~problem.floats
    if not np.count_nonzero(joints):
        return joined, *_nothing(problem)
    until = min(time, problem.plan.duration, problem.own_until)
    bounds = problem.bounds
    if until > problem.earliest:  # before, it is not the plan's
        own = problem.plan.until(until)
        own = own.from_time(problem.earliest) if problem.earliest > 0 else own
        bounds = bounds.raised_to(own, _OF_JERK).with_positions_of(bounds)

    def added(knots: np.ndarray) -> np.ndarray:
        return difference_that_fades(problem.executed, problem.plan, problem.lack, time, knots)

    return _with(joined, problem, joints, time, added, bounds, leads=apart[joints].max())


def faded(
    joined: Motion, problem: Problem, joints: np.ndarray, time: float, *, near: bool = False
) -> tuple[Motion, np.ndarray, np.ndarray]:
    """Return a motion with the difference of some joints fading as a quintic, where they keep their limits.

    Args:
        joined: the plan, or what has become of it.
        problem: of joining.
        joints: bool `[D]`.
        time: within which the differences fade, s.
        near: whether a joint is left as it is whose difference would grow.

    Returns:
        The motion, the joints whose difference fades, and by how much their plans were shifted, rad, `[D]`.

    """
    p, v, a = (np.where(joints, part, 0.0) for part in problem.lack)
    # Only the velocity fades, while the position goes wherever that leads.
    led = np.where(problem.floats, -(v * time / 2 + a * time**2 / 12), p)
    if near:
        grown = _GROWS_BY_VELOCITY * np.abs(v) * time + _GROWS_BY_ACCELERATION * np.abs(a) * time**2
        joints = joints & (problem.floats | (grown <= np.abs(p) + _NEAR_RAD))
        if not np.count_nonzero(joints):
            return joined, *_nothing(problem)
    fade = quintics(np.stack([[led, v, a], np.zeros((3, len(p)))], axis=1), np.array([0.0, time]))[0]

    def added(knots: np.ndarray) -> np.ndarray:
        return taylor_shift(knots[:-1], DEGREE) @ fade

    leads = (np.abs(p) + np.abs(v) * time + np.abs(a) * time**2).max()
    return _with(joined, problem, joints, time, added, problem.bounds, p - led, leads)


def _with(
    joined: Motion,
    problem: Problem,
    joints: np.ndarray,
    time: float,
    added: Callable[[np.ndarray], np.ndarray],
    bounds: Bounds,
    moved: np.ndarray | float = 0.0,
    leads: float = np.inf,
) -> tuple[Motion, np.ndarray, np.ndarray]:
    """The motion with what is added to it until a time, where joints keep bounds and do not go back.

    What is added leads at most a little way, rad, and back again.
    """
    if time > problem.plan.duration and not problem.plan.ends_at_rest:
        return joined, *_nothing(problem)
    longer = _with_knot(joined, time)
    count = int(longer.knots.searchsorted(time - SHORTEST_GAP))
    candidate = longer.coefficients[:count] + added(longer.knots[: count + 1])
    candidate[:, 0] += moved
    faded = Motion(longer.knots[: count + 1], candidate)
    done = joints & _keeps(faded, bounds, problem.caps)
    if 2 * leads > RETREAT_RAD and np.count_nonzero(done):
        done &= retreats(faded, problem, np.arange(joined.dof)) <= 0
    if not np.count_nonzero(done):
        return joined, *_nothing(problem)
    np.copyto(longer.coefficients[:count], candidate, where=done)
    shift = np.where(done, moved, 0.0)
    longer.coefficients[count:, 0] += shift
    return longer, done, shift


def _nothing(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """No joint, and no shift."""
    return np.zeros(problem.plan.dof, bool), np.zeros(problem.plan.dof)


def difference_that_fades(
    executed: Motion, plan: Motion, lack: np.ndarray, time: float, knots: np.ndarray
) -> np.ndarray:
    """Quintics `[N, 6, D]` between knots `[N + 1]`, s: how far a motion is beyond a plan, from `lack` `[3, D]` to 0."""
    of_plan, pieces = (plan.coefficients, plan.knots), np.empty((len(knots) - 1, DEGREE + 1, plan.dof))
    if native.blend(executed.coefficients, executed.knots, *of_plan, lack, time, knots, pieces):
        return pieces
    d, (w, rate, curve) = executed.states_at(knots, 3) - plan.states_at(knots, 3), _weights(knots, time)
    d[:, 0] = lack
    weighted = w * d[0], rate * d[0] + w * d[1], curve * d[0] + 2 * rate * d[1] + w * d[2]
    return quintics(np.array(weighted), knots)


@lru_cache(maxsize=64)
def _weights_of_samples(longest: float, time: float) -> np.ndarray:
    """Weights `[T, 1]` at the samples of a problem that are within a time, s."""
    times = samples(longest)
    return _weights(times[times <= time], time)[0]


def _weights(times: np.ndarray, span: float) -> np.ndarray:
    """From 1 to 0 within a span, s, as a quintic, and its first two derivatives, `[3, T, 1]`."""
    s = times / span
    weight = 1 - s**3 * (10 - 15 * s + 6 * s**2)
    return np.array([weight, -30 * s**2 * (1 - s) ** 2 / span, -60 * s * (1 - s) * (1 - 2 * s) / span**2])[:, :, None]


def _with_knot(motion: Motion, time: float) -> Motion:
    """A copy of a motion with a knot at a time, s, and all coefficients; prolonged by rest if it is shorter."""
    knots, size = motion.knots, motion.degree + 1
    at = int(knots.searchsorted(time))
    is_knot = (at < len(knots) and knots[at] - time < SHORTEST_GAP) or (at > 0 and time - knots[at - 1] < SHORTEST_GAP)
    coefficients = np.zeros((len(knots) - is_knot, DEGREE + 1, motion.dof))
    if is_knot:
        coefficients[:, :size] = motion.coefficients
        return Motion(knots, coefficients, motion.with_accelerations, motion.ends_at_rest)
    if at == len(knots):
        coefficients[:-1, :size] = motion.coefficients
        coefficients[-1, 0] = motion.end.position
    else:
        coefficients[:at, :size] = motion.coefficients[:at]
        coefficients[at, :size] = shifted(motion.coefficients[at - 1], time - knots[at - 1])
        coefficients[at + 1 :, :size] = motion.coefficients[at:]
    knots = np.concatenate([knots[:at], [time], knots[at:]])
    return Motion(knots, coefficients, motion.with_accelerations, motion.ends_at_rest or at == len(motion.knots))


def _keeps(motion: Motion, bounds: Bounds, caps: np.ndarray) -> np.ndarray:
    """Which joints of a motion keep their bounds everywhere, `[D]`."""
    least, most = extremes(motion)
    good = (least[0] >= bounds.position_min - ROUNDING) & (most[0] <= bounds.position_max + ROUNDING)
    highs = np.array([caps, np.maximum(bounds.acceleration, bounds.stopping), bounds.jerk]) * (1 + ROUNDING)
    good &= (np.maximum(most[1:], -least[1:]) <= highs).all(axis=0)
    if bounds.deceleration is not None and good.any():
        good &= bounds.steers(motion) <= 1 + ROUNDING
    return good
