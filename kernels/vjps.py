"""The vjps of the five control maps in plain torch: upstream gradients to gradients of actions and start rows.

Each transposes the lines of the function of the same name in `reference`, from the last to the first. The maps are
linear in actions and start state, so nothing but dt is needed from the forward pass, unless the gradient of dt is
wanted too: then `at` has the arguments of the map. Like the references these are compositions of differentiable torch
operations, and compute in the dtype of their arguments.

Upstream gradients are `[B, H, D]`, or None if the gradient is zero, which costs nothing. `dt` is
`[1 or B, 1 or Ha, 1]` seconds. Results are the gradients of the action, `[B, Ha, D]`, of the start rows, `[B, D]` each,
and last that of dt, `[B, Ha]` (central differences: `[B, 1]`); None means zero, or not wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import reference
from .types import AccelerationIntegrator

Upstream = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]
Gradients = tuple[Tensor | None, ...]


class Point(NamedTuple):
    """Arguments at which a map is differentiated with respect to dt."""

    action: Tensor  # [B, Ha, D]
    start: Sequence[Tensor]  # [1 or B, D] each


def clique(upstream: Upstream, dt: Tensor, action_horizon: int, at: Point | None = None) -> Gradients:
    """Vjp of `reference.clique`."""
    g_position, g_velocity, g_acceleration, g_jerk = upstream
    first, step = dt[:, :1], _steps(dt, action_horizon)
    third = _quotient_vjp(g_jerk, step)
    g_acceleration = _plus(g_acceleration, _difference_vjp(third))
    second = _quotient_vjp(g_acceleration, step)
    # Row 0 of the differenced velocities is v0 - dt a0 / 2.
    g_differenced = _difference_vjp(second)
    g_velocity = _plus(g_velocity, g_differenced)
    one = _quotient_vjp(g_velocity, step)
    g_position = _plus(g_position, _difference_vjp(one))
    g_arc = _first_row(g_differenced)
    g_start_acceleration = _plus(_first_row(g_acceleration), _times(g_arc, first[:, 0] / -2))
    g_dt = None
    if at is not None:
        _, velocity, acceleration, jerk = (output[:, 1:] for output in reference.clique(at.action, *at.start, dt))
        later = _dots((third, -jerk), (second, -acceleration), (one, -velocity))
        g_dt = _dt_rows(_dots((g_arc, at.start[2] / -2)), later)
    return _in_use(_later_rows(g_position)), _first_row(g_position), _first_row(g_velocity), g_start_acceleration, g_dt


def clique_central(
    upstream: Upstream,
    dt: Tensor,
    action_horizon: int,
    truncate_terminal_gradient: bool = False,
    at: Point | None = None,
) -> Gradients:
    """Vjp of `reference.clique_central`, or with `truncate_terminal_gradient` the published part of it."""
    g_position, g_velocity, g_acceleration, g_jerk = upstream
    dt = dt[:, :1]
    g_first = g_second = None
    if g_velocity is not None:
        g = g_velocity / (12 * dt)
        framed = pad(g, (0, 0, 3, 3))
        g_first = 7 * (framed[:, 1:-2] + framed[:, 2:-1]) - framed[:, :-3] - framed[:, 3:]
    if g_acceleration is not None:
        g = g_acceleration / (12 * dt**2)
        framed = pad(g, (0, 0, 2, 2))
        g_second = 14 * framed[:, 1:-1] - framed[:, 2:] - framed[:, :-2]
    if g_jerk is not None:
        g = g_jerk / (2 * dt**3)
        framed = pad(g, (0, 0, 2, 2))
        g_second = _plus(g_second, framed[:, :-2] - framed[:, 2:])
    g_points = _difference_vjp(_plus(g_first, _difference_vjp(g_second)))

    # The points are three ghost points, the start, the actions before the last, and the last one five times.
    ghosts = start = before = last = None
    if g_points is not None:
        ghosts, start, before = g_points[:, :3], g_points[:, 3], g_points[:, 4 : 3 + action_horizon]
        last = torch.zeros_like(g_points[:, :1]) if truncate_terminal_gradient else g_points[:, -5:].sum(1, True)
    if g_position is not None:
        ghosts = _plus(ghosts, pad(g_position[:, :1], (0, 0, 2, 0)))
        start = _plus(start, g_position[:, 1])
        before = _plus(before, g_position[:, 2 : 1 + action_horizon])
        last = _plus(last, g_position[:, 1 + action_horizon :].sum(1, True))
    if ghosts is None or start is None or before is None or last is None:
        return (None,) * 6
    steps = dt.new_tensor([-3.0, -2.0, -1.0])[:, None]
    reach = dt * steps
    g_dt = None
    if at is not None:
        _, velocity, acceleration, jerk = reference.clique_central(at.action, *at.start, dt)
        _, v0, a0, j0 = (row[:, None] for row in at.start)
        g_dt = _dots((g_velocity, velocity / -dt), (g_acceleration, -2 * acceleration / dt), (g_jerk, -3 * jerk / dt))
        by_ghosts = _dots((ghosts, steps * (v0 + reach * a0 + reach**2 / 2 * j0)))
        g_dt = _plus(None if g_dt is None else g_dt.sum(1, True), by_ghosts.sum(1, True))
    return (
        torch.cat([before, last], 1),
        start + ghosts.sum(1),
        (ghosts * reach).sum(1),
        (ghosts * (reach**2 / 2)).sum(1),
        (ghosts * (reach**3 / 6)).sum(1),
        g_dt,
    )


def acceleration(
    upstream: Upstream, dt: Tensor, action_horizon: int, integrator: AccelerationIntegrator, at: Point | None = None
) -> Gradients:
    """Vjp of `reference.acceleration`."""
    g_position, g_velocity, g_acceleration, g_jerk = upstream
    step = _steps(dt, action_horizon)
    g_position = _sum_vjp(g_position)
    moved = _later_rows(g_position)
    if integrator is AccelerationIntegrator.ZOH:
        g_velocity = _plus(g_velocity, _before(_times(moved, step)))
        held = _times(moved, step**2 / 2)
    else:
        g_velocity = _plus(g_velocity, _after(_times(moved, step)))
        held = None
    g_velocity = _sum_vjp(g_velocity)
    gained = _later_rows(g_velocity)
    third = _quotient_vjp(g_jerk, step)
    g_acceleration = _plus(g_acceleration, _difference_vjp(third))
    held = _plus(_plus(held, _times(gained, step)), _later_rows(g_acceleration))
    g_dt = None
    if at is not None:
        _, velocity, acceleration, jerk = (
            output[:, 1:] for output in reference.acceleration(at.action, *at.start, dt, integrator)
        )
        g_dt = _dt_rows(None, _dots((third, -jerk), (gained, acceleration), (moved, velocity)))
    return _in_use(held), _first_row(g_position), _first_row(g_velocity), _first_row(g_acceleration), g_dt


def velocity(upstream: Upstream, dt: Tensor, action_horizon: int, at: Point | None = None) -> Gradients:
    """Vjp of `reference.velocity`."""
    g_position, g_velocity, g_acceleration, g_jerk = upstream
    step = _steps(dt, action_horizon)
    third = _quotient_vjp(g_jerk, step)
    g_acceleration = _plus(g_acceleration, _difference_vjp(third))
    second = _quotient_vjp(g_acceleration, step)
    g_velocity = _plus(g_velocity, _difference_vjp(second))
    g_position = _sum_vjp(g_position)
    moved = _later_rows(g_position)
    held = _plus(_later_rows(g_velocity), _times(moved, step))
    g_dt = None
    if at is not None:
        _, velocity, acceleration, jerk = (output[:, 1:] for output in reference.velocity(at.action, *at.start, dt))
        g_dt = _dt_rows(None, _dots((third, -jerk), (second, -acceleration), (moved, velocity)))
    return _in_use(held), _first_row(g_position), _first_row(g_velocity), _first_row(g_acceleration), g_dt


def jerk(upstream: Upstream, dt: Tensor, action_horizon: int, at: Point | None = None) -> Gradients:
    """Vjp of `reference.jerk`."""
    g_position, g_velocity, g_acceleration, g_jerk = upstream
    step = _steps(dt, action_horizon)
    g_position = _sum_vjp(g_position)
    moved = _later_rows(g_position)
    g_velocity = _sum_vjp(_plus(g_velocity, _before(_times(moved, step))))
    gained = _later_rows(g_velocity)
    by_acceleration = _plus(_times(moved, step**2 / 2), _times(gained, step))
    g_acceleration = _sum_vjp(_plus(g_acceleration, _before(by_acceleration)))
    raised = _later_rows(g_acceleration)
    held = _plus(_later_rows(g_jerk), _times(moved, step**3 / 6))
    held = _plus(held, _plus(_times(gained, step**2 / 2), _times(raised, step)))
    g_dt = None
    if at is not None:
        _, velocity, acceleration, jerk = (output[:, 1:] for output in reference.jerk(at.action, *at.start, dt))
        g_dt = _dt_rows(None, _dots((moved, velocity), (gained, acceleration), (raised, jerk)))
    return _in_use(held), _first_row(g_position), _first_row(g_velocity), _first_row(g_acceleration), g_dt


def _steps(dt: Tensor, action_horizon: int) -> Tensor:
    """Step lengths of rows 1 to H - 1."""
    return dt.expand(-1, action_horizon, -1)[:, 1:]


def _quotient_vjp(g: Tensor | None, step: Tensor) -> Tensor | None:
    """Gradient of the differences which, divided by the step, are rows 1 to H - 1."""
    return None if g is None else g[:, 1:] / step


def _difference_vjp(g: Tensor | None) -> Tensor | None:
    """Vjp of `x.diff(dim=1)`."""
    if g is None:
        return None
    framed = pad(g, (0, 0, 1, 1))
    return framed[:, :-1] - framed[:, 1:]


def _sum_vjp(g: Tensor | None) -> Tensor | None:
    """Vjp of the running sum of a start row and increments: the running sum from the last row back."""
    return None if g is None else g.flip(1).cumsum(1).flip(1)


def _first_row(g: Tensor | None) -> Tensor | None:
    return None if g is None else g[:, 0]


def _later_rows(g: Tensor | None) -> Tensor | None:
    return None if g is None else g[:, 1:]


def _before(g: Tensor | None) -> Tensor | None:
    """Gradients of rows 0 to H - 2 as gradients of all rows."""
    return None if g is None else pad(g, (0, 0, 0, 1))


def _after(g: Tensor | None) -> Tensor | None:
    """Gradients of rows 1 to H - 1 as gradients of all rows."""
    return None if g is None else pad(g, (0, 0, 1, 0))


def _in_use(held: Tensor | None) -> Tensor | None:
    """Gradient of all actions from that of the actions that are used: the last one affects no output."""
    return _before(held)


def _dt_rows(first: Tensor | None, later: Tensor | None) -> Tensor | None:
    """Gradient of dt, `[B, Ha]`, from those of its first element, `[B]`, and the others."""
    if later is None:
        return None
    return torch.cat([later.new_zeros(later.shape[0], 1) if first is None else first[:, None], later], 1)


def _dots(*products: tuple[Tensor | None, Tensor]) -> Tensor | None:
    """Sum over the joints, and over the pairs, of gradient times value."""
    total = None
    for gradient, value in products:
        if gradient is not None:
            total = _plus(total, (gradient * value).sum(-1))
    return total


def _times(g: Tensor | None, factor: Tensor) -> Tensor | None:
    return None if g is None else g * factor


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
