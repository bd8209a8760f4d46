"""The vjps of the five control maps in plain torch: upstream gradients to gradients of actions and start rows.

Four of them are one chain: differences up from the given output, sums down from it. The maps are linear in actions and
start state, so nothing but dt is needed from the forward pass, unless the gradient of dt is wanted too: then `at` has
the arguments of the map. Like the references these are compositions of differentiable torch operations, and compute in
the dtype of their arguments; torch cannot nest autograd of the reference in compiled transforms such as a Hessian.

Upstream gradients are `[B, H, D]`, or None if the gradient is zero, which costs nothing. `dt` is
`[1 or B, 1 or Ha, 1]` seconds. Results are the gradients of the action, `[B, Ha, D]`, of the start rows, `[B, D]` each,
and last that of dt, `[B, Ha]` (central differences: `[B, 1]`); None means zero, or not wanted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import reference
from .types import AccelerationIntegrator, Trajectory

Upstream = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]
Gradients = tuple[Tensor | None, ...]


class Point(NamedTuple):
    """Arguments at which a map is differentiated with respect to dt."""

    action: Tensor  # [B, Ha, D]
    start: Sequence[Tensor]  # [1 or B, D] each


def clique(upstream: Upstream, dt: Tensor, action_horizon: int, at: Point | None = None) -> Gradients:
    """Vjp of `reference.clique`."""
    return _chain(0, upstream, dt, action_horizon, reference.clique, at)


def velocity(upstream: Upstream, dt: Tensor, action_horizon: int, at: Point | None = None) -> Gradients:
    """Vjp of `reference.velocity`."""
    return _chain(1, upstream, dt, action_horizon, reference.velocity, at)


def acceleration(
    upstream: Upstream, dt: Tensor, action_horizon: int, integrator: AccelerationIntegrator, at: Point | None = None
) -> Gradients:
    """Vjp of `reference.acceleration`."""
    computed = functools.partial(reference.acceleration, integrator=integrator)
    implicit = integrator is AccelerationIntegrator.SEMI_IMPLICIT_EULER
    return _chain(2, upstream, dt, action_horizon, computed, at, implicit=implicit)


def jerk(upstream: Upstream, dt: Tensor, action_horizon: int, at: Point | None = None) -> Gradients:
    """Vjp of `reference.jerk`."""
    return _chain(3, upstream, dt, action_horizon, reference.jerk, at)


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


def _chain(
    given: int,
    upstream: Upstream,
    dt: Tensor,
    action_horizon: int,
    computed: Callable[..., Trajectory],
    at: Point | None,
    *,
    implicit: bool = False,
) -> Gradients:
    """Vjp of the map whose actions are output `given`: higher outputs are its differences, lower ones its sums.

    `implicit`: a position moves by the velocity at the end of its step.
    """
    gradients, step = list(upstream), dt.expand(-1, action_horizon, -1)[:, 1:]
    by_step: list[tuple[Tensor | None, int]] = []  # gradients that, times minus or plus an output, are those of dt
    arc = None
    for k in range(3, given, -1):
        quotient = None if gradients[k] is None else gradients[k][:, 1:] / step
        by_step.append((None if quotient is None else -quotient, k))
        difference = _difference_vjp(quotient)
        gradients[k - 1] = _plus(gradients[k - 1], difference)
        if given == 0 and k == 2:  # row 0 of the differenced velocities is v0 - dt a0 / 2
            arc = _first_row(difference)
    held = None
    for k in range(given):
        if held is not None:  # what lower outputs take from this one: from its state before the step, or after it
            gradients[k] = _plus(gradients[k], pad(held, (0, 0, 1, 0) if implicit else (0, 0, 0, 1)))
        gradients[k] = None if gradients[k] is None else gradients[k].flip(1).cumsum(1).flip(1)
        by_step.append((_later_rows(gradients[k]), k + 1))
        held = None
        for i in range(k + 1):
            order = k + 1 - i
            if gradients[i] is not None and not (implicit and order == 2):
                held = _plus(held, gradients[i][:, 1:] * (step**order / math.factorial(order)))
    action = _plus(_later_rows(gradients[given]), held)
    p0, v0, a0 = (_first_row(gradient) for gradient in gradients[:3])
    if arc is not None:
        a0 = _plus(a0, arc * (dt[:, 0] / -2))
    by_dt = None
    if at is not None:
        outputs = computed(at.action, *at.start, dt=dt)
        by_dt = _dots(*((gradient, outputs[k][:, 1:]) for gradient, k in by_step))
        if by_dt is not None:
            first = by_dt.new_zeros(by_dt.shape[0], 1) if arc is None else (arc * at.start[2] / -2).sum(-1)[:, None]
            by_dt = torch.cat([first, by_dt], 1)
    # The last action affects no output.
    return None if action is None else pad(action, (0, 0, 0, 1)), p0, v0, a0, by_dt


def _difference_vjp(g: Tensor | None) -> Tensor | None:
    """Vjp of `x.diff(dim=1)`."""
    if g is None:
        return None
    framed = pad(g, (0, 0, 1, 1))
    return framed[:, :-1] - framed[:, 1:]


def _first_row(g: Tensor | None) -> Tensor | None:
    return None if g is None else g[:, 0]


def _later_rows(g: Tensor | None) -> Tensor | None:
    return None if g is None else g[:, 1:]


def _dots(*products: tuple[Tensor | None, Tensor]) -> Tensor | None:
    """Sum over the joints, and over the pairs, of gradient times value."""
    total = None
    for gradient, value in products:
        if gradient is not None:
            total = _plus(total, (gradient * value).sum(-1))
    return total


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
