"""The C++ kernels on the CPU: by entry, beside the matrix form, torch operations, and copies of the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, ControlMap, ControlSpace, clique_step, reference
from traj_integrator_ros.kernels.dropin.joint_state import TensorDeviceType
from traj_integrator_ros.kernels.integration_utils import (
    CliqueTensorStepKernel,
    build_fd_matrix,
    build_start_state_mask,
    jit_backward_pos_clique,
    jit_tensor_step_pos_clique,
)

from ..problems import DOF, DT, HORIZON, Problem, Step, by_cost, by_grad, clique_problem
from ..registry import Case, Run, sizes, suite

# Least speed-up over the matrix form, forward and torch.autograd.grad, by batch.
MATRIX_TARGETS = {1: 3.0, 100: 6.0, 1000: 15.0, 10_000: 15.0}
BATCHES = tuple(MATRIX_TARGETS)
# Least share of the function's speed that the drop-in has, and of a copy's that the loops have into reused buffers.
DROPIN_TARGET = 0.87
COPY_TARGET = 0.7
GRADIENTS = {"autograd.grad": by_grad, "cost.backward()": by_cost}
POINTS, STATE = 16, 3
"""Control points of a spline, and rows of its start."""
IN_TORCH = "the same in torch operations"


# The entries to the kernels, from the one that demands most of the caller to the one that serves every case


@suite("cpu_entries")
def cpu_entries(quick: bool, only: int | None = None) -> Iterator[Case]:
    """Time the public function and, for comparison, every other entry."""
    for batch in sizes(quick, only, (1, 100), (1, 100, 10_000)):
        problem = clique_problem(batch)
        yield problem.case(
            "clique by each entry, forward + vjp",
            problem.by_autograd("clique_step"),
            problem.by_calling("borrowed memory", borrowed_memory(problem)),
            problem.by_autograd("drop-in", dropin_step(problem)),
            problem.by_autograd("dispatched operator", lambda u, p: clique_step(u, p, dt=DT, backend="native")),
        )


def borrowed_memory(problem: Problem) -> Run:
    """Return the engine's work on numpy arrays for the clique, without autograd and allocations."""
    from traj_integrator_ros.kernels import native

    which = native.MAP_NUMBERS["clique"]
    given, *start = (x.detach().numpy() for x in (*problem.leaves, *problem.fixed))
    upstream, dt = tuple(gradient.numpy() for gradient in problem.upstream), np.full((1, 1), DT)
    out = np.empty((4, *upstream[0].shape), np.float32)
    into, *ends = (np.empty_like(leaf.detach().numpy()) for leaf in problem.leaves)

    def run() -> tuple[np.ndarray, ...]:
        native.forward(which, (given, *start), None, dt, out)
        native.vjp(which, upstream, None, dt, False, False, (into, *ends))
        return (*out, into, *ends)

    return run


def dropin_step(problem: Problem) -> Step:
    """Return a step by the class under its published name, with the caller's buffers."""
    buffers = [torch.empty_like(problem.upstream[0]) for _ in range(5)]
    rate = torch.full((HORIZON,), 1 / DT)

    def step(action: Tensor, start: Tensor) -> Sequence[Tensor]:
        return CliqueTensorStepKernel.apply(action, start, None, None, *buffers[:4], rate, buffers[4])

    return step


# Other ways in torch


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
def matrices(horizon: int, device: torch.device) -> tuple[Tensor, ...]:
    mask, shift = build_start_state_mask(horizon, TensorDeviceType(device, torch.float32))
    difference = build_fd_matrix(horizon, SHIFT=True).to(device) / DT
    return mask, shift, difference, difference @ difference, difference @ difference @ difference


def matrix_form(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return MatrixForm.apply(action, start, *matrices(action.shape[1], action.device))


def slices(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    """A torch user's implementation, for a start at rest."""
    outputs = [torch.cat([start[:, None], action[:, :-1]], 1)]
    zero = torch.zeros_like(start)[:, None]
    for _ in range(3):
        outputs.append(torch.cat([zero, (outputs[-1][:, 1:] - outputs[-1][:, :-1]) / DT], 1))
    return outputs


@cache
def compiled() -> Callable[..., Sequence[Tensor]]:
    return torch.compile(slices, dynamic=False)


def matrices_of(kernel: ControlMap, rows: int) -> list[Tensor]:
    """`[H, rows + 3]` for each output of a map, which is linear: the weights of actions and start rows, float64."""
    each = torch.eye(rows + STATE, dtype=torch.float64)
    outputs = kernel.step(each[None, :rows], *(row[None] for row in each[rows:]), dt=DT, backend="reference")
    return [output[0] for output in outputs]


def products(matrices: Sequence[Tensor], action: Tensor, *start: Tensor) -> list[Tensor]:
    """One product for each output; derivatives are torch's own."""
    inputs = torch.cat([action, *(row[:, None] for row in start)], 1)
    return [torch.einsum("rp,bpd->brd", matrix, inputs) for matrix in matrices]


# The maps


@suite("cpu_kernels")
def cpu_kernels(quick: bool, only: int | None = None) -> Iterator[Case]:
    for way, gradients in GRADIENTS.items():
        for batch in sizes(quick, only, BATCHES, BATCHES):
            problem = clique_problem(batch, gradients=gradients)
            peers = {"matrix form": matrix_form, "torch slices": slices}
            if way == "autograd.grad" and not quick:
                peers["torch.compile"] = compiled()
            contenders = [problem.by_autograd(name, step) for name, step in peers.items()]
            targets = {"matrix form": MATRIX_TARGETS[batch]} if way == "autograd.grad" and batch in BATCHES else {}
            name = f"clique, forward + {way}"
            yield problem.case(name, problem.by_autograd(), *contenders, limit=problem.copies(), targets=targets)
            mine, function = problem.by_autograd("ours", dropin_step(problem)), problem.by_autograd("clique_step")
            targets = {function.name: DROPIN_TARGET}
            yield problem.case(f"drop-in {name}", mine, function, contenders[0], targets=targets)
    yield reused_buffers(clique_problem(only or 10_000))
    for name, kernel in MAPS.items():
        if kernel.control_space is ControlSpace.BSPLINE:
            continue  # nobody writes their banded systems in torch
        for batch in sizes(quick, only, (1000,), BATCHES):
            shapes = (batch, HORIZON, DOF), *[(batch, DOF)] * STATE
            problem = Problem(partial(kernel.step, dt=DT), *shapes, rows=kernel.output_horizon(HORIZON))
            yield with_starts(name, problem, IN_TORCH, partial(in_torch, name))


def reused_buffers(problem: Problem) -> Case:
    """The loops alone, into memory of the caller."""
    mine, targets = problem.by_calling("ours", borrowed_memory(problem)), {"limit": COPY_TARGET}
    return problem.case("clique, both ways, reused buffers", mine, limit=problem.copies(), targets=targets)


def in_torch(name: str, *inputs: Tensor) -> Sequence[Tensor]:
    """The formulas of a map in torch operations."""
    dt = torch.full((1, 1, 1), DT)
    if name == "clique_central":
        return reference.clique_central(*inputs, torch.zeros_like(inputs[1]), dt)
    if name.startswith("acceleration"):
        return reference.acceleration(*inputs, dt, MAPS[name].step.keywords["integrator"])
    return getattr(reference, name)(*inputs, dt)


def with_starts(name: str, problem: Problem, peer: str, step: Step, **options: object) -> Case:
    """Forward and backward with all start gradients; the peer's own rounding grows with the derivative's order."""
    other, name = problem.by_autograd(peer, step, limit=1e-3), f"{name}, forward + backward"
    return problem.case(name, problem.by_autograd(), other, limit=problem.copies(), **options)
