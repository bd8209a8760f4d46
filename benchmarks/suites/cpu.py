"""The C++ kernels on the CPU: by entry, beside the matrix form, and beside copies of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import clique_step, native
from traj_integrator_ros.kernels.dropin.joint_state import TensorDeviceType
from traj_integrator_ros.kernels.integration_utils import (
    CliqueTensorStepKernel,
    build_fd_matrix,
    build_start_state_mask,
    jit_backward_pos_clique,
    jit_tensor_step_pos_clique,
)

from ..problems import COPY, DOF, DT, HORIZON, Problem, Step
from ..registry import Case, Run

# Least speed-up over the matrix form, forward and torch.autograd.grad, by batch.
MATRIX_TARGETS = {1: 3.0, 100: 6.0, 1000: 15.0, 10_000: 15.0}
# Least share of the function's speed that the drop-in has, and of a copy's that the loops have into reused buffers.
DROPIN_TARGET = 0.87
COPY_TARGET = 0.7


def cpu_entries(quick: bool) -> Iterator[Case]:
    """Time the public function and, for comparison, every other entry, from the one that demands most of the caller."""
    for batch in (1, 100) if quick else (1, 100, 10_000):
        problem = Problem("clique", batch, HORIZON, DOF, starts=True)
        yield problem.case(
            "clique by each entry, forward + vjp",
            problem.by_autograd("clique_step"),
            problem.by_calling("borrowed memory", borrowed_memory(problem)),
            problem.by_autograd("drop-in", dropin_step(problem)),
            problem.by_autograd("dispatched operator", lambda u, p: clique_step(u, p, dt=DT, backend="native")),
        )


def cpu_kernels(quick: bool) -> Iterator[Case]:
    """Time forward and backward: beside the matrix form, by the drop-in, and the loops alone beside a copy."""
    name = "clique, forward + autograd.grad"
    for batch, target in MATRIX_TARGETS.items():
        problem = Problem("clique", batch, HORIZON, DOF, starts=True)
        published, function = problem.by_autograd("matrix form", matrix_form), problem.by_autograd("clique_step")
        yield problem.case(name, problem.by_autograd(), published, targets={published.name: target})
        mine = problem.by_autograd("ours", dropin_step(problem))
        yield problem.case(f"drop-in {name}", mine, function, published, targets={function.name: DROPIN_TARGET})
    problem = Problem("clique", 10_000, HORIZON, DOF, starts=True)
    mine, targets = problem.by_calling("ours", borrowed_memory(problem)), {COPY: COPY_TARGET}
    yield problem.case("clique, both ways, reused buffers", mine, problem.copies(2), targets=targets)


def borrowed_memory(problem: Problem) -> Run:
    """Return the engine's work on numpy arrays for the clique, without autograd and allocations."""
    which = native.MAP_NUMBERS["clique"]
    given, start = problem.action.detach().numpy(), problem.start.numpy()
    upstream, dt = tuple(gradient.numpy() for gradient in problem.upstream), np.full((1, 1), DT)
    out = np.empty((4, *upstream[0].shape), np.float32)
    into = np.empty_like(given)

    def run() -> tuple[np.ndarray, ...]:
        native.forward(which, (given, start), None, dt, out)
        native.vjp(which, upstream, None, dt, False, False, (into,))
        return (*out, into)

    return run


def dropin_step(problem: Problem) -> Step:
    """Return a step by the class under its published name, with the caller's buffers."""
    buffers = [torch.empty_like(problem.upstream[0]) for _ in range(5)]
    rate = torch.full((HORIZON,), 1 / DT)

    def step(action: Tensor, start: Tensor) -> Sequence[Tensor]:
        return CliqueTensorStepKernel.apply(action, start, None, None, *buffers[:4], rate, buffers[4])

    return step


class MatrixForm(torch.autograd.Function):
    """The published matrix form, forward and backward as published."""

    @staticmethod
    def forward(ctx: Any, action: Tensor, start: Tensor, *matrices: Tensor) -> tuple[Tensor, ...]:
        """Positions and three products."""
        ctx.save_for_backward(*matrices)
        return jit_tensor_step_pos_clique(action, start, *matrices)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Four transposed products."""
        _, *matrices = ctx.saved_tensors
        return jit_backward_pos_clique(*upstream, *matrices), None, None, None, None, None, None


@cache
def matrices(horizon: int) -> tuple[Tensor, ...]:
    mask, shift = build_start_state_mask(horizon, TensorDeviceType(torch.device("cpu"), torch.float32))
    difference = build_fd_matrix(horizon, SHIFT=True) / DT
    return mask, shift, difference, difference @ difference, difference @ difference @ difference


def matrix_form(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return MatrixForm.apply(action, start, *matrices(action.shape[1]))
