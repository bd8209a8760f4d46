"""The rows of a plan, from the kernel of its control map, and the motion of its actions between them. Knows no ROS."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..execution.motion import Motion, State
from ..execution.polynomials import between, powers_of
from ..execution.rows import knots_of
from ..kernels import BsplineLayout, ControlSpace, SplineForm
from ..requests.plan import Plan

_CUBIC = 3


def rows_of(plan: Plan, start: State) -> np.ndarray:
    """Position, velocity, acceleration and jerk at the beginning of a plan and after each of its H steps.

    The kernel of the control map (docs/kernels.md) computes them in float64 on the CPU, so that no robot waits for a
    device. The kernel gets the last action twice, because the last action of a map with as many rows as actions affects
    no row.

    Args:
        plan: with steps, and with all actions finite.
        start: state at its beginning; an unknown acceleration counts as 0.

    Returns:
        float64 `[4, H + 1, dof]`: rad, rad/s, rad/s^2, rad/s^3.

    """
    actions, dt, every, goals = plan.actions, _step_lengths(plan.steps), 1, {}
    if plan.spline is not None:
        dt, every = float(plan.steps[0]) / plan.spline.steps, plan.spline.steps
        goals = {f"goal_{name}": _row(values) for name, values in (plan.goal or State(None, None))._asdict().items()}
    else:
        actions = np.concatenate([actions, actions[-1:]])
    rows = plan.map.step(torch.from_numpy(actions)[None], *map(_row, start), dt=dt, **goals)
    first = plan.map.start_row
    return torch.cat(rows)[:, first : first + every * len(plan.steps) + 1 : every].numpy()


def motion_between(plan: Plan, rows: np.ndarray) -> Motion | None:
    """Return the exact motion of held accelerations, held jerks or control points; None for other actions.

    Args:
        plan: the plan of the rows.
        rows: as `rows_of` returns them.

    """
    knots, (position, velocity, acceleration, jerk) = knots_of(plan.steps), rows
    if plan.spline is not None:
        rests = plan.goal is None or _rests_behind(plan.goal, plan.spline)
        if plan.spline.degree == _CUBIC:
            pieces = powers_of([position[:-1], velocity[:-1], acceleration[:-1] / 2, jerk[:-1] / 6])
        else:
            pieces = between(plan.steps, rows[:3])
        return Motion(knots, pieces, ends_at_rest=rests)
    if plan.map.control_space is ControlSpace.JERK:
        return Motion(knots, powers_of([position[:-1], velocity[:-1], acceleration[:-1] / 2, plan.actions / 6]))
    if plan.holds_accelerations:
        return Motion(knots, powers_of([position[:-1], velocity[:-1], plan.actions / 2]), with_accelerations=False)
    return None


def _step_lengths(steps: np.ndarray) -> float | Tensor:
    """Return the steps as the maps take them: the first one also leads to the start."""
    if (steps == steps[0]).all():
        return float(steps[0])
    return torch.from_numpy(np.concatenate([steps[:1], steps]))[None]


def _rests_behind(goal: State, form: SplineForm) -> bool:
    """Return whether the spline rests at its end, which in cuRobo's layout is one segment after the goal."""
    parts = (goal.velocity, goal.acceleration if form.layout is BsplineLayout.CUROBO else None)
    return not any(part is not None and part.any() for part in parts)


def _row(values: np.ndarray | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)[None]
