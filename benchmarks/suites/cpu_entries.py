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
from traj_integrator_ros.kernels.types import Inputs, VjpInputs

from ..problems import DT, HORIZON, Problem, Step, clique_problem
from ..registry import Case, suite

Run = Callable[[], Sequence[Tensor]]


@suite("cpu_entries")
def cpu_entries(quick: bool) -> Iterator[Case]:
    for batch in (1, 100) if quick else (1, 100, 10_000):
        yield entries(batch)


def entries(batch: int) -> Case:
    """The public function, and beside it every other entry."""
    problem = clique_problem(batch)
    return problem.case(
        "clique by each entry, forward + vjp",
        problem.by_autograd("clique_step"),
        problem.by_calling("borrowed memory", borrowed_memory(problem)),
        problem.by_calling("launchers", launchers(problem)),
        problem.by_autograd("drop-in", dropin_step(problem)),
        problem.by_autograd("dispatched operator", lambda u, p: clique_step(u, p, dt=DT, backend="native")),
    )


def borrowed_memory(problem: Problem) -> Run:
    """As the engine does it: numpy arrays in and out, no autograd, nothing allocated."""
    from traj_integrator_ros.kernels import native

    number = native.MAP_NUMBERS["clique"]
    given, position = (x.detach().numpy() for x in (*problem.leaves, *problem.fixed))
    gradients, dt = [gradient.numpy() for gradient in problem.upstream], np.full((1, 1), DT)
    out, grad_action = np.empty((4, *given.shape), np.float32), np.empty_like(given)

    def run() -> tuple[np.ndarray, ...]:
        assert native.step_into(number, given, (position,), None, None, None, dt, out)
        assert native.vjp_into(number, gradients, None, None, dt, False, grad_action, (), None)
        return (*out, grad_action)

    return run


def launchers(problem: Problem) -> Run:
    """As the operator does it: tensors, no autograd, here into memory that is there already."""
    from traj_integrator_ros.kernels import native

    action, start = (x.detach() for x in (*problem.leaves, *problem.fixed))
    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out, into = [torch.empty_like(action) for _ in range(4)], torch.empty_like(action)
    inputs = Inputs((action, start, *[None] * 7), (None, None), dt)
    needs = (True, *[False] * 8)
    of_vjp = VjpInputs(problem.upstream, (None, None), dt, (len(start), -1), HORIZON, needs)

    def run() -> tuple[Tensor, ...]:
        native.clique_forward(inputs, out=out)
        native.clique_vjp(of_vjp, out=(into, *[None] * 8))
        return (*out, into)

    return run


def dropin_step(problem: Problem) -> Step:
    """The class under its published name, with the caller's buffers."""
    buffers = [torch.empty_like(problem.upstream[0]) for _ in range(5)]
    rate = torch.full((HORIZON,), 1 / DT)

    def step(action: Tensor, start: Tensor) -> Sequence[Tensor]:
        return CliqueTensorStepKernel.apply(action, start, None, None, *buffers[:4], rate, buffers[4])

    return step
