"""Complete plans: the motion that a controller makes of their points, at rest at the last one. Knows no ROS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..execution.bounds import Bounds
from ..execution.complete import cubics, through_to_rest, with_all_velocities
from ..execution.interpolant import fit
from ..execution.limits import extremes, find_motion_violation
from ..execution.motion import Motion, State, resting, united
from ..execution.rows import Points, cubic_spline, motion_of_points
from ..execution.stopping import fastest_stop
from ..execution.tolerances import MOMENT_S, ROUNDING, SECOND_NS
from ..limits.joint_limits import JointLimits, forward_rows
from ..requests.plan import Plan

_NO_LIMIT = 1e9
"""Value of a missing limit: infinite ones would make differences of infinities."""
_SHORTEST_STEP_S = 1e-3
"""Cycle of a controller, s: positions that are closer in time say nothing about a velocity."""
_LONGEST_STEP_S = 60.0
"""Longest time, s, of a move within the limits; a longer one shows that the limits are not those of the robot."""
_STOPPING = 0.99
"""Factor on the shortest time to a goal, so that a plan of exactly that time does not end later by rounding."""
_BESIDE_RAD = 0.02
"""Largest distance, rad or m, of the command from the beginning of a recording, which a blend closes; it is some mrad.
"""
_FEWEST_RECORDED = 10
"""Smallest number of rows of a recording, in which noise can be told from the motion itself."""
_JOINED_S = 0.064
"""Time, s, in which a blend removes a difference of velocity at the usual bandwidth; times that, it is a distance."""
_SWUNG_RAD = 1e-3
"""Largest distance, rad or m, by which the motion near the rows of a recording may lead beyond the outermost row."""
_STOPS = 0.25, 0.5, 0.8, 1.0
"""Shares of the bounds that a stop before a goal uses; they are tried in this order, the gentlest first."""
_TURNS = 0.8
"""Share of the bounds that a stop beyond a goal uses: the rest is left for the way back."""
_SWUNG = 2.0, 2.2
"""Largest ratio of the acceleration (and jerk) of the controller's polynomial to those of a motion whose acceleration
(and jerk) jumps up to twice within a step.
"""
_SWUNG_VELOCITY = 0.13
"""Largest excess of the polynomial's velocity over that of such a motion, divided by acceleration and step."""
_OF_VELOCITY = 0.1
"""Largest excess of the polynomial's velocity as a share of the limit, for steps of any length."""
_OF_SLACK = 10.0
"""Excess of a velocity at a point over its limit that is allowed, as a multiple of the tolerance of limits: time
parameterizations keep limits at the points of a grid, and between these to about that much.
"""
_MOST_OFF = 0.01
"""Largest excess of a velocity at a point over its limit, as a share of the limit."""
_AT_POINT = 1.3
"""Factor on a limit of acceleration at points. Where the acceleration of a time parameterization jumps from one limit
to the other, the spline through its grid reaches 3 - sqrt(3) times the limit.
"""


def motions_of(
    plan: Plan, before: State, limits: JointLimits, assumed: Bounds, *, slows: bool
) -> Iterator[tuple[Motion, bool, np.ndarray]]:
    """Yield the motions of a complete plan, the best first, whether each keeps the limits at its points, and when it
    passes them, s `[N]`.

    The first motion interpolates the points as the controller does: cubics between points with velocities, and quintics
    between points with accelerations. Points without velocities between others are connected by splines.

    More motions follow in case that one exceeds limits: quintics in place of cubics, which cannot keep a limit of jerk;
    the smoothest motion near the positions if these are a recording; and the C2 spline through them, from the state of
    the robot to rest. If the plan may end later (`slows`), its steps are as long as limits of velocity demand, and
    at last also in proportion to the distances.

    A motion counts as keeping the limits if a motion within the limits can pass its points. The controller's
    interpolation may then exceed them where accelerations, or jerks, jump twice within a step.

    Args:
        plan: with at least one step, and with all values finite.
        before: state of the robot when the plan begins.
        limits: of the joints, as given.
        assumed: the same limits, with assumed values where none is given.
        slows: whether the motion may end later than the plan.

    """
    before = before.known
    position = np.vstack([before.position if plan.start is None else plan.start.position, plan.actions])
    if (rates := _rates(plan, position, before)) is not None:
        velocity, given = rates
        motion = _between(plan.steps, position, velocity, given)
        kept = _swings_little(motion, limits, assumed, position[0])
        kept = kept and keeps_at_points(plan.steps, position, velocity, given, limits, before.acceleration)
        long_enough = bool((plan.steps >= _SHORTEST_STEP_S).all())
        if kept or long_enough:
            yield motion, kept, plan.ends
        if given is None and limits.jerk is not None and long_enough:
            smooth = _between(plan.steps, position, velocity, _smooth(motion, before.acceleration))
            outward = np.array([[-1.0], [1.0]])  # The spline must swing no further than the sender may expect.
            if (outward * (extremes(smooth) - extremes(motion))[:, 0] <= ROUNDING).all():
                yield smooth, False, plan.ends
    steps = _possible(plan.steps, position, assumed) if slows else plan.steps
    if not _keeps(plan.steps, position, before, limits) and (motion := _recorded(plan, steps, before)) is not None:
        yield motion, False, steps.cumsum()
    motion = through_to_rest(steps, position, before, assumed.jerk)
    yield motion if len(steps) > 1 else _not_beyond(motion, before, assumed), False, steps.cumsum()
    even = _even(position, assumed)
    if slows and len(steps) > 1 and even.max() <= _LONGEST_STEP_S:
        yield through_to_rest(even, position, before, assumed.jerk), False, even.cumsum()


def _recorded(plan: Plan, steps: np.ndarray, before: State) -> Motion | None:
    """Return the smoothest motion near the rows of a recording, which a blend joins; None if the plan is none.

    Recordings have noise, and begin beside the robot although their first row comes at once.
    """
    rows, first = plan.actions, float(steps[0])
    if plan.start is not None:
        rows, first = np.vstack([plan.start.position, rows]), 0.0
    if len(rows) < _FEWEST_RECORDED or plan.duration - first < _SHORTEST_STEP_S:
        return None
    motion = fit(steps[-(len(rows) - 1) :], rows, rests=True).motion
    motion = motion.begun_earlier(first) if first else motion
    away = np.abs(before.beyond(motion.begin))[:2] * np.array([[1.0], [_JOINED_S]])
    least, most = extremes(motion)[:, 0]
    swings = np.maximum(most - rows.max(axis=0), rows.min(axis=0) - least)
    return None if away.max() > _BESIDE_RAD or swings.max() > _SWUNG_RAD else motion


def _not_beyond(motion: Motion, before: State, assumed: Bounds) -> Motion:
    """Change the motion to a goal so that no moving joint goes further beyond the goal than it has to.

    The motion of a joint that can stop before the goal becomes the sum of its gentlest stop there and of a quintic over
    the rest of the distance. Both only go forward, and so does their sum. A joint that cannot, stops beyond the goal,
    and the quintic leads back.
    """
    goal, begin = motion.end.position, before.position
    least, most = extremes(motion)[:, 0]
    inner, outer = np.minimum(begin, goal), np.maximum(begin, goal)
    beyond = (np.maximum(inner - least, most - outer) > ROUNDING) & (before.velocity != 0)
    tracks: dict[int, Motion] = {}
    for joint in np.flatnonzero(beyond).tolist():
        one, state, speed = assumed.of(joint), before.of(joint), before.velocity[joint]
        for share in (*_STOPS, _TURNS):
            gentle = replace(one, acceleration=share * one.stopping, jerk=share * one.jerk, deceleration=None)
            stop = fastest_stop(state, gentle)
            left, reach = goal[joint] - stop.end.position[0], (least if speed < 0 else most)[joint]
            if stop.duration <= motion.duration and left * speed >= 0:
                tracks[joint] = _with_way(stop, left, motion.duration)
                break
        else:
            if stop.duration <= motion.duration and (reach - stop.end.position[0]) * np.sign(speed) > ROUNDING:
                turned = _with_way(stop, left, motion.duration)
                if (np.abs(extremes(turned)[:, 1:, 0]).max(axis=0) <= np.ravel(one.rates)).all():
                    tracks[joint] = turned
    return united(tracks, motion)._replace(ends_at_rest=True) if tracks else motion


def _with_way(stop: Motion, way: float, lasts: float) -> Motion:
    """Return the sum of a stop of one joint and of a quintic over a distance, rad, that takes `lasts` s."""
    rows = np.array([[0.0], [way]])
    smooth = motion_of_points(Points(np.array([0, round(lasts * SECOND_NS)]), rows, 0 * rows, 0 * rows))
    rest = lasts - stop.duration
    stop = stop.then(resting(stop.end.position, rest)) if rest > MOMENT_S else stop
    times = stop.knots
    both = stop.raised()
    coefficients = both.coefficients + np.stack([smooth.from_time(t).raised().coefficients[0] for t in times[:-1]])
    return both._replace(coefficients=coefficients)


def _rates(plan: Plan, position: np.ndarray, before: State) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return velocities and perhaps accelerations at all points `[N + 1, dof]`; None if no point gives a velocity.

    Points that give none get those of a spline. As in the controller, accelerations count in segments that have them
    at both ends.
    """
    if plan.velocities is None:
        return None
    velocity = plan.velocities.copy()
    if np.isnan(velocity[0]).all():
        velocity[0] = before.velocity
    if np.isnan(velocity[-1]).all():
        velocity[-1] = 0.0
    given = ~np.isnan(velocity).any(axis=1)
    # A goal that comes in motion: rest at its end is all that its velocities say, and a cubic would pass it.
    if len(plan.steps) == 1 and plan.start is None and before.velocity.any() and not velocity[-1].any():
        return None
    if not given.all():
        if not given[1:-1].any():
            return None
        velocity = with_all_velocities(plan.steps, position, velocity)
    if plan.accelerations is None:
        return velocity, None
    acceleration = plan.accelerations.copy()
    if plan.start is None:
        acceleration[0] = before.acceleration
    given = ~np.isnan(acceleration).any(axis=1)
    counts = given & (np.append(given[1:], False) | np.append(False, given[:-1]))
    if not counts.any():
        return velocity, None
    if not counts.all():
        smooth = _smooth(cubics(plan.steps, position, velocity), before.acceleration)
        acceleration = np.where(counts[:, None], acceleration, smooth)
    return velocity, acceleration


def _keeps(steps: np.ndarray, position: np.ndarray, before: State, limits: JointLimits) -> bool:
    """Return whether the C2 spline through points keeps limits of acceleration and jerk."""
    spline = cubic_spline(steps, position, before.velocity, ends_at_rest=True)
    most = np.abs(extremes(spline)).max(axis=0)[2:]
    given = limits.acceleration, limits.jerk
    return all(limit is None or (one <= limit).all() for one, limit in zip(most, given, strict=True))


def _possible(steps: np.ndarray, position: np.ndarray, assumed: Bounds) -> np.ndarray:
    """Lengthen steps `[N]`, s, to what limits of velocity and, in the last move, of acceleration require."""
    distance = np.abs(np.diff(position, axis=0))
    least = _even(position, assumed)
    last = int(np.flatnonzero(distance.any(axis=1)).max(initial=0))
    least[last] = max(least[last], _STOPPING * np.sqrt(2 * distance[last] / assumed.stopping).max())
    return np.where(least <= _LONGEST_STEP_S, np.maximum(steps, least), steps)


def _even(position: np.ndarray, assumed: Bounds) -> np.ndarray:
    """Return steps `[N]`, s, in which every move is as fast as the limits of velocity allow."""
    return np.maximum((np.abs(np.diff(position, axis=0)) / assumed.velocity).max(axis=1), _SHORTEST_STEP_S)


def _smooth(motion: Motion, begins: np.ndarray) -> np.ndarray:
    """Return accelerations at knots, rad/s^2, `[N + 1, dof]`: the smaller of both sides, or 0 if the signs differ."""
    after, jerk = 2 * motion.coefficients[:, 2], 6 * motion.coefficients[:, 3]
    left, right = (after + jerk * motion.steps[:, None])[:-1], after[1:]
    smaller = np.where(np.abs(left) < np.abs(right), left, right)
    return np.vstack([begins, np.where(left * right > 0, smaller, 0.0), np.zeros_like(begins)])


def _between(steps: np.ndarray, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray | None) -> Motion:
    time_ns = np.concatenate([[0], np.rint(steps.cumsum() * SECOND_NS).astype(np.int64)])
    return motion_of_points(Points(time_ns, position, velocity, acceleration))._replace(ends_at_rest=True)


def _swings_little(motion: Motion, limits: JointLimits, assumed: Bounds, begin: np.ndarray) -> bool:
    """Return whether the controller's polynomials exceed the limits by no more than `_SWUNG` explains."""
    of_acceleration, of_jerk = _SWUNG
    swing = _SWUNG_VELOCITY * assumed.acceleration * motion.steps.max()
    swing = np.minimum(swing, _OF_VELOCITY * assumed.velocity)
    wider = {"velocity": (1 + _off_by(limits), swing), "acceleration": (of_acceleration, 0.0), "jerk": (of_jerk, 0.0)}
    wider["deceleration"] = wider["acceleration"]
    given = {name: getattr(limits, name) for name in wider}
    loose = {name: times * given[name] + more for name, (times, more) in wider.items() if given[name] is not None}
    return not find_motion_violation(motion, replace(limits, **loose).containing(begin, begin), steps=False)


def keeps_at_points(
    steps: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray | None,
    limits: JointLimits,
    begins: np.ndarray,
) -> bool:
    """Return whether a motion within the limits passes the points of a plan at their times.

    It does if all of the following holds. No velocity exceeds its limit, or changes up to any later point by more than
    the limits of acceleration allow. The distances between points are possible with the velocities at the points. The
    mean accelerations of neighbouring segments (or the accelerations that are given), and those at both ends, keep the
    limit of jerk. Velocities may exceed limits by a little, and accelerations at points by more, since a time
    parameterization keeps limits on a grid only.

    Args:
        steps: time between the points, s, `[N]`.
        position: rad, `[N + 1, dof]`, like velocity and acceleration (which may be None).
        velocity: rad/s.
        acceleration: rad/s^2.
        limits: of the joints.
        begins: acceleration of the robot when the plan begins, rad/s^2, `[dof]`.

    """
    more, h = 1 + limits.slack, steps[:, None]
    dof = position.shape[1]
    fastest, speeding, slowing, of_jerk = (
        np.minimum(np.full(dof, _NO_LIMIT) if limit is None else limit, _NO_LIMIT) * more
        for limit in (limits.velocity, limits.acceleration, limits.deceleration, limits.jerk)
    )
    if limits.deceleration is None:
        slowing = speeding
    either = np.maximum(speeding, slowing)
    little = _off_by(limits) * np.minimum(np.abs(velocity).max(axis=0), fastest)
    if (np.abs(velocity) > fastest + little).any():
        return False
    if acceleration is not None:
        forward = forward_rows(acceleration, velocity, (-slowing, speeding))
        if (forward < -_AT_POINT * slowing).any() or (forward > _AT_POINT * speeding).any():
            return False
    distance, v, w = np.diff(position, axis=0), velocity[:-1], velocity[1:]
    off = ROUNDING * (1 + np.abs(position).max())
    rises, falls = (_most_rise(sign * velocity, h * _rising(sign * v, sign * w, speeding, slowing)) for sign in (1, -1))
    if (np.maximum(rises, falls) > little + off / h.min()).any():
        return False
    longest = _longest(v, w, h, fastest, either)
    shortest = -_longest(-v, -w, h, fastest, either)
    off = off + little * h
    if ((distance > longest + off) | (distance < shortest - off)).any():
        return False
    if acceleration is not None:
        changes, over = np.diff(acceleration, axis=0), h
        ends = np.abs([acceleration[0] - begins, acceleration[-1]]), 0.0
    else:
        mean = (w - v) / h
        changes, over = np.diff(mean, axis=0), (h[1:] + h[:-1]) / 2
        ends = np.abs([mean[0] - begins, mean[-1]]), np.array([h[0], h[-1]]) / 2
    is_limited = of_jerk < _NO_LIMIT
    room = limits.slack * np.where(is_limited, either, 0.0)  # Equality is no violation.
    jumps = (np.abs(changes) > of_jerk * over + room).any(axis=0) | (ends[0] > of_jerk * ends[1] + room).any(axis=0)
    return not (is_limited & jumps).any()


def _off_by(limits: JointLimits) -> float:
    """Return the share of its limit by which a velocity at a point may exceed it."""
    return max(limits.slack, min(_OF_SLACK * limits.slack, _MOST_OFF))


def _rising(v: np.ndarray, w: np.ndarray, speeding: np.ndarray, slowing: np.ndarray) -> np.ndarray:
    """Return limits, rad/s^2, `[N, dof]`, of rising velocities: while a velocity is negative, the joint slows down."""
    either = np.maximum(speeding, slowing)
    return np.where(np.minimum(v, w) >= 0, speeding, np.where(np.maximum(v, w) <= 0, slowing, either))


def _most_rise(velocity: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the largest excess, `[dof]`, of a rise of velocity, between any two points, over what the steps allow."""
    more = velocity.copy()
    more[1:] -= allowed.cumsum(axis=0)
    return (more - np.minimum.accumulate(more)).max(axis=0)


def _longest(v: np.ndarray, w: np.ndarray, h: np.ndarray, fastest: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return the longest distance from velocity v to w in the time h, within a velocity and an acceleration."""
    peak = np.minimum((v + w + most * h) / 2, fastest)
    changing = (2 * peak - v - w) / most
    return (2 * peak**2 - v**2 - w**2) / (2 * most) + peak * (h - changing)
