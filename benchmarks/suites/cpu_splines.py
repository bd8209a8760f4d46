"""B-splines on the CPU beside what a user of torch would write: products with matrices of precomputed weights."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from traj_integrator_ros.kernels import SplineForm, bspline_step
from traj_integrator_ros.kernels.types import Inputs, VjpInputs

from ..problems import DOF, DT, Problem
from ..registry import Case, suite

POINTS = 16
FORM = SplineForm()
STATE = 3  # position, velocity, acceleration at the start
MATRIX_TARGET = 6.0
COPY_TARGET = 0.6


@functools.cache
def matrices() -> tuple[Tensor, ...]:
    """`[H, n + 3]` for each output: what control points and start rows weigh."""
    each = torch.eye(POINTS + STATE, dtype=torch.float64)
    trajectory = bspline_step(each[None, :POINTS], *(row[None] for row in each[POINTS:]), dt=DT, backend="reference")
    return tuple(output[0].float() for output in trajectory)


def matrix_form(points: Tensor, *start: Tensor) -> Sequence[Tensor]:
    """One product for each output; derivatives are torch's own."""
    inputs = torch.cat([points, *(row[:, None] for row in start)], 1)
    return tuple(torch.einsum("rp,bpd->brd", matrix, inputs) for matrix in matrices())


def spline_problem(batch: int) -> Problem:
    """Forward, and gradients of control points and start."""
    shapes = (batch, POINTS, DOF), *[(batch, DOF)] * STATE
    return Problem(functools.partial(bspline_step, dt=DT), *shapes, rows=FORM.rows(POINTS))


@suite("cpu_splines")
def cpu_splines(quick: bool) -> Iterator[Case]:
    for batch in (1000,) if quick else (1, 100, 1000, 10_000):
        problem = spline_problem(batch)
        # In float32 the products cancel: their own rounding grows with the order of the derivative.
        peer = problem.by_autograd("matrix form", matrix_form, limit=1e-3)
        yield problem.case(
            "B-spline, forward + backward",
            problem.by_autograd(),
            peer,
            limit=problem.copies(),
            targets={"matrix form": MATRIX_TARGET} if batch == 1000 else {},
        )
    yield reused_buffers(1000 if quick else 10_000)


def reused_buffers(batch: int) -> Case:
    """The loops alone, into memory of the caller."""
    from traj_integrator_ros.kernels import native

    problem = spline_problem(batch)
    leaves = [leaf.detach() for leaf in problem.leaves]
    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out, own = ([torch.empty_like(x) for x in part] for part in (problem.upstream, leaves))
    into = (*own, *[None] * 5)
    needs = [gradient is not None for gradient in into]
    inputs = Inputs((*leaves, *[None] * 5), (None, None), dt)
    of_vjp = VjpInputs(problem.upstream, (None, None), dt, (batch, -1), POINTS, needs)

    def run() -> tuple[Tensor, ...]:
        native.bspline_forward(inputs, form=FORM, out=out)
        native.bspline_vjp(of_vjp, form=FORM, out=into)
        return (*out, *own)

    mine, targets = problem.by_calling("ours", run), {"limit": COPY_TARGET}
    return problem.case("B-spline, both ways, reused buffers", mine, limit=problem.copies(), targets=targets)
