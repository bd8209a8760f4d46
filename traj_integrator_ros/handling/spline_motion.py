"""The motion of control points: the spline itself, with one polynomial for each segment. Knows no ROS."""

from __future__ import annotations

import numpy as np

from ..execution.motion import Motion, State
from ..kernels import BsplineLayout, SplineForm, bspline_segments
from .plan import Plan


def spline_motion(plan: Plan, start: State) -> Motion:
    """Return the spline of a plan with control points, from a start state to its goal, or to rest at the last point.

    Its pieces are the segments: controllers that interpolate by quintics reproduce each of them from its ends.
    """
    form, goal = plan.spline, plan.goal
    ends: dict[str, np.ndarray | None] = {"goal_position": None, "goal_velocity": None, "goal_acceleration": None}
    if goal is not None:
        ends = {f"goal_{name}": _row(values) for name, values in goal._asdict().items()}
    segments = bspline_segments(
        plan.actions[None],
        *(_row(values) for values in start),
        **ends,
        dt=plan.steps[0] / form.steps,
        degree=form.degree,
        steps=form.steps,
        layout=form.layout,
    )
    knots = np.concatenate([[0.0], plan.ends])
    return Motion(knots, segments.coefficients[0], ends_at_rest=goal is None or _rests_behind(goal, form))


def earlier(state: State, by: float) -> State:
    """The state `by` s earlier of a robot that has always had its present acceleration."""
    a = np.zeros_like(state.velocity) if state.acceleration is None else state.acceleration
    return State(state.position - state.velocity * by + a * (by * by / 2), state.velocity - a * by, state.acceleration)


def _rests_behind(goal: State, form: SplineForm) -> bool:
    """Whether the spline is at rest at its end, which in the published layout is a segment after the goal."""
    parts = (goal.velocity, goal.acceleration if form.layout is BsplineLayout.CUROBO else None)
    return not any(part is not None and part.any() for part in parts)


def _row(values: np.ndarray | None) -> np.ndarray | None:
    return None if values is None else values[None]
