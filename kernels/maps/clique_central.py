"""Position control by five-point central differences (docs/kernels.md)."""

from __future__ import annotations

from torch import Tensor

from ..backends import Backend
from ..call import step
from ..operator import StepOperator
from ..reference import CENTRAL_EXTRA_HORIZON
from ..types import Trajectory
from .goal import with_goal


def clique_central_step(
    action: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    start_jerk: Tensor | None = None,
    *,
    dt: float | Tensor,
    goal_position: Tensor | None = None,
    start_index: Tensor | None = None,
    goal_index: Tensor | None = None,
    goal_mask: Tensor | None = None,
    dt_per: str = "step",
    truncate_terminal_gradient: bool = False,
    backend: Backend | str | None = None,
) -> Trajectory:
    """Differentiate position actions by five-point central differences; the horizon grows by 4.

    Row 0 lies one step before the start, row 1 is the start, rows 2 to Ha + 1 are the actions and the last two hold the
    last action, or the goal in its place (that action gets gradient 0). Exact for quadratic motions, and with
    `start_jerk` for cubic ones, except in the rows that the hold at the end affects. Differentiable in every tensor
    argument, to any order.

    Args:
        action: `[B, Ha, D]` positions, rad; float32, float64, float16 or bfloat16.
        start_position: `[B, D]` rad, `[1, D]` for all, or a pool `[S, D]` for `start_index`; the dtype of action.
        start_velocity: like `start_position`, rad/s; None means 0.
        start_acceleration: like `start_position`, rad/s^2; None means 0.
        start_jerk: like `start_position`, rad/s^3; None means 0.
        dt: step length, s: a number, a scalar tensor, or one for each trajectory (`[B, 1]`, or `[B]` with `dt_per`).
        goal_position: like `start_position`, its pool for `goal_index`; None: no goal.
        start_index: `[B]` int32 or int64, row of the start pool for each trajectory.
        goal_index: `[B]` int32 or int64, row of the goal pool for each trajectory.
        goal_mask: bool or uint8, one for each goal row (or, without an index, each trajectory): a goal that is masked
            out replaces nothing. None: all hold.
        dt_per: what a one-dimensional `dt` has one element for; here it can only be "trajectory".
        truncate_terminal_gradient: drop the velocity, acceleration and jerk gradients of the last action, as the
            published backward does, instead of the exact vjp.
        backend: the backend that computes; None for the device's default (see `backend_info`).

    Returns:
        Trajectory of `[B, Ha + 4, D]` tensors in the action's dtype.

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape, device or value, named; a `dt` that has one length for each step.
        BackendUnavailable: the backend cannot run on this device.

    """
    if goal_position is not None or goal_index is not None or goal_mask is not None:
        action = with_goal(action, goal_position, goal_index, CLIQUE_CENTRAL_GOAL, goal_mask)
    start = (start_position, start_velocity, start_acceleration, start_jerk)
    return step(CLIQUE_CENTRAL, action, start, dt, start_index, dt_per, backend, truncate_terminal_gradient)


CLIQUE_CENTRAL_GOAL = -1
CLIQUE_CENTRAL = StepOperator(
    "clique_central",
    start=("position", "velocity", "acceleration", "jerk"),
    extra_horizon=CENTRAL_EXTRA_HORIZON,
    truncates=True,
    one_dt_for="central differences",
)
