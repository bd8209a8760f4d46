"""Uniform B-splines between a start and a goal state (docs/bsplines.md)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..backends import Backend
from ..call import step
from ..operator import StepOperator
from ..reference_backend import start_rows
from ..types import BsplineLayout, Inputs, Trajectory
from ..validation import prepare_step


def bspline_step(
    control_points: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    start_jerk: Tensor | None = None,
    *,
    goal_position: Tensor | None = None,
    goal_velocity: Tensor | None = None,
    goal_acceleration: Tensor | None = None,
    goal_jerk: Tensor | None = None,
    dt: float | Tensor,
    degree: int = 3,
    steps: int = 4,
    layout: BsplineLayout | str = BsplineLayout.TIGHT,
    start_index: Tensor | None = None,
    goal_index: Tensor | None = None,
    dt_per: str = "step",
    backend: Backend | str | None = None,
) -> Trajectory:
    """Evaluate a uniform B-spline and its derivatives, from a start state to rest or to a goal state.

    Segment i at t in [0, 1] is `sum_m b_m(t) c[i + m]`, m = 0 .. K, of the extended control points c; it lasts `h =
    steps dt` and has `steps` rows, and the last row is the end of the last segment. The points c that represent a state
    (p, v, a, j) are the polar form of its Taylor polynomial,

        P_m = p + x h v + 1/2 (x^2 - (K+1)/12) h^2 a + 1/6 (x^3 - (K+1) x / 4) h^3 j,     x = m - (K-1)/2

    - "tight": c = S_0 .. S_{K-1}, u_0 .. u_{n-1}, G_0 .. G_{K-1}; n + K segments. The start is exact at row 0 and the
      goal at the last row.
    - "curobo": c = S_0 .. S_K, u_0 .. u_{n-1}, u_{n-1} K times, or with a goal S_0 .. S_K, u_0 .. u_{n-2}, G_0 .. G_K;
      n + K + 1 segments. No control point affects the first segment; the last control point before a goal is ignored
      (gradient 0) and the goal is reached a segment before the end. Degree 3 ignores the jerk of start and goal.

    Without a goal both come to rest at the last control point (which is repeated K times). With degree 3, jerk is
    constant in each segment: continuous from the right, at the last row from the left. Differentiable in every tensor
    argument, to any order; dt affects the positions, too, through h in the points that represent a state.

    Args:
        control_points: `[B, n, D]`, rad; float32, float64, float16 or bfloat16.
        start_position: `[B, D]` rad, `[D]` for all, or a pool `[S, D]` for `start_index`; the dtype of the points.
        start_velocity: like `start_position`, rad/s; None means 0.
        start_acceleration: like `start_position`, rad/s^2; None means 0.
        start_jerk: like `start_position`, rad/s^3; None means 0. Without effect on "tight" of degree 3.
        goal_position: like `start_position`, its pool for `goal_index`; None: no goal, rest at the last control point.
        goal_velocity: like `goal_position`, rad/s; None means 0.
        goal_acceleration: like `goal_position`, rad/s^2; None means 0.
        goal_jerk: like `goal_position`, rad/s^3; None means 0. Without effect on "tight" of degree 3.
        dt: time between two rows, s: a number, a scalar tensor, or one for each trajectory (`[B, 1]`, or `[B]` with
            `dt_per`). Values are not checked when given as a tensor.
        degree: K, 3 to 5: position is K - 1 times continuously differentiable.
        steps: rows for each segment, >= 1.
        layout: "tight" or "curobo".
        start_index: `[B]` int32 or int64, row of the start pool for each trajectory.
        goal_index: `[B]` int32 or int64, row of the goal pool for each trajectory.
        dt_per: what a one-dimensional `dt` has one element for; here it can only be "trajectory".
        backend: the backend that computes; None for the device's default (see `backend_info`).

    Returns:
        Trajectory of `[B, H, D]` tensors in the dtype of the points; H is `(n + K) steps + 1`, of "curobo"
        `(n + K + 1) steps + 1`.

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape, device or value, named; a `dt` that has one length for each step.
        BackendUnavailable: the backend cannot run on this device.

    """
    start = (control_points, start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    return step(BSPLINE, (*start, *goal), (start_index, goal_index), dt, dt_per, backend, degree, steps, layout)


def spline_arguments(
    given: Inputs, dt_per: str, name: str = "control_points"
) -> tuple[Tensor, list[Tensor], list[Tensor] | None, Tensor, torch.dtype]:
    """Check the arguments as `bspline_step` does; actions are control points, or what `name` calls them in errors.

    Returns what the functions of `reference` take, in float64: actions, start, goal, dt `[1 or B, 1, 1]`; and the dtype
    of the result: that of the actions, or float32 where autocast widens them.
    """
    inputs = prepare_step(BSPLINE, given, dt_per, name)
    action = inputs.action
    begin, end = (None if end.rows[0] is None else start_rows(*end, action) for end in inputs.ends)
    return action.double(), begin, end, inputs.dt.double()[..., None], action.dtype


BSPLINE = StepOperator("bspline", 4, splines=True, one_dt_for="B-splines", action_name="control_points")
