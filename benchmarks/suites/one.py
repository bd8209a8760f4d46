"""One trajectory with a loss and its gradient, as an optimizer computes it, beside compilers that do the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS, ControlMap, ControlSpace, CostTerm, QuadraticCost, quadratic_cost

from ..problems import DOF, DT, HORIZON, is_close_to, random
from ..registry import Case, Contender, Run

# Least times of JAX over ours: with the loss in torch or in one pass, and by the vector-Jacobian product.
AUTOGRAD_TARGET, VJP_TARGET = 1.0, 2.0
# Least share of the time that a loss in torch takes by itself, of a leaf in place of the outputs.
LOSS_TARGET = 0.4
FEW = "clique", "jerk", "bspline_tight"
POINTS, STATE = 16, 3
"""Control points of a spline, and rows of its start."""
COST = QuadraticCost(*[CostTerm(weight=1.0)] * 4)


def cpu_one_trajectory(quick: bool) -> Iterator[Case]:
    """Every map, one trajectory: the sum of all squared outputs, and its gradient for the actions."""
    peers = {"torch.compile": by_compiled}
    if find_spec("jax"):  # requirements/peers.txt
        peers["jax.jit"] = by_jax
    for name, kernel in MAPS.items():
        if quick and name not in FEW:
            continue
        rows = POINTS if kernel.control_space is ControlSpace.BSPLINE else HORIZON
        action, *start = random(1, rows, DOF), *(random(1, DOF, seed=1 + k) for k in range(STATE))
        matrices = matrices_of(kernel, rows)
        found = loss_and_gradient(partial(products, matrices), action.double(), [row.double() for row in start])
        check = is_close_to(*found)
        others = [Contender(peer, make(matrices, action, start), check) for peer, make in peers.items()]
        ours = {
            "loss in torch": (partial(loss_and_gradient, partial(kernel.step, dt=DT), action, start), AUTOGRAD_TARGET),
            "quadratic_cost": (partial(by_cost, kernel, action, start), AUTOGRAD_TARGET),
            "ControlMap.vjp": (partial(by_vjp, kernel, action, start), VJP_TARGET),
        }
        for way, (run, target) in ours.items():
            targets, beside = {"jax.jit": target} if "jax.jit" in peers else {}, [*others]
            if way == "loss in torch":
                beside.append(alone := loss_alone(torch.cat(kernel.step(action, *start, dt=DT))))
                targets[alone.name] = LOSS_TARGET
            mine = Contender("ours", run, check)
            yield Case(f"{name}, {way}", 1, rows, DOF, mine, tuple(beside), targets=targets)


# Ours


def loss_and_gradient(step: Callable[..., Sequence[Tensor]], action: Tensor, start: Sequence[Tensor]) -> list[Tensor]:
    """The loss in torch operations on one tensor, because each tensor has its price, and its backward."""
    leaf = action.detach().requires_grad_()
    loss = sum_of_squares(torch.cat(tuple(step(leaf, *start))))
    return [loss, *torch.autograd.grad(loss, leaf)]


def sum_of_squares(outputs: Tensor) -> Tensor:
    flat = outputs.view(-1)
    return torch.dot(flat, flat)


def loss_alone(outputs: Tensor) -> Contender:
    """The same loss and backward, of a leaf."""

    def run() -> list[Tensor]:
        leaf = outputs.detach().requires_grad_()
        loss = sum_of_squares(leaf)
        return [loss, *torch.autograd.grad(loss, leaf)]

    exact = outputs.double()
    return Contender("the loss alone", run, is_close_to(exact.square().sum(), 2 * exact))


def by_cost(kernel: ControlMap, action: Tensor, start: Sequence[Tensor]) -> list[Tensor]:
    """Map, loss and gradient in one pass."""
    leaf = action.detach().requires_grad_()
    loss = quadratic_cost(leaf, *start, cost=COST, control_map=kernel, dt=DT)
    return [loss, *torch.autograd.grad(loss, leaf)]


def by_vjp(kernel: ControlMap, action: Tensor, start: Sequence[Tensor]) -> list[Tensor]:
    """The map, the loss and its hand-written derivative, and the vector-Jacobian product: no autograd."""
    outputs = kernel.step(action, *start, dt=DT)
    flat = torch.cat(outputs).view(-1)
    upstream = (flat + flat).view(4, 1, -1, DOF).unbind()
    needs = (True, *[False] * 6)
    gradient, *_ = kernel.vjp(upstream, dt=DT, action_horizon=action.shape[1], start_rows=1, needs=needs)
    return [torch.dot(flat, flat), gradient]


# The same by others


def matrices_of(kernel: ControlMap, rows: int) -> list[Tensor]:
    """`[H, rows + 3]` for each output of a map, which is linear: the weights of actions and start rows, float64."""
    each = torch.eye(rows + STATE, dtype=torch.float64)
    outputs = kernel.step(each[None, :rows], *(row[None] for row in each[rows:]), dt=DT, backend="reference")
    return [output[0] for output in outputs]


def products(matrices: Sequence[Tensor], action: Tensor, *start: Tensor) -> list[Tensor]:
    """One product for each output; derivatives are torch's own."""
    inputs = torch.cat([action, *(row[:, None] for row in start)], 1)
    return [torch.einsum("rp,bpd->brd", matrix, inputs) for matrix in matrices]


def by_compiled(matrices: Sequence[Tensor], action: Tensor, start: Sequence[Tensor]) -> Run:
    """Products and loss are compiled as one."""
    narrow = [matrix.float() for matrix in matrices]

    @partial(torch.compile, dynamic=False)
    def loss_of(action: Tensor, *start: Tensor) -> Tensor:
        return sum(output.square().sum() for output in products(narrow, action, *start))

    def run() -> list[Tensor]:
        leaf = action.detach().requires_grad_()
        loss = loss_of(leaf, *start)
        return [loss, *torch.autograd.grad(loss, leaf)]

    return run


def by_jax(matrices: Sequence[Tensor], action: Tensor, start: Sequence[Tensor]) -> Run:
    """Compiled as one function of arrays that JAX already has."""
    import jax

    narrow = [matrix.float().numpy() for matrix in matrices]

    def loss_of(action: jax.Array, *start: jax.Array) -> jax.Array:
        inputs = jax.numpy.concatenate([action, *(row[:, None] for row in start)], 1)
        return sum((jax.numpy.einsum("rp,bpd->brd", matrix, inputs) ** 2).sum() for matrix in narrow)

    both = jax.jit(jax.value_and_grad(loss_of))
    given = [jax.numpy.asarray(x.numpy()) for x in (action, *start)]
    return lambda: [np.asarray(x) for x in jax.block_until_ready(both(*given))]
