"""Launches with random inputs, and what the reference says of them, for the checks of the Triton kernels.

The oracle is `reference` in float64 on the same inputs; transposes are compared with its autograd.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import torch
from triton import language

from traj_integrator_ros.kernels import reference
from traj_integrator_ros.kernels.triton import chain, clique_central
from traj_integrator_ros.kernels.types import AccelerationIntegrator

DEVICE = os.environ.get("TRITON_CHECKS_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"


def _patch_once() -> None:
    """Keep the interpreter from looking through the whole language for every call of a function by a kernel.

    It replaces what the language is made of before each launch, and again before each such call, when nothing is left
    to replace: two thirds of the time of these checks.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang

    def patch_what_is_not(function: Callable) -> object:
        languages = [one for one in function.__globals__.values() if one is language or one is language.core]
        if languages and not any(language.core.is_builtin(one.load) for one in languages):
            return interpreter._LangPatchScope()  # of no changes
        return patch(function)

    interpreter._patch_lang = patch_what_is_not


if not ON_GPU:
    _patch_once()
ZOH, SEMI_IMPLICIT = AccelerationIntegrator.ZOH, AccelerationIntegrator.SEMI_IMPLICIT_EULER


@dataclasses.dataclass(frozen=True)
class Map:
    """One control map: its launchers, its reference, and what they take beyond the common arguments."""

    forward: Callable
    vjp: Callable
    reference: Callable
    scheme: dict[str, object] = dataclasses.field(default_factory=dict)
    vjp_scheme: dict[str, object] = dataclasses.field(default_factory=dict)
    starts: int = 3
    extra_horizon: int = 0
    uniform_dt_only: bool = False

    def output_horizon(self, action_horizon: int) -> int:
        return action_horizon + self.extra_horizon

    @property
    def flat(self) -> bool:
        return self.reference is reference.clique_central


_CENTRAL = Map(
    clique_central.clique_central_forward,
    clique_central.clique_central_vjp,
    reference.clique_central,
    starts=4,
    extra_horizon=4,
    uniform_dt_only=True,
)
MAPS = {
    "clique": Map(chain.clique_forward, chain.clique_vjp, reference.clique),
    "clique_central": _CENTRAL,
    "clique_central_truncated": dataclasses.replace(_CENTRAL, vjp_scheme={"truncate_terminal_gradient": True}),
    "acceleration_zoh": Map(
        chain.acceleration_forward, chain.acceleration_vjp, reference.acceleration, {"integrator": ZOH}
    ),
    "acceleration_semi_implicit_euler": Map(
        chain.acceleration_forward,
        chain.acceleration_vjp,
        reference.acceleration,
        {"integrator": SEMI_IMPLICIT},
    ),
    "velocity": Map(chain.velocity_forward, chain.velocity_vjp, reference.velocity),
    "jerk": Map(chain.jerk_forward, chain.jerk_vjp, reference.jerk),
}


@dataclasses.dataclass
class Case:
    """Inputs of one launch."""

    action: torch.Tensor
    start: list[torch.Tensor | None]
    start_index: torch.Tensor | None
    dt: torch.Tensor
    upstream: list[torch.Tensor | None]
    needs: tuple[bool, ...]

    @property
    def pool(self) -> int:
        return self.start[0].shape[0]


def make_case(
    kernel: Map,
    batch: int,
    horizon: int,
    dof: int,
    dtype: torch.dtype = torch.float64,
    *,
    seed: int = 0,
    dt: str = "scalar",
    dt_dtype: torch.dtype = torch.float64,
    start: str = "rows",
    absent_starts: tuple[int, ...] = (),
    absent_upstream: tuple[int, ...] = (),
    unneeded: tuple[int, ...] = (),
    strided: bool = False,
) -> Case:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        if not strided:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)
        wide = torch.randn(*shape[:-1], 2 * shape[-1], generator=generator, dtype=torch.float64)
        return wide.to(DEVICE, dtype)[..., ::2]

    rows = {"rows": batch, "one": 1, "pool int32": 5, "pool int64": 5}[start]
    if dt == "per step" and kernel.uniform_dt_only:
        dt = "scalar"
    if dt == "per step and trajectory" and kernel.uniform_dt_only:
        dt = "per trajectory"
    dt_shape = {
        "scalar": (1, 1),
        "per step": (1, horizon),
        "per trajectory": (batch, 1),
        "per step and trajectory": (batch, horizon),
    }[dt]
    index = torch.randint(0, max(rows, 1), (batch,), generator=generator)
    output_shape = (batch, kernel.output_horizon(horizon), dof)
    starts = [None if i in absent_starts else random(rows, dof) for i in range(kernel.starts)]
    return Case(
        action=random(batch, horizon, dof),
        start=starts,
        start_index=index.to(DEVICE, torch.int32 if start == "pool int32" else torch.int64)
        if "pool" in start
        else None,
        dt=(0.1 + 0.5 * torch.rand(dt_shape, generator=generator, dtype=torch.float64)).to(DEVICE, dt_dtype),
        upstream=[None if i in absent_upstream else random(*output_shape) for i in range(4)],
        needs=tuple(i not in unneeded for i in range(1 + kernel.starts)),
    )


def launch(kernel: Map, case: Case, tile: object = None) -> tuple[tuple, tuple]:
    """Forward and transpose by the kernels."""
    forward = kernel.forward(case.action, *case.start, case.start_index, case.dt, **kernel.scheme, tile=tile)
    return forward, vjp(kernel, case, tile)


def vjp(kernel: Map, case: Case, tile: object = None, **options) -> tuple:
    return kernel.vjp(
        *case.upstream,
        case.start_index,
        case.dt,
        start_rows=case.pool,
        action_horizon=case.action.shape[1],
        needs=case.needs,
        tile=tile,
        **kernel.scheme,
        **kernel.vjp_scheme,
        **options,
    )


def expected(kernel: Map, case: Case) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """Forward and transpose by the reference and its autograd, float64, on the CPU."""

    def leaf(tensor: torch.Tensor | None, shape: tuple[int, int]) -> torch.Tensor:
        value = torch.zeros(shape) if tensor is None else tensor
        return value.detach().cpu().double().requires_grad_()

    dof = case.action.shape[2]
    action = leaf(case.action, (0, 0))
    starts = [leaf(start, (case.pool, dof)) for start in case.start]
    index = None if case.start_index is None else case.start_index.cpu().long()
    rows = [start if index is None else start[index] for start in starts]
    dt = case.dt.cpu().double()[..., None]
    arguments = [action, *rows, dt, *kernel.scheme.values(), *kernel.vjp_scheme.values()]
    trajectory = kernel.reference(*arguments)
    there = [i for i in range(4) if case.upstream[i] is not None]
    cotangents = [case.upstream[i].cpu().double() for i in there]
    gradients = torch.autograd.grad(
        [trajectory[i] for i in there], [action, *starts], cotangents, allow_unused=True, materialize_grads=True
    )
    return [output.detach() for output in trajectory], [
        gradient if needed else None for gradient, needed in zip(gradients, case.needs, strict=True)
    ]


def errors(got: tuple, wanted: list) -> list[float]:
    """Relative error of each result in the norm; None must be where None is wanted."""
    result = []
    for actual, right in zip(got, wanted, strict=True):
        assert (actual is None) == (right is None)
        if right is not None:
            assert actual.shape == right.shape
            assert actual.is_contiguous()
            assert not right.numel() or bool(actual.isfinite().all())
            difference = (actual.cpu().double() - right).norm()
            result.append(float(difference / right.norm()) if right.norm() > 0 else float(difference))
    return result


def assert_matches(kernel: Map, case: Case, tolerance: float, tile: object = None) -> None:
    wanted_forward, wanted_gradients = expected(kernel, case)
    forward, gradients = launch(kernel, case, tile)
    for result in (*forward, *gradients):
        assert result is None or result.dtype == case.action.dtype
    assert max(errors(forward, wanted_forward)) <= tolerance
    assert max(errors(gradients, wanted_gradients), default=0.0) <= tolerance
