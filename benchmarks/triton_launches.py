"""Launches that cover every Triton kernel, in each variant that makes other machine code, at the sizes for a device."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator

import torch

from traj_integrator_ros.kernels.types import AccelerationIntegrator

_PACKAGE = "traj_integrator_ros.kernels.triton"
_NAMES = ("clique_central", "chain", "bspline")
MODULES = tuple(f"{_PACKAGE}.{name}" for name in _NAMES)
"""Those that start kernels."""
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Many trajectories, so that programs have the size for large batches.
_B, _POOL = 100_000, 3
# Horizon and dof that make programs of each shape: the usual one, two blocks of rows, one joint, as many as they take.
_FLAT_SIZES = ((32, 7),)
_SCAN_SIZES = ((32, 7), (128, 7), (256, 1), (32, 32))


def _launch(
    name: str,
    vjp: bool,
    dtype: torch.dtype,
    per_step: bool,
    size: tuple[int, int],
    scheme: dict[str, object],
) -> None:
    """Start the launcher with everything there: all upstream gradients, a start pool; on tensors without memory."""
    launchers = importlib.import_module(f"{_PACKAGE}.{name if name == 'clique_central' else 'chain'}")
    central = name == "clique_central"
    horizon, dof = size
    starts = 4 if central else 3

    def empty(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    idx = empty(_B, dtype=torch.int32)
    dt = empty(1, horizon if per_step else 1, dtype=torch.float64)
    if vjp:
        upstream = [empty(_B, horizon + 4 * central, dof) for _ in range(4)]
        options = {"action_horizon": horizon, "needs": (True,) * (1 + starts), **scheme}
        getattr(launchers, f"{name}_vjp")(*upstream, idx, dt, start_rows=_POOL, **options)
    else:
        pools = [empty(_POOL, dof) for _ in range(starts)]
        getattr(launchers, f"{name}_forward")(empty(_B, horizon, dof), *pools, idx, dt, **scheme)


def _variants(name: str) -> Iterator[tuple[torch.dtype, bool, tuple[int, int]]]:
    """Dtype, whether each step has a length of its own (which makes the larger code), horizon and dof."""
    for size in _FLAT_SIZES if name == "clique_central" else _SCAN_SIZES:
        for dtype in _DTYPES:
            for per_step in (False,) if name == "clique_central" else (False, True):
                yield dtype, per_step, size


def _name(
    name: str, scheme: dict[str, object], vjp: bool, dtype: torch.dtype, per_step: bool, size: tuple[int, int]
) -> str:
    schemes = [str(value.value) for value in scheme.values()]
    direction = "vjp" if vjp else "forward"
    dtypes = str(dtype).removeprefix("torch.")
    steps = "dt/step" if per_step else "one dt"
    return " ".join((name, *schemes, direction, dtypes, steps, f"H{size[0]}", f"D{size[1]}"))


_MAPS = (
    ("clique", {}),
    ("clique_central", {}),
    ("velocity", {}),
    ("acceleration", {"integrator": AccelerationIntegrator.ZOH}),
    ("acceleration", {"integrator": AccelerationIntegrator.SEMI_IMPLICIT_EULER}),
    ("jerk", {}),
)
LAUNCHES: dict[str, Callable[[], object]] = {
    _name(name, scheme, vjp, dtype, per_step, size): functools.partial(
        _launch, name, vjp, dtype, per_step, size, scheme
    )
    for name, scheme in _MAPS
    for vjp in (False, True)
    for dtype, per_step, size in _variants(name)
}


def _launch_spline(degree: int, vjp: bool, has_goal: bool, dtype: torch.dtype) -> None:
    """The same of splines, 16 control points to 77 rows of 7 joints, with both pools where there is a goal."""
    from traj_integrator_ros.kernels.splines.form import SplineForm
    from traj_integrator_ros.kernels.triton.bspline import bspline_forward, bspline_vjp

    form, points, dof = SplineForm(degree), 16, 7

    def empty(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    idx, dt = empty(_B, dtype=torch.int32), empty(_B, 1, dtype=torch.float64)
    pools = [empty(_POOL, dof) for _ in range(4)]
    goal, goal_idx = (pools, idx) if has_goal else ([None] * 4, None)
    if not vjp:
        action = empty(_B, points, dof)
        bspline_forward(action, *pools, idx, *goal, goal_idx, dt, form=form)
        return
    upstream = [empty(_B, form.rows(points), dof) for _ in range(4)]
    needs = (True,) * 5 + (has_goal,) * 4
    rows = {"start_rows": _POOL, "goal_rows": _POOL if has_goal else -1, "action_horizon": points}
    bspline_vjp(*upstream, idx, goal_idx, dt, **rows, needs=needs, form=form)


LAUNCHES |= {
    f"bspline {'vjp' if vjp else 'forward'} {str(dtype).removeprefix('torch.')} degree {degree}"
    f"{' to a goal' if has_goal else ''} P16 D7": functools.partial(_launch_spline, degree, vjp, has_goal, dtype)
    for degree in (3, 4, 5)
    for vjp in (False, True)
    for has_goal in (False, True)
    for dtype in _DTYPES
}
QUICK = tuple(name for name in LAUNCHES if re.search(r"float32 (one dt H(32 D7|128)|degree 4 to a goal)", name))
"""One for each kernel, with and without a carry."""
