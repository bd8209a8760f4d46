"""Position control by backward, and by five-point central differences (docs/kernels.md)."""

from __future__ import annotations

from torch import Tensor

from ..backends import Backend
from ..call import step
from ..operator import StepOperator
from ..reference import CENTRAL_EXTRA_HORIZON
from ..types import Trajectory
from .goal import with_goal


def clique_step(
    action: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    *,
    dt: float | Tensor,
    goal_position: Tensor | None = None,
    start_index: Tensor | None = None,
    goal_index: Tensor | None = None,
    dt_per: str = "step",
    backend: Backend | str | None = None,
) -> Trajectory:
    """Differentiate position actions by backward differences; exact for a robot that is already moving, too.

    Row 0 is the start state; `position[:, h] = action[:, h - 1]` for h >= 1, so the last action is unused and gets
    gradient 0. A goal replaces the last action that is used: the last row is the goal, and that action also gets
    gradient 0. Differentiable in every tensor argument, to any order.

    Args:
        action: `[B, H, D]` positions, rad; float32, float64, float16 or bfloat16.
        start_position: `[B, D]` rad, `[D]` for all, or a pool `[S, D]` for `start_index`; the dtype of action.
        start_velocity: like `start_position`, rad/s; None means 0.
        start_acceleration: like `start_position`, rad/s^2; None means 0.
        dt: step lengths, s: a number, a scalar tensor, `[H]`, `[B, 1]` or `[B, H]`; `dt[h]` leads from row h - 1 to h,
            `dt[0]` is the spacing of the points assumed before the start. Values are not checked when given as a
            tensor.
        goal_position: like `start_position`, its pool for `goal_index`; needs H >= 2. None: no goal.
        start_index: `[B]` int32 or int64, row of the start pool for each trajectory.
        goal_index: `[B]` int32 or int64, row of the goal pool for each trajectory.
        dt_per: what a one-dimensional `dt` has one element for: "step" (`[H]`) or "trajectory" (`[B]`).
        backend: the backend that computes; None for the device's default (see `backend_info`).

    Returns:
        Trajectory of tensors with the action's shape and dtype.

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape, device or value, named.
        BackendUnavailable: the backend cannot run on this device.

    """
    if goal_position is not None or goal_index is not None:
        action = with_goal(action, goal_position, goal_index, CLIQUE_GOAL)
    values = (action, start_position, start_velocity, start_acceleration)
    return step(CLIQUE, values, (start_index, None), dt, dt_per, backend)


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
    dt_per: str = "step",
    truncate_terminal_gradient: bool = False,
    backend: Backend | str | None = None,
) -> Trajectory:
    """Differentiate position actions by five-point central differences; the horizon grows by 4.

    Row 0 lies one step before the start, row 1 is the start, rows 2 to Ha + 1 are the actions and the last two hold the
    last action, or the goal in its place (that action gets gradient 0). Exact for quadratic motions, and with
    `start_jerk` (rad/s^3, None means 0) for cubic ones, except in the rows that the hold at the end affects.

    `dt` has one step length for each trajectory: a number, a scalar tensor, `[B, 1]`, or `[B]` with `dt_per`.
    `truncate_terminal_gradient` drops the velocity, acceleration and jerk gradients of the last action, as the
    published backward does, instead of the exact vjp. All other arguments and the errors are those of `clique_step`.

    Returns:
        Trajectory of `[B, Ha + 4, D]` tensors in the action's dtype.

    """
    if goal_position is not None or goal_index is not None:
        action = with_goal(action, goal_position, goal_index, CLIQUE_CENTRAL_GOAL)
    values = (action, start_position, start_velocity, start_acceleration, start_jerk)
    return step(CLIQUE_CENTRAL, values, (start_index, None), dt, dt_per, backend, truncate_terminal_gradient)


CLIQUE_GOAL = -2
CLIQUE = StepOperator("clique")
CLIQUE_CENTRAL_GOAL = -1
CLIQUE_CENTRAL = StepOperator(
    "clique_central", starts=4, extra_horizon=CENTRAL_EXTRA_HORIZON, truncates=True, one_dt_for="central differences"
)
