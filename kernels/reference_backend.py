"""The REFERENCE backend: `reference` in float64 behind the launcher interface of `backends`.

The maps are linear in actions, start and goal, so a vjp is the transpose of their matrix, which is the map of unit
inputs. The gradient of dt is autograd of the map. Torch can differentiate both again, in either mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import reference
from .types import Inputs, Trajectory, VjpInputs

MATRIX_NUMBERS = 1 << 24
"""Largest number of elements in the matrices that are kept at a time; trajectories with different steps have one each.
"""


def _trajectory(name: str, values: Sequence[Tensor], dt: Tensor, scheme: dict[str, object]) -> Trajectory:
    """The function of `reference` of actions and the rows that it takes; without goal rows there is no goal."""
    action, *rows = values
    if name == "bspline":
        ends = (rows[:4], None if rows[4] is None else rows[4:])
    else:
        ends = rows[: 4 if name == "clique_central" else 3]
    return getattr(reference, name)(action, *ends, dt.double()[..., None], **scheme)


def dt_gradient(name: str, inputs: Inputs, upstream: Sequence[Tensor | None], **scheme: object) -> Tensor:
    """Return the gradient of dt in float64, in its shape, from those of the outputs (None for zero)."""
    values = _values_of(inputs)
    used = [place for place, gradient in enumerate(upstream) if gradient is not None]

    def outputs(dt: Tensor) -> list[Tensor]:
        trajectory = _trajectory(name, values, dt, scheme)
        return [trajectory[place] for place in used]

    _, pull = torch.func.vjp(outputs, inputs.dt.double())
    return pull([upstream[place].double() for place in used])[0]


def start_rows(start: Sequence[Tensor | None], start_index: Tensor | None, action: Tensor) -> list[Tensor]:
    """Return the start rows of every trajectory in float64, `[1 or B, D]`; zero where None was given."""
    rows = [row if row is None or start_index is None else row.index_select(0, start_index) for row in start]
    zero = action.new_zeros(1, action.shape[2], dtype=torch.float64)
    return [zero if row is None else row.double() for row in rows]


def collect_rows(gradient: Tensor, start_index: Tensor | None, pool: int, like: Tensor) -> Tensor:
    """Sum the rows `[B, D]` of all trajectories that start from the same row of the pool, always in the same order."""
    if start_index is None:
        total = gradient if gradient.shape[0] == pool else gradient.sum(0, keepdim=True)
        # A copy, because the argument may be a view of an upstream gradient.
        return total.to(like.dtype, copy=True, memory_format=torch.contiguous_format)
    total = gradient.new_zeros(pool, gradient.shape[1])
    if gradient.device.type == "cpu":
        total.index_add_(0, start_index, gradient)
    else:  # index_add_ adds in the order in which the threads arrive; an accumulating index_put_ sorts first
        total.index_put_((start_index.long(),), gradient, accumulate=True)
    return total.to(like.dtype)


def _values_of(inputs: Inputs) -> list[Tensor | None]:
    """Actions, and rows of start and goal for every trajectory, in float64; an absent goal's are None."""
    action, (start, goal) = inputs.action, inputs.ends
    goal_rows = goal.rows if goal.rows[0] is None else start_rows(*goal, action)
    return [action.double(), *start_rows(*start, action), *goal_rows]


def launchers(name: str) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., tuple[Tensor | None, ...]]]:
    """Return forward and vjp of the map `name`, as `backends` describes them."""

    def forward(inputs: Inputs, **scheme: object) -> tuple[Tensor, ...]:
        trajectory = _trajectory(name, _values_of(inputs), inputs.dt, scheme)
        return tuple(output.to(inputs.action.dtype) for output in trajectory)

    def vjp(inputs: VjpInputs, **scheme: object) -> tuple[Tensor | None, ...]:
        like, horizon, dt = inputs.like, inputs.action_horizon, inputs.dt
        # The maps treat all joints alike: with one joint for each input number, the result is the matrix.
        units = torch.eye(horizon + 8, dtype=torch.float64, device=like.device)
        rows = units[horizon:, None]
        if inputs.rows[1] < 0:
            rows = [*rows[:4], *[None] * 4]

        def transposed(dt: Tensor, upstream: Sequence[Tensor | None]) -> Tensor:
            actions = units[:horizon].expand(dt.shape[0], -1, -1)
            pairs = zip(_trajectory(name, (actions, *rows), dt, scheme), upstream, strict=True)
            return sum(output.mT @ one.double() for output, one in pairs if one is not None)

        size = max(1, MATRIX_NUMBERS // (4 * like.shape[1] * units.shape[0]))
        if dt.shape[0] <= size:
            gradient = transposed(dt, inputs.upstream)  # [B, numbers, D]
        else:
            steps = dt.split(size)
            parts = [[None] * len(steps) if one is None else one.split(size) for one in inputs.upstream]
            gradient = torch.cat([transposed(*part) for part in zip(steps, zip(*parts, strict=True), strict=True)])
        needs = inputs.needs
        action = gradient[:, :horizon].to(like.dtype, copy=True, memory_format=torch.contiguous_format)
        gradients = [action if needs[0] else None]
        for row, need in enumerate(needs[1:]):
            index, count = inputs.indices[row // 4], inputs.rows[row // 4]
            gradients.append(collect_rows(gradient[:, horizon + row], index, count, like) if need else None)
        return tuple(gradients)

    return forward, vjp
