"""The kernels on the CPU: the matrix form, torch operations and a plain copy of the same bytes beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward

from traj_integrator_ros.kernels import MAPS, ControlMap, ControlSpace, clique_step, reference
from traj_integrator_ros.kernels.dropin.tensor_device_type import TensorDeviceType
from traj_integrator_ros.kernels.integration_utils import (
    build_fd_matrix,
    build_start_state_mask,
    jit_backward_pos_clique,
    jit_tensor_step_pos_clique,
)

from ..checks import is_close_to, random
from ..registry import Case, Contender, suite

HORIZON, DOF, DT = 32, 7, 0.02
# Least speed-up over the matrix form, forward and backward, by batch.
MATRIX_TARGETS = {1: 4.0, 100: 10.0, 1000: 15.0, 10_000: 15.0}
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
def matrices() -> tuple[Tensor, ...]:
    mask, shift = build_start_state_mask(HORIZON, TensorDeviceType(torch.device("cpu"), torch.float32))
    difference = build_fd_matrix(HORIZON, SHIFT=True) / DT
    return mask, shift, difference, difference @ difference, difference @ difference @ difference


def matrix_form(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return MatrixForm.apply(action, start, *matrices())


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


def vjp_through_engine(step: Step, action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The four outputs and the gradient of the action, by the autograd engine alone.

    `torch.autograd.grad` checks its arguments in Python first, which takes 20 us for four outputs, whoever made them;
    the backward of a scalar cost does not pass here. One case measures with it.
    """
    outputs = tuple(step(action, start))
    gradient = _engine_run_backward(outputs, tuple(upstream), False, False, (action,), False, accumulate_grad=False)
    return (*outputs, *gradient)


def vjp_by_grad(step: Step, action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> tuple[Tensor, ...]:
    outputs = step(action, start)
    return (*outputs, *torch.autograd.grad(outputs, action, upstream))


@suite("cpu_kernels")
def cpu_kernels(quick: bool) -> Iterator[Case]:
    for batch in (1, 100, 1000, 10_000):
        yield forward_and_backward(batch, with_compiled=not quick or batch == 1000)
    yield forward_and_backward(1, with_compiled=False, pull=vjp_by_grad)
    yield reused_buffers(10_000)
    yield call_overhead()
    for name, kernel in MAPS.items():
        if kernel.control_space is ControlSpace.BSPLINE:
            continue  # has a suite of its own
        for batch in (1000,) if quick else (1, 100, 1000, 10_000):
            yield against_torch(name, kernel, batch)


def forward_and_backward(batch: int, *, with_compiled: bool, pull: Callable[..., tuple] = vjp_through_engine) -> Case:
    action, start = random(batch, HORIZON, DOF).requires_grad_(), random(batch, DOF)
    upstream = [random(batch, HORIZON, DOF) for _ in range(4)]
    expected = in_double(action, start, upstream)

    def contender(name: str, step: Step) -> Contender:
        return Contender(name, lambda: pull(step, action, start, upstream), is_close_to(*expected))

    peers = [contender("matrix form", matrix_form), contender("torch slices", slices)]
    if with_compiled:
        peers.append(contender("torch.compile", compiled()))
    through_engine = pull is vjp_through_engine
    return Case(
        "clique, forward + backward" if through_engine else "clique, forward + autograd.grad",
        batch,
        HORIZON,
        DOF,
        contender("ours", ours),
        tuple(peers),
        copies(batch, count=2),
        targets={"matrix form": MATRIX_TARGETS[batch]} if through_engine else {},
    )


def in_double(action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What float64 arithmetic makes of the same numbers."""
    action = action.detach().double().requires_grad_()
    return vjp_through_engine(ours_in_double, action, start.double(), [gradient.double() for gradient in upstream])


def ours_in_double(action: Tensor, start: Tensor) -> Sequence[Tensor]:
    return clique_step(action, start, dt=DT, backend="reference")


def reused_buffers(batch: int) -> Case:
    from traj_integrator_ros.kernels import native

    action, start = random(batch, HORIZON, DOF), random(batch, DOF)
    dt = torch.full((1, 1), DT, dtype=torch.float64)
    out, gradient = [torch.empty_like(action) for _ in range(4)], torch.empty_like(action)
    upstream = [random(batch, HORIZON, DOF) for _ in range(4)]
    needs = (True, False, False, False)
    expected = in_double(action, start, upstream)

    def run() -> tuple[Tensor, ...]:
        native.clique_forward(action, start, None, None, None, dt, out=out)
        native.clique_vjp(*upstream, None, dt, start_rows=batch, action_horizon=HORIZON, needs=needs, out=gradient)
        return (*out, gradient)

    return Case(
        "clique, both ways, reused buffers",
        batch,
        HORIZON,
        DOF,
        Contender("ours", run, is_close_to(*expected)),
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
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch, HORIZON, DOF), (batch, DOF), (batch, DOF), (batch, DOF)]
    leaves = [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]
    rows = kernel.output_horizon(HORIZON)
    upstream = [torch.randn(batch, rows, DOF, generator=generator) for _ in range(4)]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    dt = torch.full((1, 1, 1), DT)

    def pull(step: Callable[..., Sequence[Tensor]], inputs: list[Tensor]) -> tuple[Tensor, ...]:
        outputs = step(*inputs)
        return (*outputs, *torch.autograd.grad(outputs, inputs, [g.to(inputs[0].dtype) for g in upstream]))

    def in_torch(*inputs: Tensor) -> Sequence[Tensor]:
        if name == "clique":
            return reference.clique(*inputs, dt)
        if name == "clique_central":
            return reference.clique_central(*inputs, torch.zeros_like(inputs[1]), dt)
        if name.startswith("acceleration"):
            return reference.acceleration(*inputs, dt, kernel.step.keywords["integrator"])
        return getattr(reference, name)(*inputs, dt)

    expected = pull(lambda *inputs: kernel.step(*inputs, dt=DT, backend="reference"), doubles)
    mine = Contender("ours", lambda: pull(lambda *inputs: kernel.step(*inputs, dt=DT), leaves), is_close_to(*expected))
    # In float32 the peer's own rounding grows with the order of the derivative.
    peer = Contender("the same in torch operations", lambda: pull(in_torch, leaves), is_close_to(*expected, limit=1e-3))
    return Case(f"{name}, forward + backward", batch, HORIZON, DOF, mine, (peer,), copies(batch, count=2))


def copies(batch: int, *, count: int) -> Contender:
    """Plain copies that move as many bytes as `count` passes, which read one and write four tensors or the reverse."""
    sources = [random(5 * batch * HORIZON * DOF // 2) for _ in range(count)]
    targets = [torch.empty_like(source) for source in sources]

    def run() -> list[Tensor]:
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)
        return targets

    return Contender("copy of the same bytes", run, is_close_to(*sources))
