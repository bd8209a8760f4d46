"""From the state that a controller commands now to a plan: each joint by itself, within limits, as smooth as may be.

A joint that is on its plan keeps it unchanged. Otherwise the difference fades, over the first of several times in which
that keeps all limits: from the motion in execution where that is on the same plan, else as a quintic. Where none does,
the joint takes the fastest way (ruckig) to the earliest point of the plan that it can reach in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .bounds import Bounds
from .extremes import extremes
from .fading import blended, faded
from .motion import Motion, State
from .reaching import Problem, floating_to, peak_speed, reaching
from .tracks import SHORTEST_GAP, Track, united

SAME = (1e-10, 1e-8, 1e-6)
"""rad, rad/s, rad/s^2: differences up to these are rounding, and nothing is done about them."""
_SAME = np.array(SAME)[:, None]
_CLOSING_S = 5.0
"""A joint catches up fast enough to close a gap within this time, even if its plan is slow."""
_SLOW = 1e-6
_SLOWEST = 0.01
"""Share of the largest velocity that a joint may always use to catch up."""
_STEPS = 3
"""Steps of the plan in which a difference of acceleration alone fades: it leads away from the rows meanwhile."""


@dataclass(frozen=True)
class Joining:
    """How plans are joined."""

    fade_times: Sequence[float]
    """s, tried in this order."""
    catch_up: float
    """Largest speed while joining, relative to the plan's largest from row to row."""


def join(
    present: State,
    plan: Motion,
    bounds: Bounds,
    joining: Joining,
    *,
    earliest: float = 0.0,
    floating: np.ndarray | None = None,
    pace: np.ndarray | float = np.inf,
    executed: Motion | None = None,
    own_until: float = np.inf,
    brakes_at: float | None = None,
) -> tuple[Motion, np.ndarray] | None:
    """Return the motion that begins in a state and becomes a plan, or None if a joint cannot reach its plan.

    Args:
        present: what is commanded when the plan begins.
        plan: from then on; if it does not rest at its end, it is joined before.
        bounds: see `Bounds`; they hold for the plan.
        joining: see `Joining`.
        earliest: s; the plan holds from this time on only, and is not joined before.
        floating: joints whose plan is about velocities, bool `[D]`: it is shifted to where they have reached them.
        pace: rad/s, `[D]`, at which joints come to a plan that rests.
        executed: what would be executed from the present state on without the plan; None: not known.
        own_until: s; until then the plan shows what it asks for, not how it is stopped.
        brakes_at: s; from then on the plan is being stopped; None: it ends by itself.

    Returns:
        The motion, and by how much the plan was shifted, rad, `[D]`.

    """
    begin = plan.begin
    a = np.zeros(plan.dof) if present.acceleration is None else present.acceleration
    lack = np.array([present.position - begin.position, present.velocity - begin.velocity, a - begin.acceleration])
    if not plan.with_accelerations:
        lack[2] = 0.0  # it jumps anyway
    beyond = np.abs(lack) > _SAME
    shift = np.zeros(plan.dof)
    pending = beyond.any(axis=0) | (earliest > 0)
    if not np.count_nonzero(pending):  # a quarter of the time of any(), in what each sequence passes
        return plan, shift
    floats = np.zeros(plan.dof, bool) if floating is None else floating & beyond[1:].any(axis=0)
    caps, moves = _speed_caps(_speeds(plan, earliest, brakes_at, floats), lack, present, bounds, joining.catch_up, pace)
    times = joining.fade_times
    longest = max(times, default=0.0)
    problem = Problem(
        plan, own_until, executed, present, a, lack, bounds, caps, floats, moves, earliest, longest, brakes_at
    )
    joined = plan
    if plan.with_accelerations:
        far, release = beyond[:2].any(axis=0), min(_STEPS * float(plan.steps[0]), longest)
        for fades, spans, joints in (
            (blended, times, pending),
            (faded, (release, *reversed(times)), pending & ~far),
            (partial(faded, near=True), times, pending & far),
            (faded, times, pending & far),
        ):
            for time in spans:
                left = joints & pending
                if not np.count_nonzero(left):
                    break
                if time > 0 and time >= earliest:
                    joined, done, moved = fades(joined, problem, left, time)
                    shift += moved
                    pending = pending & ~done
                    if not np.count_nonzero(pending):
                        return joined, shift
    tracks: dict[int, Track] = {}
    for joint in np.flatnonzero(pending).tolist():
        found = floating_to(problem, joint) if floats[joint] else reaching(problem, joint)
        if found is None:
            return None
        tracks[joint], shift[joint] = found
    motion = united(tracks, joined, with_accelerations=plan.with_accelerations, ends_at_rest=plan.ends_at_rest)
    return motion, shift


def _speed_caps(
    speeds: tuple[np.ndarray, np.ndarray],
    lack: np.ndarray,
    present: State,
    bounds: Bounds,
    catch_up: float,
    pace: np.ndarray | float,
) -> tuple[np.ndarray, np.ndarray]:
    """Largest speed of each joint while it joins, and whether its plan moves."""
    own, peak = speeds
    a = 0.0 if present.acceleration is None else present.acceleration
    speed = peak_speed(present.velocity, a, bounds.jerk)
    closing = np.maximum(np.abs(lack[0]) / _CLOSING_S + _SLOWEST * bounds.velocity, speed)
    moves = own > _SLOW
    caps = np.maximum(np.where(moves, np.maximum(catch_up * own, peak), pace), closing)
    return np.minimum(caps, bounds.velocity), moves


def _speeds(
    plan: Motion, earliest: float, brakes_at: float | None, floats: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Largest mean speed of a plan's pieces, `[D]`, and the largest speed of the plan and its brake.

    A spline that rings is faster than its plan, which is not to be caught up with at even more. Nor does the first
    piece show how fast a plan of positions is: it leads from the plan before, wherever that is.
    """
    knots, begin = plan.knots, max(earliest, float(plan.knots[1]))
    last = len(knots) - 1 if brakes_at is None else max(int(knots.searchsorted(brakes_at - SHORTEST_GAP)), 1)
    rows = plan.coefficients[: last + 1, 0]
    if last == len(plan.coefficients):
        rows = np.vstack([rows, plan.end.position])
    means = np.abs(rows[1:] - rows[:-1]) / (knots[1 : last + 1] - knots[:last])[:, None]
    first = int(knots.searchsorted(begin - SHORTEST_GAP))
    own = means[min(first, last - 1) :].max(axis=0)
    least, most = extremes(plan.from_time(begin) if begin < plan.duration else plan)
    return np.where(floats, means.max(axis=0), own), np.maximum(most[1], -least[1])
