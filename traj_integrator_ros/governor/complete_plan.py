"""Complete plans: the motion that a controller makes of their points, at rest at the last one. Knows no ROS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..execution.bounds import Bounds
from ..execution.complete import played
from ..execution.interpolant import fit
from ..execution.limits import extremes, find_motion_violation
from ..execution.motion import Motion, State
from ..execution.polynomials import powers_of
from ..execution.rows import Reference
from ..execution.tolerances import ROUNDING
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME
from ..requests.plan import Plan

_SHORTEST_STEP_S = 1e-3
"""Cycle of a controller, s: positions that are closer in time say nothing about a velocity."""
_LONGEST_STEP_S = 60.0
"""Longest time, s, of a move within the limits; a longer one shows that the limits are not those of the robot."""
_STOPPING = 0.99
"""Factor on the shortest time to a goal, so that a plan of exactly that time does not end later by rounding."""
_CONTRADICTORY = 2.0
"""Ratio of slowed to planned duration beyond which the velocities of points are taken to contradict their positions."""
_BESIDE_RAD = 0.02
"""Largest distance, rad or m, of the command from the beginning of a recording, which a blend closes; it is some mrad.
"""
_FEWEST_RECORDED = 10
"""Smallest number of rows of a recording, in which noise can be told from the motion itself."""
_SWUNG_RAD = 1e-3
"""Largest distance, rad or m, by which the motion near the rows of a recording may lead beyond the outermost row."""
_OFF = 0.01
"""Excess of a velocity at a point over its limit that is allowed, as a share of it: time parameterizations keep limits
at the points of a grid, and between these to about that much.
"""
_SWUNG = {"velocity": 1.1, "acceleration": 2.0, "deceleration": 2.0, "jerk": 2.2}
"""Largest ratios of the controller's polynomial to a motion whose acceleration (and jerk) jumps up to twice in a step.
"""
_OF_MEANS = {"velocity": 1 + _OFF, "acceleration": 1.03, "deceleration": 1.03}
"""Factors on limits of velocities at points, and of mean accelerations of steps, which such velocities cause."""
_AT_POINTS = {"acceleration": 1.3, "deceleration": 1.3, "jerk": 1.0}
"""Factors on limits of accelerations at points, and of their changes. Where the acceleration of a time parameterization
jumps from one limit to the other, the spline through its grid reaches 3 - sqrt(3) times the limit.
"""


def complete_motion(plan: Plan, before: State, parameters: NodeParameters, assumed: Bounds) -> Reference:
    """Return the motion of a complete plan.

    It interpolates the points as the controller does: cubics between points with velocities, and quintics between
    points with accelerations. Points without velocities between others are connected by splines. The C2 spline from the
    state of the robot to rest passes positions alone, those whose velocities contradict them, and those whose cubics
    exceed a limit of jerk, which cubics cannot keep.

    A motion counts as keeping the limits if a motion within the limits can pass its points. The controller's
    interpolation may then exceed them where accelerations, or jerks, jump twice within a step.

    `before` is the state of the robot when the plan begins, and `assumed` has values where no limit is given.
    """
    before, limits, slows = before.known, parameters.joint_limits, parameters.limits_action == ACTION_RETIME
    position = np.vstack([before.position if plan.start is None else plan.start.position, plan.actions])
    if (said := _said(plan, position, before)) is not None:
        loose = _times(limits, _SWUNG).containing(position[0], position[0])
        is_near = not find_motion_violation(said, loose, steps=False)
        if is_near and _keeps_at_points(said, limits, before.acceleration):
            return Reference(said, plan.ends, keeps_limits=True)
        # Cubics cannot keep a limit of jerk.
        keeps_all = said.with_accelerations or limits.jerk is None or not slows
        contradicts = slows and _slowed_s(said, assumed) > _CONTRADICTORY * plan.duration
        if keeps_all and not contradicts and (plan.steps >= _SHORTEST_STEP_S).all():
            return Reference(said, plan.ends)
    steps, nothing = plan.steps, np.full(position.shape, np.nan)
    rates = _with_ends(nothing, before.velocity), _with_ends(nothing, before.acceleration)
    motion = played(steps, position, *rates)
    most = np.abs(extremes(motion)).max(axis=0)[1:]
    given = limits.velocity, limits.acceleration, limits.jerk
    beyond = [limit is not None and (one > limit).any() for one, limit in zip(most, given, strict=True)]
    if any(beyond[1:]) and (recorded := _recorded(plan, before, assumed)) is not None:
        return Reference(recorded, plan.ends)
    if slows and any(beyond):  # in steps as long as limits demand
        steps = _possible(steps, position, assumed)
        motion = played(steps, position, *rates)
    return Reference(motion, steps.cumsum())


def _slowed_s(motion: Motion, assumed: Bounds) -> float:
    """Return the duration, s, of a motion that is slowed as a whole until it keeps its limits."""
    ratios = np.abs(extremes(motion)).max(axis=0)[1:] / assumed.raised_to(motion).rates
    orders = 3 if motion.with_accelerations else 2
    return motion.duration * max(1.0, *(ratios[k].max() ** (1 / (k + 1)) for k in range(orders)))


def _recorded(plan: Plan, before: State, assumed: Bounds) -> Motion | None:
    """Return the smoothest motion near the rows of a recording, which a blend joins; None if the plan is none.

    Recordings have noise, and begin beside the robot although their first row comes at once.
    """
    rows, first = plan.actions, float(plan.steps[0])
    if plan.start is not None:
        rows, first = np.vstack([plan.start.position, rows]), 0.0
    if len(rows) < _FEWEST_RECORDED or plan.duration - first < _SHORTEST_STEP_S:
        return None
    motion, _ = fit(plan.steps[-(len(rows) - 1) :], rows, rests=True)
    motion = motion.from_time(-first) if first else motion
    away = np.abs(before.position - motion.begin.position).max()
    least, most = extremes(motion)[:, 0]
    swings = np.maximum(most - rows.max(axis=0), rows.min(axis=0) - least).max()
    outside = ((least < assumed.position_min) | (most > assumed.position_max)).any()
    return None if away > _BESIDE_RAD or swings > _SWUNG_RAD or outside else motion


def _said(plan: Plan, position: np.ndarray, before: State) -> Motion | None:
    """Return what a controller makes of the velocities, and perhaps accelerations, at points; None if none has any.

    As in the controller, accelerations count in segments that have them at both ends.
    """
    if plan.velocities is None:
        return None
    velocity, acceleration = _with_ends(plan.velocities, before.velocity), plan.accelerations
    given = ~np.isnan(velocity).any(axis=1)
    if len(given) > 2 and not given[1:-1].any():
        return None
    if acceleration is not None:
        begin = before.acceleration if plan.start is None else acceleration[0]
        given = ~np.isnan(np.vstack([begin, acceleration[1:]])).any(axis=1)
        counts = given & (np.append(given[1:], False) | np.append(False, given[:-1]))
        acceleration = np.where(counts[:, None], np.vstack([begin, acceleration[1:]]), np.nan)
        acceleration = _with_ends(acceleration, before.acceleration) if counts.any() else None
    return played(plan.steps, position, velocity, acceleration)


def _with_ends(rates: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Return rates at points, `[N + 1, dof]`; where none is given at an end, those of the robot, and then 0."""
    rates = rates.copy()
    for end, otherwise in ((0, begin), (-1, 0.0)):
        if np.isnan(rates[end]).all():
            rates[end] = otherwise
    return rates


def _possible(steps: np.ndarray, position: np.ndarray, assumed: Bounds) -> np.ndarray:
    """Lengthen steps `[N]`, s, to what limits of velocity and, in the last move, of acceleration require."""
    distance = np.abs(np.diff(position, axis=0))
    least = np.maximum((distance / assumed.velocity).max(axis=1), _SHORTEST_STEP_S)
    last = int(np.flatnonzero(distance.any(axis=1)).max(initial=0))
    least[last] = max(least[last], _STOPPING * np.sqrt(2 * distance[last] / assumed.stopping).max())
    return np.where(least <= _LONGEST_STEP_S, np.maximum(steps, least), steps)


def _times(limits: JointLimits, factors: dict[str, float]) -> JointLimits:
    """Return limits multiplied by factors, by name; rates that have none are unlimited."""
    rates = {name: getattr(limits, name) for name in _SWUNG}
    some = {name: None if most is None or name not in factors else factors[name] * most for name, most in rates.items()}
    return replace(limits, **some)


def _keeps_at_points(said: Motion, limits: JointLimits, begins: np.ndarray) -> bool:
    """Return whether a motion within the limits passes the points of what a plan says at their times.

    It does if velocities, the mean accelerations of steps, and the accelerations that are given, keep their limits, if
    the distances between points are possible with the velocities at the points, and if the changes of mean (or given)
    accelerations, the first one from the acceleration `begins`, keep the limit of jerk. Velocities may exceed limits by
    a little, and accelerations at points by more, since a time parameterization keeps limits on a grid only.
    """
    (position, velocity, acceleration), h = said.states, said.steps[:, None]
    at, mean = said.knots, np.diff(velocity, axis=0) / h
    held = Motion(at, powers_of([0 * mean, velocity[:-1], mean / 2]))
    if not said.with_accelerations:  # The mean is that of the middle of a step.
        at = np.concatenate([[0.0], at[:-1] + said.steps / 2, at[-1:]])
        acceleration = np.vstack([mean[:1], mean, mean[-1:]])
    acceleration[0], acceleration[-1] = begins, 0.0
    speeds, jerk = held.states_at(at[:-1], 2)[1], np.diff(acceleration, axis=0) / np.diff(at)[:, None]
    linear = Motion(at, powers_of([0 * jerk, speeds, acceleration[:-1] / 2, jerk / 6]))
    anywhere = replace(limits, position_min=None, position_max=None)
    judged = (held, _times(anywhere, _OF_MEANS)), (linear, _times(anywhere, _AT_POINTS))
    if any(find_motion_violation(*one, steps=False) for one in judged):
        return False
    fastest, most = (np.inf if one is None else one for one in (limits.velocity, limits.acceleration))
    most = most if limits.forward is None else np.maximum(*np.abs(limits.forward))
    way, room = np.diff(position, axis=0), ROUNDING + _OFF * h * np.minimum(np.abs(velocity).max(axis=0), fastest)
    further = np.abs(way - h * (velocity[:-1] + velocity[1:]) / 2) - h**2 * (most - mean**2 / most) / 4
    return not ((np.abs(way) > h * fastest + room) | (further > room)).any()
