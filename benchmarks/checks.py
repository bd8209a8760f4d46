"""Inputs and checks that suites share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .registry import Contender

Check = Callable[[object], None]


def random(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Normal random numbers, float32, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator(device).manual_seed(seed), device=device)


def gradients(
    step: Callable[..., Sequence[Tensor]], leaves: Sequence[Tensor], upstream: Sequence[Tensor]
) -> list[Tensor]:
    """Outputs of a step, and the gradients of its arguments through `torch.autograd.grad`."""
    outputs = step(*leaves)
    return [*outputs, *torch.autograd.grad(outputs, leaves, [gradient.to(leaves[0].dtype) for gradient in upstream])]


def exactly(
    step: Callable[..., Sequence[Tensor]], leaves: Sequence[Tensor], upstream: Sequence[Tensor]
) -> list[Tensor]:
    """What float64 arithmetic on the CPU makes of the same numbers."""
    doubles = [leaf.detach().cpu().double().requires_grad_() for leaf in leaves]
    return [found.detach() for found in gradients(step, doubles, [gradient.cpu() for gradient in upstream])]


def is_close_to(*expected: Tensor, limit: float = 5e-6) -> Check:
    """A check that every result differs from the expected one by no more than rounding, in the norm.

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


def copies_of(elements: int, *, count: int = 1, device: str = "cpu") -> Contender:
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
