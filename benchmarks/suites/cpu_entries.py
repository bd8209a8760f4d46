"""The ways into the C++ kernels beside each other: what each costs above the loops that all of them run.

Forward and gradients of the actions, from the way that asks most of the caller to the one that serves every case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import clique_step
from traj_integrator_ros.kernels.integration_utils import CliqueTensorStepKernel

from ..checks import exactly, gradients, is_close_to, random
from ..registry import Case, Contender, suite

HORIZON, DOF, DT = 32, 7, 0.02

Run = Callable[[], Sequence[Tensor]]


@suite("cpu_entries")
def cpu_entries(quick: bool) -> Iterator[Case]:
    for batch in (1, 100) if quick else (1, 100, 10_000):
        yield entries(batch)


def entries(batch: int) -> Case:
    """The public function, and beside it every other entry."""
    action, start = random(batch, HORIZON, DOF), random(batch, DOF)
    upstream = [random(batch, HORIZON, DOF) for _ in range(4)]
    exact = exactly(lambda u: clique_step(u, start.double(), dt=DT, backend="reference"), [action], upstream)

    def contender(name: str, run: Run) -> Contender:
        return Contender(name, run, is_close_to(*exact))

    wanted = [action.clone().requires_grad_()]

    def through(backend: str | None) -> Run:
        return lambda: gradients(lambda u: clique_step(u, start, dt=DT, backend=backend), wanted, upstream)

    peers = (
        contender("borrowed memory", borrowed_memory(action, start, upstream)),
        contender("launchers", launchers(action, start, upstream)),
        contender("drop-in", dropin(wanted, start, upstream)),
        contender("dispatched operator", through("native")),
    )
    return Case(
        "clique by each entry, forward + vjp", batch, HORIZON, DOF, contender("clique_step", through(None)), peers
    )


def borrowed_memory(action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> Run:
    """As the engine does it: numpy arrays in and out, no autograd, nothing allocated."""
    from traj_integrator_ros.kernels import native

    number = native.MAP_NUMBERS["clique"]
    given, position, dt = action.numpy(), start.numpy(), np.full((1, 1), DT)
    gradients = [gradient.numpy() for gradient in upstream]
    out, grad_action = np.empty((4, *given.shape), np.float32), np.empty_like(given)

    def run() -> tuple[Tensor, ...]:
        assert native.step_into(number, given, (position,), None, None, None, dt, out)
        assert native.vjp_into(number, gradients, None, None, dt, False, grad_action, (), None)
        return (*out, grad_action)

    return run


def launchers(action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> Run:
    """As the operator does it: tensors, no autograd, here into memory that is there already."""
    from traj_integrator_ros.kernels import native

    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out, into = [torch.empty_like(action) for _ in range(4)], torch.empty_like(action)
    options = {"start_rows": len(action), "action_horizon": HORIZON, "needs": (True, False, False, False), "out": into}

    def run() -> tuple[Tensor, ...]:
        native.clique_forward(action, start, None, None, None, dt, out=out)
        native.clique_vjp(*upstream, None, dt, **options)
        return (*out, into)

    return run


def dropin(wanted: Sequence[Tensor], start: Tensor, upstream: Sequence[Tensor]) -> Run:
    """The class under its published name, with the caller's buffers."""
    buffers = [torch.empty_like(upstream[0]) for _ in range(5)]
    rate = torch.full((HORIZON,), 1 / DT)

    def step(action: Tensor) -> Sequence[Tensor]:
        return CliqueTensorStepKernel.apply(action, start, None, None, *buffers[:4], rate, buffers[4])

    return lambda: gradients(step, wanted, upstream)
