"""The gradient of the shortest duration with respect to waypoints and limits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from .limits import MotionLimits

PLACES = 80
"""Number of places that are reserved for each row: a segment of the spline has at most 4 turns, with at most 16 places
between two of them.
"""


class Envelope(NamedTuple):
    """Derivatives of the shortest duration by the path's derivatives at points; those of the spline follow later.

    By the envelope theorem they are the multipliers of the limits. Base law, grid and tightening are held constant.
    """

    adjoint: Tensor
    """Derivatives by the path's first three derivatives by the time of the base law, `[B, G, 3, D]`."""
    phase: Tensor
    """Phase along the path, and its first three derivatives by that time, `[B, G, 4]`."""
    by_limits: Tensor
    """Derivatives by the logarithms of the limits of velocity, lowest and highest acceleration, and jerk, `[B, 4, D]`.
    """
    piece: Tensor
    """Segment of the spline that contains each point, `[B, G]`."""
    knot_of_row: Tensor
    """Knot of each row, `[B, W]`; a row that repeats the previous one shares its knot."""
    passed: Tensor
    """Phases of a path that turns back, each with its segment of the spline and the part of it, `[B, PLACES W, 3]`; -1
    where there is none.
    """

    @classmethod
    def empty(cls, batch: int, rows: int, dof: int, intervals: int) -> Envelope:
        """Return empty arrays for a batch."""
        points = 8 * intervals + 2 * rows + 24  # Legs of at least 8 intervals end with a part of a block.
        real, whole = ({"dtype": dtype, "device": "cpu"} for dtype in (torch.float64, torch.int64))
        zeros = [torch.zeros(batch, *shape, **real) for shape in ((points, 3, dof), (points, 4), (4, dof))]
        zeros += [torch.zeros(batch, size, **whole) for size in (points, rows)]
        return cls(*zeros, torch.full((batch, PLACES * rows, 3), -1.0, **real))


def wants_gradient(waypoints: Tensor, limits: MotionLimits) -> bool:
    """Return whether autograd has to see the duration."""
    given = (waypoints, limits.velocity, limits.acceleration, limits.deceleration, limits.jerk)
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in given)


class WithGradient(torch.autograd.Function):
    """Gives the duration `[B]` its place in the graph; gradients of the other results are an error."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        waypoints: Tensor,
        velocity: Tensor,
        lowest: Tensor,
        highest: Tensor,
        jerk: Tensor,
        envelope: Envelope,
        counts: Tensor,
        *results: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the duration and the other results; `counts` `[B]` are the envelope's points, 0 without a motion."""
        ctx.save_for_backward(waypoints, velocity, lowest, highest, jerk)
        ctx.envelope, ctx.counts = envelope, counts
        ctx.set_materialize_grads(False)
        return tuple(result.clone() for result in results)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: Tensor | None, *of_others: Tensor | None) -> tuple[Tensor | None, ...]:
        """Differentiate the duration; nothing else is differentiable."""
        if any(other is not None for other in of_others):
            raise NotImplementedError("gradients of times and states: there are none, only the duration has one")
        waypoints, *limits = ctx.saved_tensors
        if upstream is None:
            return (None,) * (len(limits) + 4 + len(of_others))
        upstream = upstream.to("cpu", torch.float64)
        of_waypoints = None
        if ctx.needs_input_grad[0]:
            rows = waypoints.detach().to("cpu", torch.float64)
            of = ctx.envelope
            places = of.adjoint, of.phase, of.piece, of.knot_of_row, of.passed
            parts = zip(rows, ctx.counts.tolist(), *places, strict=True)
            each = [_by_rows(*one) for one in parts]
            of_waypoints = (torch.stack(each) * upstream[:, None, None]).to(waypoints)
        of_limits = []
        for kind, limit in enumerate(limits):
            by = torch.where(torch.isfinite(limit), ctx.envelope.by_limits[:, kind] / limit, 0.0) * upstream[:, None]
            of_limits.append(by.sum(0, keepdim=True) if limit.shape[0] == 1 else by)
        return of_waypoints, *of_limits, None, None, *(None for _ in range(1 + len(of_others)))


def _by_rows(
    rows: Tensor, count: int, adjoint: Tensor, phase: Tensor, piece: Tensor, knot: Tensor, passed: Tensor
) -> Tensor:
    """Return the gradient of one duration with respect to its rows, `[W, D]`."""
    if count == 0:
        return torch.zeros_like(rows)
    kept = torch.cat([torch.ones(1, dtype=torch.bool, device="cpu"), knot.diff() > 0]).nonzero()[:, 0]
    kept[-1] = len(rows) - 1  # The last row is met, even if it repeats the one before.
    with torch.enable_grad():
        waypoints = rows.clone().requires_grad_()
        by_time = _derivatives(waypoints[kept], phase[:count], piece[:count], passed[passed[:, 0] >= 0])
        (gradient,) = torch.autograd.grad((adjoint[:count] * by_time).sum(), waypoints)
    return gradient


def _derivatives(q: Tensor, phase: Tensor, piece: Tensor, passed: Tensor) -> Tensor:
    """Return the first three derivatives of the natural spline by the base law's time, `[G, 3, D]`.

    A limit that binds where the third derivative jumps does so at a knot, wherever rows move the knot. Therefore the
    phases move with the knots, by a smooth function; on a path that turns back, they move with rows and turns instead.
    """
    knots = torch.cat([q.new_zeros(1), (q[1:] - q[:-1]).norm(dim=1).cumsum(0)])
    s, s1, s2, s3 = phase.unbind(1)
    if len(passed):
        of = passed[:, 1].long()
        q = _spline(knots, q, knots[of] + passed[:, 2] * knots.diff()[of], of)[0]
        knots = passed[:, 0].contiguous()
        piece = (torch.searchsorted(knots, s.contiguous(), right=True) - 1).clamp(0, len(knots) - 2)
    else:
        s, m1, m2, m3 = (each[:, 0] for each in _spline(knots.detach(), knots[:, None], s, piece))
        s1, s2, s3 = m1 * s1, m1 * s2 + m2 * s1**2, m1 * s3 + 3 * m2 * s1 * s2 + m3 * s1**3
    _, q1, q2, q3 = _spline(knots, q, s, piece)
    s1, s2, s3 = s1[:, None], s2[:, None], s3[:, None]
    return torch.stack([q1 * s1, q2 * s1**2 + q1 * s2, q3 * s1**3 + 3 * q2 * s1 * s2 + q1 * s3], 1)


def _spline(knots: Tensor, q: Tensor, s: Tensor, piece: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the natural cubic spline through q `[K, D]` at knots `[K]`, and its derivatives, at places s `[G]`."""
    h = knots.diff()
    slopes = q.diff(dim=0) / h[:, None]
    second = q.new_zeros(q.shape)
    if len(q) > 2:
        matrix = torch.diag(2 * (h[:-1] + h[1:])) + torch.diag(h[1:-1], 1) + torch.diag(h[1:-1], -1)
        solved = torch.linalg.solve(matrix, 6 * slopes.diff(dim=0))
        second = torch.cat([second[:1], solved, second[:1]])
    before, after, length = second[piece], second[piece + 1], h[piece][:, None]
    e = (s - knots[piece])[:, None]
    q3 = (after - before) / length
    q1 = slopes[piece] - length * (2 * before + after) / 6
    return q[piece] + e * (q1 + e * (before / 2 + e * q3 / 6)), q1 + e * (before + e * q3 / 2), before + e * q3, q3
