"""From the state that a controller commands now to a plan: each joint by itself, within limits, as smooth as possible.

A joint that is on its plan keeps it unchanged. Otherwise the difference fades, over the first of several times in which
that keeps all limits: from the motion in execution where that is on the same plan, else as a quintic. Where none does,
the joint takes the fastest way (ruckig) to the earliest point of the plan that it can reach in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from . import native
from .bounds import Bounds
from .limits import extremes, keeping, keeps
from .motion import SHORTEST_GAP, SIZE, Motion, resting, united
from .polynomials import to_nothing
from .problem import CROSSING, Problem
from .reaching import RETREAT_RAD, floating_to, reaching, retreats
from .tolerances import ROUNDING

_NEAR_RAD = 0.02
"""Largest growth of a difference while it fades, rad. With 1 mrad, a difference of 0.1 rad/s had to be gone in 50 ms,
at the limits of acceleration; a planner that starts from the velocity of that swing causes the next one, and reaches no
goal.
"""
_GROWS_BY_VELOCITY, _GROWS_BY_ACCELERATION = 0.17, 0.0173
"""Greatest value of the quintic to 0 from a velocity, or acceleration, of 1, in 1 s."""


def splice(problem: Problem) -> tuple[Motion, np.ndarray] | None:
    """Return the motion that begins in a state and becomes a plan, or None if a joint cannot reach its plan.

    And by how much the plan was shifted, rad, `[D]`.
    """
    plan, shift = problem.plan, np.zeros(problem.plan.dof)
    pending = problem.beyond.any(axis=0) | (plan.plan_from > 0)
    if not np.count_nonzero(pending):  # takes a quarter of the time of any(), for every sequence
        return plan, shift
    joined = plan
    if plan.with_accelerations:
        for fades, spans, joints in _fades(problem, pending):
            for time in spans:
                left = joints & pending
                if not np.count_nonzero(left):
                    break
                if time > 0 and time >= plan.plan_from and (found := fades(joined, problem, left, time)) is not None:
                    joined, done, moved = found
                    if moved is not None:
                        shift += moved
                    pending = pending & ~done
                    if not np.count_nonzero(pending):
                        return joined, shift
    tracks: dict[int, Motion] = {}
    for joint in np.flatnonzero(pending).tolist():
        found = floating_to(problem, joint) if problem.floats[joint] else reaching(problem, joint)
        if found is None:
            return None
        tracks[joint], shift[joint] = found
    return united(tracks, joined), shift


# Differences that fade

Faded = tuple[Motion, np.ndarray, np.ndarray | None]
"""A motion, the joints whose difference fades in it, and the shift of their plans, rad, `[D]`, or None."""
Fades = Callable[[Motion, Problem, np.ndarray, float], Faded | None]
"""`blended` or `faded`."""


def _fades(problem: Problem, joints: np.ndarray) -> Iterator[tuple[Fades, Sequence[float], np.ndarray]]:
    """Yield the ways in which a difference may fade, the times in which each is tried, and the joints."""
    times = problem.joining.fade_times
    yield blended, times, joints
    far = problem.beyond[:2].any(axis=0)
    yield faded, reversed(times), joints & ~far
    yield partial(faded, near=True), times, joints & far


def blended(joined: Motion, problem: Problem, joints: np.ndarray, time: float) -> Faded | None:
    """Like `faded`, from the motion in execution: if it is on the same plan, it knows the rows that are over, and the
    new plan the rows that are new. The difference of both fades by a smooth weight.
    """
    if problem.executed is None or (longer := _with_knot(joined, problem, time)) is None:
        return None
    knots = longer.knots[: int(longer.knots.searchsorted(time - SHORTEST_GAP)) + 1]
    executed, plan, added = problem.executed, problem.plan, np.empty((len(knots) - 1, SIZE, joined.dof))
    pieces = executed.coefficients, executed.knots, plan.coefficients, plan.knots
    native.blend(*pieces, problem.lack, time, knots, added)
    moved, joints, leads = Motion(knots, added), joints & ~problem.floats, 0.0
    if not keeps(moved, _little(joined.dof)):
        apart = np.abs(extremes(moved)[:, 0]).max(axis=0)
        joints &= apart <= np.abs(problem.lack[0]) + _NEAR_RAD
        leads = apart.max(where=joints, initial=0.0)
    if not np.count_nonzero(joints):
        return None
    until, bounds = min(time, plan.duration, plan.plan_until), problem.bounds
    if until > plan.plan_from:
        bounds = bounds.raised_to(plan.until(until).valid, CROSSING)
    if problem.crossing is not None and (problem.crossing > bounds.jerk).any():
        bounds = replace(bounds, jerk=np.maximum(bounds.jerk, problem.crossing))
    return _with(longer, added, problem, joints, bounds, leads)


def faded(joined: Motion, problem: Problem, joints: np.ndarray, time: float, *, near: bool = False) -> Faded | None:
    """Return a motion with the difference of some joints fading as a quintic, where they keep their limits.

    Args:
        joined: the plan, perhaps changed already.
        problem: of joining.
        joints: bool `[D]`.
        time: within which the differences fade, s.
        near: whether a joint is left as it is whose difference would grow.

    Returns:
        See `Faded`; None: the difference of no joint fades.

    """
    if (longer := _with_knot(joined, problem, time)) is None:
        return None
    p, v, a = (np.where(joints, part, 0.0) for part in problem.lack)
    # Only the velocity fades, while the position goes wherever that leads.
    led = np.where(problem.floats, -(v * time / 2 + a * time**2 / 12), p)
    if near:
        grown = _GROWS_BY_VELOCITY * np.abs(v) * time + _GROWS_BY_ACCELERATION * np.abs(a) * time**2
        joints = joints & (problem.floats | (grown <= np.abs(p) + _NEAR_RAD))
        if not np.count_nonzero(joints):
            return None
    fade = to_nothing(time) @ np.array([led, v, a])
    knots = longer.knots[: int(longer.knots.searchsorted(time - SHORTEST_GAP))]
    added = np.zeros((len(knots), *fade.shape))
    native.add(fade, knots, added)
    leads = (np.abs(p) + np.abs(v) * time + np.abs(a) * time**2).max()
    return _with(longer, added, problem, joints, problem.bounds, leads, p - led)


def _with(
    longer: Motion,
    added: np.ndarray,
    problem: Problem,
    joints: np.ndarray,
    bounds: Bounds,
    leads: float,
    moved: np.ndarray | None = None,
) -> Faded | None:
    """Add to the first pieces of a motion, where joints then keep bounds and do not go back; changes the motion.

    The additions lead at most a little way, rad, and back again.
    """
    count = len(added)
    candidate = longer.coefficients[:count] + added
    if moved is not None:
        candidate[:, 0] += moved
    faded = Motion(longer.knots[: count + 1], candidate)
    little = leads <= RETREAT_RAD / 2  # neither catches up with anything, nor goes back
    done = joints & _keeps(faded, bounds, bounds.slower(bounds.velocity if little else problem.caps))
    if not little and np.count_nonzero(done):
        done &= retreats(faded, problem, np.arange(longer.dof)) <= 0
    if not np.count_nonzero(done):
        return None
    np.copyto(longer.coefficients[:count], candidate, where=done)
    if moved is not None:
        moved = np.where(done, moved, 0.0)
        longer.coefficients[count:, 0] += moved
    return longer, done, moved


@lru_cache(maxsize=8)
def _little(dof: int) -> np.ndarray:
    """Ranges `[2, 4, D]` of additions so small that they neither catch up with anything, nor go back."""
    ranges = np.full((2, 4, dof), np.inf)
    ranges[:, 0] = RETREAT_RAD / 2
    return ranges * np.array([-1.0, 1.0])[:, None, None]


def _with_knot(motion: Motion, problem: Problem, time: float) -> Motion | None:
    """A copy of a motion with a knot at a time, s, and all coefficients; prolonged by rest if it is shorter.

    None: its plan does not rest then.
    """
    if time > problem.plan.duration and not problem.plan.ends_at_rest:
        return None
    knots = motion.knots
    at = int(knots.searchsorted(time))
    if (at < len(knots) and knots[at] - time < SHORTEST_GAP) or (at > 0 and time - knots[at - 1] < SHORTEST_GAP):
        return motion.raised()
    if at == len(knots):
        return motion.raised().then(resting(motion.end.position, time - motion.duration))
    return motion.until(time).then(motion.from_time(time)).raised()


def _keeps(motion: Motion, bounds: Bounds, ranges: np.ndarray) -> np.ndarray:
    """Flags of joints of a motion that keep ranges and bounds everywhere, `[D]`."""
    good = keeping(motion, ranges)
    if bounds.deceleration is not None and good.any():
        good &= bounds.steers(motion) <= 1 + ROUNDING
    return good
