"""Problems of the suites: a step with its gradients, in several ways, each compared with float64 arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from .registry import Case, Check, Contender, Run

DT = 0.02
HORIZON, DOF = 32, 7
Step = Callable[..., Sequence[Tensor]]
Gradients = Callable[[Step, Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]
"""Outputs and gradients of a step for leaves and upstream gradients."""


def random(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Normal random numbers, float32, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator(device).manual_seed(seed), device=device)


def by_grad(step: Step, leaves: Sequence[Tensor], upstream: Sequence[Tensor]) -> list[Tensor]:
    """Return outputs of a step, and the gradients of its arguments by `torch.autograd.grad`."""
    outputs = step(*leaves)
    return [*outputs, *torch.autograd.grad(outputs, leaves, upstream)]


def by_cost(step: Step, leaves: Sequence[Tensor], upstream: Sequence[Tensor]) -> list[Tensor]:
    """An optimizer's call: a scalar cost, quadratic in every output, and its backward."""
    for leaf in leaves:
        leaf.grad = None
    outputs = step(*leaves)
    sum(torch.linalg.vecdot(output.view(-1), output.view(-1)) for output in outputs).backward()
    return [*outputs, *(leaf.grad for leaf in leaves)]


class Problem:
    """Outputs and gradients of a step, and the same computed in float64 on the CPU.

    Args:
        step: the function, with the inputs as arguments, and `backend`.
        shapes: shapes of the inputs that are differentiated, the first of them `[batch, horizon, dof]`.
        fixed: inputs that are not differentiated, which follow them.
        rows: number of rows of the outputs; None: as many as in the first input.
        gradients: computes the gradients.
        first: number of trajectories that are checked; None: all. With a number, only the first input is
            differentiated.
        device: device of all tensors.

    """

    def __init__(
        self,
        step: Step,
        *shapes: tuple[int, ...],
        fixed: Sequence[Tensor] = (),
        rows: int | None = None,
        gradients: Gradients = by_grad,
        first: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.leaves = [random(*shape, seed=k, device=device).requires_grad_() for k, shape in enumerate(shapes)]
        self.fixed, self.first, self.device = fixed, first, device
        self._step, self._gradients = step, gradients
        batch, horizon, dof = self.shape = shapes[0]
        # The same array four times would be read from the cache.
        self.upstream = [random(batch, rows or horizon, dof, seed=10 + k, device=device) for k in range(4)]
        parts = (self.leaves, self.upstream, fixed)
        leaves, upstream, others = ([x[:first].detach().cpu().double() for x in part] for part in parts)
        leaves = [leaf.requires_grad_() for leaf in leaves]
        exact = gradients(lambda *inputs: step(*inputs, *others, backend="reference"), leaves, upstream)
        self.exact = [result.detach() for result in exact]

    def check(self, limit: float = 5e-6) -> Check:
        """A check of outputs and gradients."""
        close = is_close_to(*self.exact, limit=limit)
        return close if self.first is None else lambda results: close([result[: self.first] for result in results])

    def by_calling(self, name: str, run: Run) -> Contender:
        """A contender that has the inputs already, and returns outputs and gradients."""
        return Contender(name, run, self.check())

    def by_autograd(self, name: str = "ours", step: Step | None = None, limit: float = 5e-6) -> Contender:
        """Return a contender of this or another step, with gradients by autograd; `limit` is the allowed error."""
        chosen = step or self._step

        def run() -> Sequence[Tensor]:
            return self._gradients(lambda *inputs: chosen(*inputs, *self.fixed), self.leaves, self.upstream)

        return Contender(name, run, self.check(limit))

    def copies(self, count: int = 2) -> Contender:
        """Return plain copies of `count` tensors, which move as many bytes as both passes."""
        return copies_of(sum(x.numel() for x in (*self.leaves, *self.upstream)) // count, count, self.device)

    def case(self, name: str, ours: Contender, *peers: Contender, **options: object) -> Case:
        """A case of this size."""
        return Case(name, *self.shape, ours, peers, device=self.device, **options)


def clique_problem(batch: int, **options: object) -> Problem:
    """Return the problem of backward differences in a batch of the usual size, with a start position for each."""
    from traj_integrator_ros.kernels import clique_step

    shape = batch, HORIZON, DOF
    return Problem(partial(clique_step, dt=DT), shape, fixed=[random(batch, DOF, seed=20)], **options)


def is_close_to(*expected: Tensor, limit: float = 5e-6) -> Check:
    """A check that every result equals the expected one up to rounding, in the norm.

    Results are tensors or arrays: several, one that is a single result, or one that has them along its first dimension.
    """

    def check(results: object) -> None:
        got = [results] if len(expected) == 1 and not isinstance(results, Sequence) else list(results)
        assert len(got) == len(expected), f"expected {len(expected)} results, got {len(got)}"
        for i, (result, want) in enumerate(zip(got, expected, strict=True)):
            found = torch.from_numpy(result) if isinstance(result, np.ndarray) else result.detach().cpu()
            right = want.detach().cpu().double().reshape(found.shape)
            error = float((found.double() - right).norm() / right.norm())
            assert error <= limit, f"result {i} is off by {error:.1e}"

    return check


def copies_of(elements: int, count: int = 1, device: str = "cpu") -> Contender:
    """Plain copies of `count` float32 tensors of so many elements."""
    sources = [torch.arange(elements, device=device, dtype=torch.float32) for _ in range(count)]
    targets = [torch.empty_like(source) for source in sources]

    def run() -> list[Tensor]:
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)
        return targets

    def check(copied: object) -> None:
        assert all(map(torch.equal, copied, sources)), "a copy differs"

    return Contender("copy of the same bytes", run, check)
