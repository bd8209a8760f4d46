"""The control maps in plain torch: the oracle for every faster kernel.

All functions take start rows `[1 or B, D]` and `dt` as `[1 or B, 1 or H, 1]` seconds, and compute in the dtype they are
given (the public functions give them float64). They are compositions of differentiable torch operations: reverse mode,
forward mode, higher derivatives, `vmap` and `torch.compile` come from torch itself.

`dt[:, h]` is the step from `h - 1` to `h`; `dt[:, 0]` is the step assumed before the start. Row 0 of every trajectory
is the start state (central difference: row 1). Where `H = Ha` the last action affects no output: its gradient is 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .splines.form import SplineForm
from .splines.weights import STATE_WEIGHTS, row_weights
from .types import AccelerationIntegrator, Trajectory

CENTRAL_EXTRA_HORIZON = 4


def clique_central(
    action: Tensor, p0: Tensor, v0: Tensor, a0: Tensor, j0: Tensor, dt: Tensor, truncate_terminal_gradient: bool = False
) -> Trajectory:
    """Positions to derivatives by five-point central differences over the start, the actions and the held last action.

    Output h is centred on point h - 1: h = 1 is the start and h = 0 a point on the cubic arc before it; `H = Ha + 4`.
    With `truncate_terminal_gradient`, the last action affects the position only: this map has the published backward as
    its transpose.
    """
    p0, v0, a0, dt = _per_step(action, p0, v0, a0, dt)
    dt, j0 = dt[:, :1], j0.expand(action.shape[0], -1)[:, None]
    ghosts = [p0 + k * dt * v0 + (k * dt) ** 2 / 2 * a0 + (k * dt) ** 3 / 6 * j0 for k in (-3, -2, -1)]
    held = action[:, -1:]
    position = torch.cat([ghosts[-1], p0, action, held, held], 1)
    if truncate_terminal_gradient:
        held = torch.zeros_like(held)
    points = torch.cat([*ghosts, p0, action[:, :-1], held, held, held, held, held], 1)
    first = points.diff(dim=1)
    second = first.diff(dim=1)
    # e[+1] - e[-1] and e[+2] - e[-2] as sums of neighbouring differences; the same for the second differences.
    inner = first[:, 1:-2] + first[:, 2:-1]
    outer = first[:, :-3] + inner + first[:, 3:]
    before, centre, after = second[:, :-2], second[:, 1:-1], second[:, 2:]
    return Trajectory(
        position,
        (8 * inner - outer) / (12 * dt),
        (centre + (2 * centre - before - after) / 12) / dt**2,
        (after - before) / (2 * dt**3),
    )


def held(
    given: int,
    action: Tensor,
    p0: Tensor,
    v0: Tensor,
    a0: Tensor,
    dt: Tensor,
    integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
) -> Trajectory:
    """Actions that are the output `given` (0 position to 3 jerk): running sums to the lower ones, backward differences.

    Accelerations and jerks are held over each step, which sums integrate exactly; `integrator` is for accelerations. Of
    positions, the points before the start lie on the arc `p0 - k v0 dt + (k dt)^2 a0 / 2`, whose last differences are
    `v0 - dt a0 / 2` and `a0`: if dt is uniform, the output for any sampled quadratic motion is exact from h = 1 on.
    """
    p0, v0, a0, dt = _per_step(action, p0, v0, a0, dt)
    step, later = dt[:, 1:], action[:, :-1]
    start = [p0, v0, a0, torch.zeros_like(p0)]
    outputs = list(start)
    outputs[given] = torch.cat([start[given], later], 1)
    before, difference = start[given], later
    for order in range(given + 1, 4):
        difference = torch.cat([before, difference], 1).diff(dim=1) / step
        outputs[order] = torch.cat([start[order], difference], 1)
        before = v0 - dt[:, :1] * a0 / 2 if order == 1 and given == 0 else start[order]
    for order in reversed(range(given)):
        at_begin = [outputs[k][:, :-1] for k in range(order + 1, given)] + [later]
        if integrator is not AccelerationIntegrator.ZOH and order == 0:
            at_begin = [outputs[1][:, 1:]]
        gains = [value * step**power / math.factorial(power) for power, value in enumerate(at_begin, start=1)]
        outputs[order] = torch.cat([start[order], start[order] + sum(gains[1:], start=gains[0]).cumsum(1)], 1)
    return Trajectory(*outputs)


clique, velocity, acceleration, jerk = (functools.partial(held, given) for given in range(4))


def bspline(
    action: Tensor, start: Sequence[Tensor], goal: Sequence[Tensor] | None, dt: Tensor, form: SplineForm
) -> Trajectory:
    """Control points to the rows of the uniform B-spline between start and goal, four rows each (docs/bsplines.md).

    dt is `[1 or B, 1, 1]`. Without a goal the spline comes to rest at the last control point.
    """
    length = form.steps * dt
    points = extended_points(action, start, goal, length, form)
    outputs = []
    for order, table in enumerate(row_weights(form.degree, form.steps)):
        weights = _like(table, action)[..., None]
        count = weights.shape[1]
        segments = points.shape[1] - count + 1
        # One after the other instead of a matrix product: a row is the same to the last bit in any batch.
        body = sum(weights[:-1, m] * points[:, m : m + segments, None] for m in range(count))
        end = sum(weights[-1, m] * points[:, segments - 1 + m, None] for m in range(count))
        outputs.append(torch.cat([body.flatten(1, 2), end], 1) / length**order)
        points = points.diff(dim=1)
    return Trajectory(*outputs)


def extended_points(
    action: Tensor, start: Sequence[Tensor], goal: Sequence[Tensor] | None, length: Tensor, form: SplineForm
) -> Tensor:
    """All control points: those of the start, the given ones, and those that represent the goal or repeat the last."""
    batch, count, _ = action.shape
    used = action[:, : form.used(count, goal is not None)]
    if goal is None:
        tail = action[:, -1:].expand(-1, form.degree, -1)
    else:
        tail = _state_points(goal, length, form).expand(batch, -1, -1)
    return torch.cat([_state_points(start, length, form).expand(batch, -1, -1), used, tail], 1)


def _per_step(action: Tensor, p0: Tensor, v0: Tensor, a0: Tensor, dt: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Start rows as `[B, 1, D]`, dt as `[1 or B, Ha, 1]`."""
    batch, horizon, _ = action.shape
    rows = (start.expand(batch, -1)[:, None] for start in (p0, v0, a0))
    return (*rows, dt.expand(-1, horizon, -1))


def _state_points(state: Sequence[Tensor], length: Tensor, form: SplineForm) -> Tensor:
    """The points that represent a state, `[1 or B, K or K + 1, D]`."""
    weights = _like(STATE_WEIGHTS[form.degree, form.head, form.has_jerk], length)
    terms = [weights[:, k, None] * length**k * row[:, None] for k, row in enumerate(state)]
    return terms[0] + terms[1] + terms[2] + terms[3]


def _like(table: object, tensor: Tensor) -> Tensor:
    return torch.tensor(table, dtype=tensor.dtype, device=tensor.device)
