"""The REFERENCE backend: `reference` in float64 behind the launcher interface of `backends`.

The maps are linear in actions, start and goal, so a vjp is the transpose of their matrix, which is the map of unit
inputs. The gradient of dt is autograd of the map. Torch can differentiate both again, in either mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import reference
from .splines.form import SplineForm
from .types import End, Trajectory


def _bspline(action: Tensor, *rows_dt: Tensor, form: SplineForm) -> Trajectory:
    *rows, dt = rows_dt
    return reference.bspline(action, rows[:4], rows[4:] or None, dt, form)


MATRIX_NUMBERS = 1 << 24
"""Most numbers in the matrices that are kept at a time; each trajectory with steps of its own has one."""
_MAPS: dict[str, Callable[..., Trajectory]] = {
    "clique": reference.clique,
    "clique_central": reference.clique_central,
    "velocity": reference.velocity,
    "acceleration": reference.acceleration,
    "jerk": reference.jerk,
    "bspline": _bspline,
}
"""By name: functions of actions, rows of start (and goal, if there is one) and dt `[1 or B, 1 or H, 1]`."""


def dt_gradient(
    name: str, upstream: Sequence[Tensor | None], action: Tensor, ends: Sequence[End], dt: Tensor, **scheme: object
) -> Tensor:
    """Return the gradient of dt in float64, in its shape, from those of the outputs (None for zero)."""
    rows, given = _rows_of(ends, action), action.double()
    used = [place for place, gradient in enumerate(upstream) if gradient is not None]

    def outputs(dt: Tensor) -> list[Tensor]:
        trajectory = _MAPS[name](given, *rows, dt[..., None], **scheme)
        return [trajectory[place] for place in used]

    _, pull = torch.func.vjp(outputs, dt.double())
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


def _rows_of(ends: Sequence[End], action: Tensor) -> list[Tensor]:
    """Rows of start and goal, none for an absent goal."""
    there = [end for place, end in enumerate(ends) if place == 0 or end.rows[0] is not None]
    return [row for end in there for row in start_rows(end.rows, end.index, action)]


def _starts(name: str) -> int:
    """Kinds of start rows; where there may be a goal, it has as many."""
    return 4 if name in ("clique_central", "bspline") else 3


def _forward(name: str) -> Callable[..., tuple[Tensor, ...]]:
    starts = _starts(name)

    def forward(action: Tensor, *ends_dt: Tensor | None, **scheme: object) -> tuple[Tensor, ...]:
        *given, dt = ends_dt
        ends = [End(given[:starts], given[starts])]
        if given[starts + 1 :]:
            ends.append(End(given[starts + 1 : -1], given[-1]))
        trajectory = _MAPS[name](action.double(), *_rows_of(ends, action), dt.double()[..., None], **scheme)
        return tuple(output.to(action.dtype) for output in trajectory)

    return forward


def _vjp(name: str) -> Callable[..., tuple[Tensor | None, ...]]:
    starts = _starts(name)

    def vjp(
        *upstream_indices_dt: Tensor | None,
        start_rows: int,
        goal_rows: int = -1,
        action_horizon: int,
        needs: Sequence[bool],
        **scheme: object,
    ) -> tuple[Tensor | None, ...]:
        upstream, indices, dt = upstream_indices_dt[:4], upstream_indices_dt[4:-1], upstream_indices_dt[-1]
        like = next(gradient for gradient in upstream if gradient is not None)
        places = [(indices[0], start_rows)] * starts
        if goal_rows >= 0:
            places += [(indices[1], goal_rows)] * starts
        # The maps treat joints alike: one joint for each number that is put in gives the matrix.
        units = torch.eye(action_horizon + len(places), dtype=torch.float64, device=like.device)

        def transposed(dt: Tensor, upstream: Sequence[Tensor | None]) -> Tensor:
            actions = units[:action_horizon].expand(dt.shape[0], -1, -1)
            matrix = _MAPS[name](actions, *units[action_horizon:, None], dt.double()[..., None], **scheme)
            pairs = zip(matrix, upstream, strict=True)
            return sum(output.mT @ one.double() for output, one in pairs if one is not None)

        size = max(1, MATRIX_NUMBERS // (4 * like.shape[1] * units.shape[0]))
        if dt.shape[0] <= size:
            gradient = transposed(dt, upstream)  # [B, numbers, D]
        else:
            steps = dt.split(size)
            parts = [[None] * len(steps) if one is None else one.split(size) for one in upstream]
            gradient = torch.cat([transposed(*part) for part in zip(steps, zip(*parts, strict=True), strict=True)])
        action, rows = gradient[:, :action_horizon], gradient[:, action_horizon:].unbind(1)
        gradients = [action.to(like.dtype, copy=True, memory_format=torch.contiguous_format) if needs[0] else None]
        for row, (index, count), need in zip(rows, places, needs[1:], strict=False):
            gradients.append(collect_rows(row, index, count, like) if need else None)
        return (*gradients, *[None] * (len(needs) - len(gradients)))

    return vjp


clique_forward, clique_vjp = _forward("clique"), _vjp("clique")
clique_central_forward, clique_central_vjp = _forward("clique_central"), _vjp("clique_central")
velocity_forward, velocity_vjp = _forward("velocity"), _vjp("velocity")
acceleration_forward, acceleration_vjp = _forward("acceleration"), _vjp("acceleration")
jerk_forward, jerk_vjp = _forward("jerk"), _vjp("jerk")
bspline_forward, bspline_vjp = _forward("bspline"), _vjp("bspline")
