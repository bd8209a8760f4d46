"""Problems of the suites: a map with its gradient, in several ways, each compared with float64 arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import MAPS

from .registry import Case, Check, Contender, Run

DT = 0.02
HORIZON, DOF = 32, 7
COPY = "copy of the same bytes"
CHECKED = 100
"""Number of trajectories of a batch that are checked."""
Step = Callable[[Tensor, Tensor], Sequence[Tensor]]
"""Outputs for actions and a start position."""


def random(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Normal random numbers, float32, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator(device).manual_seed(seed), device=device)


class Problem:
    """Outputs of a map and the gradient of its actions, and the same computed in float64 on the CPU.

    The shape is batch, horizon and joints; trajectories begin at 0, or at `starts` of their own.
    """

    def __init__(self, name: str, *shape: int, starts: bool = False, device: str = "cpu") -> None:
        batch, horizon, dof = self.shape = shape
        self.name, self.step, self.device = name, partial(MAPS[name].step, dt=DT), device
        self.action = random(*shape, device=device).requires_grad_()
        self.start = random(batch, dof, seed=20) if starts else torch.zeros(1, dof, device=device)
        rows = MAPS[name].output_horizon(horizon)
        # The same array four times would be read from the cache.
        self.upstream = [random(batch, rows, dof, seed=10 + k, device=device) for k in range(4)]
        given = (x[:CHECKED].detach().cpu().double() for x in (self.action, self.start, *self.upstream))
        action, start, *upstream = given
        exact = _both_ways(partial(self.step, backend="reference"), action.requires_grad_(), start, upstream)
        self._exact = [result.detach() for result in exact]

    def by_calling(self, name: str, run: Run, limit: float = 5e-6) -> Contender:
        """A contender that has the inputs already, and returns outputs and gradients; `limit` is the allowed error."""
        close = is_close_to(*self._exact, limit=limit)
        return Contender(name, run, lambda results: close([result[:CHECKED] for result in results]))

    def by_autograd(self, name: str = "ours", step: Step | None = None, limit: float = 5e-6) -> Contender:
        """Return a contender of this or another step, with the gradient by autograd."""
        run = partial(_both_ways, step or self.step, self.action, self.start, self.upstream)
        return self.by_calling(name, run, limit)

    def copies(self, count: int = 1) -> Contender:
        """Return plain copies of `count` tensors, which move as many bytes as both passes."""
        elements = sum(x.numel() for x in (self.action, *self.upstream)) // count
        sources = [torch.arange(elements, device=self.device, dtype=torch.float32) for _ in range(count)]
        targets = [torch.empty_like(source) for source in sources]

        def run() -> list[Tensor]:
            return [target.copy_(source) for target, source in zip(targets, sources, strict=True)]

        def check(copied: object) -> None:
            assert all(map(torch.equal, copied, sources)), "a copy differs"

        return Contender(COPY, run, check)

    def case(self, name: str, ours: Contender, *peers: Contender, **options: object) -> Case:
        """A case of this size."""
        return Case(name, *self.shape, ours, peers, device=self.device, **options)


def _both_ways(step: Step, action: Tensor, start: Tensor, upstream: Sequence[Tensor]) -> list[Tensor]:
    outputs = step(action, start)
    return [*outputs, *torch.autograd.grad(outputs, action, upstream)]


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
