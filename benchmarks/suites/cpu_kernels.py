"""The kernels on the CPU: the matrix form, torch operations and a plain copy of the same bytes beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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

from ..checks import copies_of, exactly, gradients, is_close_to, random
from ..empty_function import empty_function
from ..registry import Case, Contender, suite
from .cpu_entries import launchers

HORIZON, DOF, DT = 32, 7, 0.02
# Least speed-up over the matrix form, forward and torch.autograd.grad, by batch.
MATRIX_TARGETS = {1: 3.0, 100: 6.0, 1000: 15.0, 10_000: 15.0}
# The drop-in takes at most 1.3 times as long as the function, and this at B = 1 at most 1.5 times as long as nothing.
DROPIN_TARGET = 1 / 1.3
FLOOR_TARGET = 1 / 1.5
COPY_TARGET = 0.6
ADD_TARGET = 1 / 8

Step = Callable[[Tensor, Tensor], Sequence[Tensor]]


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
    position = torch.cat([start[:, None], action[:, :-1]], 1)
    zero = torch.zeros_like(start)[:, None]
    velocity = torch.cat([zero, (position[:, 1:] - position[:, :-1]) / DT], 1)
    acceleration = torch.cat([zero, (velocity[:, 1:] - velocity[:, :-1]) / DT], 1)
    jerk = torch.cat([zero, (acceleration[:, 1:] - acceleration[:, :-1]) / DT], 1)
    return position, velocity, acceleration, jerk


@functools.cache
def compiled() -> Step:
    return torch.compile(slices, dynamic=False)


def ours(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return clique_step(action, start, dt=DT)


def vjp_by_grad(step: Step, action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> Sequence[Tensor]:
    return gradients(lambda u: step(u, start), [action], upstream)


def vjp_by_cost(step: Step, action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """As an optimizer does it: a scalar cost, quadratic in every output, and its backward."""
    action.grad = None
    outputs = step(action, start)
    sum(torch.linalg.vecdot(output.view(-1), output.view(-1)) for output in outputs).backward()
    return (*outputs, action.grad)


GRADIENTS = {"autograd.grad": vjp_by_grad, "cost.backward()": vjp_by_cost}


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


class Problem:
    """Actions, start and upstream gradients of one shape, with what float64 arithmetic makes of them."""

    def __init__(self, batch: int, way: str) -> None:
        self.action, self.start = random(batch, HORIZON, DOF).requires_grad_(), random(batch, DOF)
        self.upstream = [random(batch, HORIZON, DOF) for _ in range(4)]
        self.gradients = GRADIENTS[way]
        doubles = self.action.detach().double().requires_grad_(), self.start.double()
        self.expected = self.gradients(ours_in_double, *doubles, self.upstream)

    def contender(self, name: str, step: Step) -> Contender:
        """One way to solve it."""
        arguments = step, self.action, self.start, self.upstream
        return Contender(name, lambda: self.gradients(*arguments), is_close_to(*self.expected))


def forward_and_backward(batch: int, way: str, *, with_compiled: bool) -> Case:
    """The function beside the published matrix form and what users of torch write."""
    problem = Problem(batch, way)
    peers = [problem.contender("matrix form", matrix_form), problem.contender("torch slices", slices)]
    if with_compiled:
        peers.append(problem.contender("torch.compile", compiled()))
    targets = {"matrix form": MATRIX_TARGETS[batch]} if way == "autograd.grad" else {}
    mine = problem.contender("ours", ours)
    case = f"clique, forward + {way}"
    return Case(case, batch, HORIZON, DOF, mine, tuple(peers), copies(batch, count=2), targets=targets)


def dropin(batch: int, way: str) -> Case:
    """The drop-in's class with reused buffers beside the function and the matrix form."""
    problem = Problem(batch, way)
    buffers = [torch.empty_like(problem.action, requires_grad=False) for _ in range(4)]
    gradient = torch.empty_like(problem.action, requires_grad=False)
    rate = torch.full((HORIZON,), 1 / DT)

    def step(action: Tensor, start: Tensor) -> Sequence[Tensor]:
        return CliqueTensorStepKernel.apply(action, start, None, None, *buffers, rate, gradient)

    peers = problem.contender("clique_step", ours), problem.contender("matrix form", matrix_form)
    mine = problem.contender("ours", step)
    targets = {"clique_step": DROPIN_TARGET}
    return Case(f"drop-in clique, forward + {way}", batch, HORIZON, DOF, mine, peers, targets=targets)


def above_the_floor(way: str) -> Case:
    """The function at its smallest beside an autograd function that does nothing."""
    problem = Problem(1, way)
    empty = empty_function()
    arguments = empty, problem.action, problem.start, problem.upstream
    floor = Contender("empty C++ autograd function", lambda: problem.gradients(*arguments), lambda _: None)
    mine = problem.contender("ours", ours)
    name = f"clique above the floor, forward + {way}"
    return Case(name, 1, HORIZON, DOF, mine, limit=floor, targets={"limit": FLOOR_TARGET})


def ours_in_double(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return clique_step(action, start, dt=DT, backend="reference")


def reused_buffers(batch: int) -> Case:
    action, start = random(batch, HORIZON, DOF), random(batch, DOF)
    upstream = [random(batch, HORIZON, DOF) for _ in range(4)]
    expected = exactly(lambda u: ours_in_double(u, start.double()), [action], upstream)
    return Case(
        "clique, both ways, reused buffers",
        batch,
        HORIZON,
        DOF,
        Contender("ours", launchers(action, start, upstream), is_close_to(*expected)),
        limit=copies(batch, count=2),
        targets={"limit": COPY_TARGET},
    )


def call_overhead() -> Case:
    action, start = random(1, HORIZON, DOF), random(1, DOF)
    expected = ours_in_double(action.double(), start.double())
    add = Contender("torch.add of this size", lambda: torch.add(action, action), is_close_to(2 * action))
    contender = Contender("ours", lambda: ours(action, start), is_close_to(*expected))
    return Case("clique, one forward call", 1, HORIZON, DOF, contender, limit=add, targets={"limit": ADD_TARGET})


def against_torch(name: str, kernel: ControlMap, batch: int) -> Case:
    """A map, forward and backward with all start gradients, beside the same formulas in torch operations."""
    leaves = [
        random(batch, HORIZON, DOF).requires_grad_(),
        *(random(batch, DOF, seed=k).requires_grad_() for k in (1, 2, 3)),
    ]
    upstream = [random(batch, kernel.output_horizon(HORIZON), DOF, seed=k) for k in range(4)]
    dt = torch.full((1, 1, 1), DT)

    def in_torch(*inputs: Tensor) -> Sequence[Tensor]:
        if name == "clique":
            return reference.clique(*inputs, dt)
        if name == "clique_central":
            return reference.clique_central(*inputs, torch.zeros_like(inputs[1]), dt)
        if name.startswith("acceleration"):
            return reference.acceleration(*inputs, dt, kernel.step.keywords["integrator"])
        return getattr(reference, name)(*inputs, dt)

    expected = exactly(functools.partial(kernel.step, dt=DT, backend="reference"), leaves, upstream)
    step = functools.partial(kernel.step, dt=DT)
    mine = Contender("ours", lambda: gradients(step, leaves, upstream), is_close_to(*expected))
    # In float32 the peer's own rounding grows with the order of the derivative.
    close = is_close_to(*expected, limit=1e-3)
    peer = Contender("the same in torch operations", lambda: gradients(in_torch, leaves, upstream), close)
    return Case(f"{name}, forward + backward", batch, HORIZON, DOF, mine, (peer,), copies(batch, count=2))


def any_dof(name: str, dof: int) -> Case:
    """A map forward and backward at 1000 trajectories of `dof` joints, beside a copy of the same bytes."""
    kernel, batch = MAPS[name], 1000
    action = random(batch, HORIZON, dof).requires_grad_()
    start = random(batch, dof)
    upstream = [random(batch, HORIZON, dof) for _ in range(4)]
    expected = exactly(lambda u: kernel.step(u, start.double(), dt=DT, backend="reference"), [action], upstream)
    run = functools.partial(vjp_by_grad, lambda u, p: kernel.step(u, p, dt=DT), action, start, upstream)
    mine = Contender("ours", run, is_close_to(*expected))
    return Case(f"{name}, {dof} joints", batch, HORIZON, dof, mine, limit=copies(batch, count=2, dof=dof))


def copies(batch: int, *, count: int, dof: int = DOF) -> Contender:
    """Plain copies that move as many bytes as `count` passes, which read one and write four tensors or the reverse."""
    return copies_of(5 * batch * HORIZON * dof // 2, count=count)
