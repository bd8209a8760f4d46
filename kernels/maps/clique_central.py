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
    `start_jerk` (rad/s^3, None means 0) for cubic ones, except in the rows that the hold at the end affects.

    `dt` has one step length for each trajectory: a number, a scalar tensor, `[B, 1]`, or `[B]` with `dt_per`.
    `truncate_terminal_gradient` drops the velocity, acceleration and jerk gradients of the last action, as the
    published backward does, instead of the exact vjp. All other arguments and the errors are those of `clique_step`.

    Returns:
        Trajectory of `[B, Ha + 4, D]` tensors in the action's dtype.

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
