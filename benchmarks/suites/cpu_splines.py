"""B-splines on the CPU beside what a user of torch would write: products with matrices of precomputed weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from traj_integrator_ros.kernels import SplineForm, bspline_step

from ..checks import copies_of, exactly, gradients, is_close_to, random
from ..registry import Case, Contender, suite

POINTS, DOF, DT = 16, 7, 0.02
FORM = SplineForm()
ROWS = FORM.rows(POINTS)
STATE = 3  # position, velocity, acceleration at the start
MATRIX_TARGET = 6.0
COPY_TARGET = 0.6

Step = Callable[..., Sequence[Tensor]]
IN_DOUBLE = functools.partial(bspline_step, dt=DT, backend="reference")


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


def ours(points: Tensor, *start: Tensor) -> Sequence[Tensor]:
    return bspline_step(points, *start, dt=DT)


@suite("cpu_splines")
def cpu_splines(quick: bool) -> Iterator[Case]:
    for batch in (1000,) if quick else (1, 100, 1000, 10_000):
        yield forward_and_backward(batch)
    yield reused_buffers(1000 if quick else 10_000)


def forward_and_backward(batch: int) -> Case:
    """Forward, and gradients of control points and start, through `torch.autograd.grad`."""
    leaves = [random(batch, POINTS, DOF).requires_grad_(), *(random(batch, DOF).requires_grad_() for _ in range(STATE))]
    upstream = [random(batch, ROWS, DOF) for _ in range(4)]

    exact = exactly(IN_DOUBLE, leaves, upstream)

    def contender(name: str, step: Step, limit: float = 5e-6) -> Contender:
        return Contender(name, lambda: gradients(step, leaves, upstream), is_close_to(*exact, limit=limit))

    # In float32 the products cancel: their own rounding grows with the order of the derivative.
    peer = contender("matrix form", matrix_form, limit=1e-3)
    return Case(
        "B-spline, forward + backward",
        batch,
        POINTS,
        DOF,
        contender("ours", ours),
        (peer,),
        copies(batch),
        targets={"matrix form": MATRIX_TARGET} if batch == 1000 else {},
    )


def reused_buffers(batch: int) -> Case:
    """The loops alone, into memory of the caller."""
    from traj_integrator_ros.kernels import native

    leaves = [random(batch, POINTS, DOF), *(random(batch, DOF) for _ in range(STATE))]
    upstream = [random(batch, ROWS, DOF) for _ in range(4)]
    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out = [torch.empty(batch, ROWS, DOF) for _ in range(4)]
    own = [torch.empty_like(leaf) for leaf in leaves]
    into = (*own, *[None] * 5)
    needs = [gradient is not None for gradient in into]
    sizes = {"start_rows": batch, "goal_rows": -1, "action_horizon": POINTS}

    def run() -> tuple[Tensor, ...]:
        native.bspline_forward(*leaves, *[None] * 7, dt, form=FORM, out=out)
        native.bspline_vjp(*upstream, None, None, dt, **sizes, needs=needs, form=FORM, out=into)
        return (*out, *own)

    return Case(
        "B-spline, both ways, reused buffers",
        batch,
        POINTS,
        DOF,
        Contender("ours", run, is_close_to(*exactly(IN_DOUBLE, leaves, upstream))),
        limit=copies(batch),
        targets={"limit": COPY_TARGET},
    )


def copies(batch: int) -> Contender:
    """Plain copies that move as many bytes as both passes: control points and start one way, four outputs the other."""
    return copies_of(batch * DOF * (POINTS + STATE + 4 * ROWS) // 2, count=2)
