"""Motions of actions, their bounds and their jumps."""

from __future__ import annotations

import numpy as np

from traj_integrator_ros.execution import native
from traj_integrator_ros.execution.bounds import Bounds
from traj_integrator_ros.execution.following import follow
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import SIZE, Motion, State
from traj_integrator_ros.execution.polynomials import between
from traj_integrator_ros.governor.reference import exact_motion
from traj_integrator_ros.kernels import MAPS
from traj_integrator_ros.requests.plan import Plan

HELD = [name for name, row in MAPS.items() if not row.uniform_dt_only and name != "acceleration_semi_implicit_euler"]
"""Maps of the node, of actions over steps that may differ."""
BANDWIDTH = 2.5
"""Hz."""


def cubic_spline(
    steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray | None = None, *, ends_at_rest: bool = False
) -> Motion:
    """A spline through rows, of which open ends have the velocity of the parabola through the rows beside."""
    knots = np.append(0.0, steps.cumsum())
    begin, end = np.gradient(rows, knots, axis=0, edge_order=min(2, len(steps)))[[0, -1]]
    spline = clamped_spline(steps, rows, begin if velocity is None else velocity, 0 * end if ends_at_rest else end)
    return spline._replace(ends_at_rest=ends_at_rest)


def clamped_spline(steps: np.ndarray, rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> Motion:
    """The C2 cubic spline through rows with velocities at its ends."""
    knots, velocities = np.append(0.0, steps.cumsum()), np.empty(rows.shape)
    native.spline(knots, np.ascontiguousarray(rows), *map(np.ascontiguousarray, (begin, end)), velocities)
    return Motion(knots, between(steps, np.stack([rows, velocities])), ends_at_rest=not end.any())


def motion_of_actions(name: str, steps: np.ndarray, actions: np.ndarray, start: State) -> Motion:
    """The motion that actions of a map describe alone, from a start state on."""
    plan = Plan(MAPS[name], steps, actions, start, 0)
    if not (plan.is_positions or plan.is_velocities):
        return exact_motion(plan, start)
    ends = actions if plan.is_positions else start.position + np.cumsum(actions * steps[:, None], axis=0)
    return cubic_spline(steps, np.vstack([start.position, ends]), start.velocity)


def padded(coefficients: np.ndarray) -> np.ndarray:
    """Coefficients `[N, SIZE, D]` from those of the lowest powers."""
    return np.pad(coefficients, [(0, 0), (0, SIZE - coefficients.shape[1]), (0, 0)])


def bounds(dof: int, velocity: float = 2.0, acceleration: float = 10.0, jerk: float = 500.0, position=np.inf) -> Bounds:
    """Bounds that are the same for all joints."""
    return Bounds(*(np.full(dof, value, float) for value in (-position, position, velocity, acceleration, jerk)))


def largest_jumps(motion: Motion) -> np.ndarray:
    """Largest jumps of position, velocity and acceleration at knots, `[3]`."""
    derivatives = [motion.coefficients]
    for _ in range(2):
        powers = np.arange(1, derivatives[-1].shape[1])[:, None]
        derivatives.append(derivatives[-1][:, 1:] * powers)
    h = motion.steps[:-1, None]
    ends = [sum(part[:-1, k] * h**k for k in range(part.shape[1])) for part in derivatives]
    return np.array([np.abs(end - part[1:, 0]).max(initial=0.0) for end, part in zip(ends, derivatives, strict=True)])


def spline(step: float, rows: object, *velocity: float, ends_at_rest: bool = False) -> Motion:
    """A spline through rows of one joint, at equal steps."""
    rows = np.asarray(rows, float)[:, None]
    return cubic_spline(np.full(len(rows) - 1, step), rows, *map(np.atleast_1d, velocity), ends_at_rest=ends_at_rest)


def leads_back(motion: Motion, until: float, side: float = 1.0) -> float:
    """Largest distance by which a motion goes back from where it has been."""
    way = side * motion.states_at(np.linspace(0, until, 1000, endpoint=False))[0]
    return float((np.maximum.accumulate(way) - way).max())


def largest(motion: Motion, order: int) -> float:
    """Largest absolute value of a derivative."""
    return float(np.abs(extremes(motion)[:, order]).max())


def followed_from(
    state: tuple[object, ...], plan: Motion, limits: Bounds | tuple[float, ...] = (2.0, 10.0, 500.0),
    floating: np.ndarray | None = None, most_apart: float = np.inf,
) -> Motion | None:  # fmt: skip
    """Follow a plan from a position, velocity and acceleration, or less: then the others are 0.

    Limits are those of velocity, acceleration and jerk, the same for all joints.
    """
    begin = State(*(np.broadcast_to(np.asarray(part, float), plan.dof).copy() for part in (*state, 0.0, 0.0)[:3]))
    within = limits if isinstance(limits, Bounds) else bounds(plan.dof, *limits)
    return follow(begin, plan, within, BANDWIDTH, floating, most_apart)
