"""A quadratic cost of trajectories as a differentiable function of actions, start, goal and dt (docs/kernels.md)."""

from __future__ import annotations

from torch import Tensor

from ..backends import Backend, check_backend
from ..maps.goal import with_goal
from ..maps.table import ControlMap
from ..maps.table import control_map as map_of
from ..types import DT_PER, ControlSpace, Inputs, Trajectory
from ..validation import prepare_step
from .fused import CostProblem, cost_of_problem, ordinary_cost
from .terms import QuadraticCost, checked_duration_weight, checked_terms


def quadratic_cost(
    action: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    start_jerk: Tensor | None = None,
    *,
    cost: QuadraticCost,
    control_map: ControlMap | ControlSpace | str,
    dt: float | Tensor,
    goal_position: Tensor | None = None,
    goal_velocity: Tensor | None = None,
    goal_acceleration: Tensor | None = None,
    goal_jerk: Tensor | None = None,
    start_index: Tensor | None = None,
    goal_index: Tensor | None = None,
    dt_per: str = "step",
    backend: Backend | str | None = None,
) -> Tensor:
    """Return the cost of the trajectories of `control_map`: squared deviations and violations of limits, and duration.

    On the CPU, one pass computes map, cost and the gradients of actions, start and goal, in float64 for every dtype. No
    trajectory is written to memory, and the gradients are ready together with the cost. A gradient of dt or of the
    cost's own tensors, a second derivative, and transforms use a composition of the maps' and torch's own operators.
    The cost is differentiable in every tensor argument, to any order.

    `cost` has weights, targets and limits of the four outputs (`CostTerm`), and the weight of the duration.
    `control_map` is a map, or an argument of the function of that name. All other arguments and the errors are those of
    the map's public function; arguments that the map does not take must be None.

    Returns:
        `[B]`, in the action's dtype.

    """
    kernel = map_of(control_map)
    operator = kernel.operator
    chosen = check_backend(backend)
    start = (start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    goals = operator.goals or len(kernel.goal)
    for end, rows, taken in (("start", start, operator.starts), ("goal", goal, goals)):
        for kind in range(taken, len(rows)):
            if rows[kind] is not None:
                raise ValueError(f"{end}_{Trajectory._fields[kind]}: expected None, because {kernel.name} takes none")
    if not goals and goal_index is not None:
        raise ValueError(f"goal_index: expected None, because {kernel.name} takes no goal")
    placed = kernel.goal_place and (goal_position is not None or goal_index is not None)
    plain = chosen is None and cost.duration_weight is None and not placed
    if plain and dt_per in DT_PER:
        value = ordinary_cost(kernel, (action, *start, *goal), (start_index, goal_index), dt, cost)
        if value is not None:
            return value
    if placed:
        action = with_goal(action, goal_position, goal_index, kernel.goal_place)
        goal, goal_index = (None,) * 4, None
    inputs = prepare_step(operator, Inputs((action, *start, *goal), (start_index, goal_index), dt), dt_per)
    batch, horizon, dof = action.shape
    terms = checked_terms(cost, action, (batch, kernel.output_horizon(horizon), dof))
    value = cost_of_problem(CostProblem(kernel, inputs, terms, chosen))
    if cost.duration_weight is None:
        return value
    weight = checked_duration_weight(cost, action)
    return value + (weight * kernel.duration(inputs.dt, horizon)).to(value.dtype)
