"""The kernels on the CPU: the matrix form, torch operations and a plain copy of the same bytes beside them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, ControlMap, ControlSpace, clique_step, reference
from traj_integrator_ros.kernels.dropin.joint_state import TensorDeviceType
from traj_integrator_ros.kernels.integration_utils import (
    build_fd_matrix,
    build_start_state_mask,
    jit_backward_pos_clique,
    jit_tensor_step_pos_clique,
)

from ..empty_function import empty_function
from ..problems import DOF, DT, HORIZON, Problem, add_of, by_cost, by_grad, clique_problem, is_close_to, random
from ..registry import Case, Contender, suite
from .cpu_entries import dropin_step, launchers

# Least speed-up over the matrix form, forward and torch.autograd.grad, by batch.
MATRIX_TARGETS = {1: 3.0, 100: 6.0, 1000: 15.0, 10_000: 15.0}
# The drop-in takes at most 1.3 times as long as the function, and this at B = 1 at most 1.5 times as long as nothing.
DROPIN_TARGET = 1 / 1.3
FLOOR_TARGET = 1 / 1.5
COPY_TARGET = 0.6
ADD_TARGET = 1 / 8
GRADIENTS = {"autograd.grad": by_grad, "cost.backward()": by_cost}


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


@functools.cache
def matrices(horizon: int, device: torch.device) -> tuple[Tensor, ...]:
    mask, shift = build_start_state_mask(horizon, TensorDeviceType(device, torch.float32))
    difference = build_fd_matrix(horizon, SHIFT=True).to(device) / DT
    return mask, shift, difference, difference @ difference, difference @ difference @ difference


def matrix_form(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return MatrixForm.apply(action, start, *matrices(action.shape[1], action.device))


def slices(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    """The way a user of torch would write it, for a start at rest."""
    outputs = [torch.cat([start[:, None], action[:, :-1]], 1)]
    zero = torch.zeros_like(start)[:, None]
    for _ in range(3):
        outputs.append(torch.cat([zero, (outputs[-1][:, 1:] - outputs[-1][:, :-1]) / DT], 1))
    return outputs


@functools.cache
def compiled() -> Callable[..., Sequence[Tensor]]:
    return torch.compile(slices, dynamic=False)


@suite("cpu_kernels")
def cpu_kernels(quick: bool) -> Iterator[Case]:
    for way in GRADIENTS:
        for batch in (1, 100, 1000, 10_000):
            yield forward_and_backward(batch, way, with_compiled=way == "autograd.grad" and not quick)
            yield dropin(batch, way)
        yield above_the_floor(way)
    yield reused_buffers(10_000)
    yield call_overhead()
    for name, kernel in MAPS.items():
        if kernel.control_space is ControlSpace.BSPLINE:
            continue  # has a suite of its own
        for batch in (1000,) if quick else (1, 100, 1000, 10_000):
            yield against_torch(name, kernel, batch)
    for name in ("clique", "velocity", "acceleration_zoh", "jerk"):
        for dof in (7,) if quick else range(1, 17):
            yield any_dof(name, dof)


def forward_and_backward(batch: int, way: str, *, with_compiled: bool) -> Case:
    """The function beside the published matrix form and what users of torch write."""
    problem = clique_problem(batch, gradients=GRADIENTS[way])
    peers = {"matrix form": matrix_form, "torch slices": slices}
    if with_compiled:
        peers["torch.compile"] = compiled()
    contenders = [problem.by_autograd(name, step) for name, step in peers.items()]
    targets = {"matrix form": MATRIX_TARGETS[batch]} if way == "autograd.grad" else {}
    name = f"clique, forward + {way}"
    return problem.case(name, problem.by_autograd(), *contenders, limit=problem.copies(), targets=targets)


def dropin(batch: int, way: str) -> Case:
    """The drop-in's class with reused buffers beside the function and the matrix form."""
    problem = clique_problem(batch, gradients=GRADIENTS[way])
    peers = problem.by_autograd("clique_step"), problem.by_autograd("matrix form", matrix_form)
    mine = problem.by_autograd("ours", dropin_step(problem))
    return problem.case(f"drop-in clique, forward + {way}", mine, *peers, targets={"clique_step": DROPIN_TARGET})


def above_the_floor(way: str) -> Case:
    """The function at its smallest beside an autograd function that does nothing."""
    problem = clique_problem(1, gradients=GRADIENTS[way])
    nothing = problem.by_autograd("empty C++ autograd function", empty_function())
    floor = dataclasses.replace(nothing, check=lambda _: None)
    name = f"clique above the floor, forward + {way}"
    return problem.case(name, problem.by_autograd(), limit=floor, targets={"limit": FLOOR_TARGET})


def reused_buffers(batch: int) -> Case:
    problem = clique_problem(batch)
    mine = problem.by_calling("ours", launchers(problem))
    targets = {"limit": COPY_TARGET}
    return problem.case("clique, both ways, reused buffers", mine, limit=problem.copies(), targets=targets)


def call_overhead() -> Case:
    action, start = random(1, HORIZON, DOF), random(1, DOF)
    exact = clique_step(action.double(), start.double(), dt=DT, backend="reference")
    mine = Contender("ours", lambda: clique_step(action, start, dt=DT), is_close_to(*exact))
    targets = {"limit": ADD_TARGET}
    return Case("clique, one forward call", 1, HORIZON, DOF, mine, limit=add_of(action), targets=targets)


def against_torch(name: str, kernel: ControlMap, batch: int) -> Case:
    """A map, forward and backward with all start gradients, beside the same formulas in torch operations."""
    shapes = (batch, HORIZON, DOF), *[(batch, DOF)] * 3
    problem = Problem(functools.partial(kernel.step, dt=DT), *shapes, rows=kernel.output_horizon(HORIZON))
    dt = torch.full((1, 1, 1), DT)

    def in_torch(*inputs: Tensor) -> Sequence[Tensor]:
        if name == "clique_central":
            return reference.clique_central(*inputs, torch.zeros_like(inputs[1]), dt)
        if name.startswith("acceleration"):
            return reference.acceleration(*inputs, dt, kernel.step.keywords["integrator"])
        return getattr(reference, name)(*inputs, dt)

    # In float32 the peer's own rounding grows with the order of the derivative.
    peer = problem.by_autograd("the same in torch operations", in_torch, limit=1e-3)
    return problem.case(f"{name}, forward + backward", problem.by_autograd(), peer, limit=problem.copies())


def any_dof(name: str, dof: int) -> Case:
    """A map forward and backward at 1000 trajectories of `dof` joints, beside a copy of the same bytes."""
    step, fixed = functools.partial(MAPS[name].step, dt=DT), [random(1000, dof, seed=20)]
    problem = Problem(step, (1000, HORIZON, dof), fixed=fixed)
    return problem.case(f"{name}, {dof} joints", problem.by_autograd(), limit=problem.copies())
