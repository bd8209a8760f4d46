"""Launches that cover every Triton kernel, in each variant that makes other machine code, at the sizes for a device."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator

import torch

from traj_integrator_ros.kernels.triton.launch import FlatTile
from traj_integrator_ros.kernels.types import AccelerationIntegrator

_PACKAGE = "traj_integrator_ros.kernels.triton"
MODULES = tuple(f"{_PACKAGE}.{name}" for name in ("clique", "clique_central", "scan", "start_gradients", "bspline"))
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_B, _POOL = 6, 3
# Horizon and dof that make tiles of each shape.
_FLAT_SIZE = (33, 7)
_SCAN_SIZES = ((128, 7), (32, 7), (256, 1), (32, 32))


def _launch(
    module: str,
    name: str,
    vjp: bool,
    dtype: torch.dtype,
    per_step: bool,
    size: tuple[int, int],
    scheme: dict[str, object],
) -> None:
    """Start the launcher with everything there: all upstream gradients, a start pool, a dt for each trajectory."""
    launchers = importlib.import_module(f"{_PACKAGE}.{module}")
    central = name == "clique_central"
    horizon, dof = size
    output_horizon = horizon + 4 * central
    starts = 4 if central else 3
    idx = torch.zeros(_B, dtype=torch.int32)
    dt = torch.ones(_B, horizon if per_step else 1, dtype=torch.float64)
    # On CPU tensors flat programs would have the size for the interpreter.
    tile = _flat_tile(dtype) if module.startswith("clique") else None
    if vjp:
        upstream = [torch.zeros(_B, output_horizon, dof, dtype=dtype) for _ in range(4)]
        needs = (True,) * (1 + starts)
        getattr(launchers, f"{name}_vjp")(
            *upstream, idx, dt, start_rows=_POOL, action_horizon=horizon, needs=needs, tile=tile, **scheme
        )
    else:
        action = torch.zeros(_B, horizon, dof, dtype=dtype)
        pools = [torch.zeros(_POOL, dof, dtype=dtype) for _ in range(starts)]
        getattr(launchers, f"{name}_forward")(action, *pools, idx, dt, tile=tile, **scheme)


def _flat_tile(dtype: torch.dtype) -> FlatTile:
    return FlatTile(256, 4096 // (256 * torch.empty(0, dtype=dtype).element_size()), 8)


def _variants(module: str) -> Iterator[tuple[torch.dtype, bool, tuple[int, int]]]:
    """Dtype, whether each step has a length of its own (which makes the larger code), horizon and dof."""
    for size in (_FLAT_SIZE,) if module.startswith("clique") else _SCAN_SIZES:
        for dtype in _DTYPES:
            for per_step in (False,) if module == "clique_central" else (False, True):
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
    ("clique", "clique", {}),
    ("clique_central", "clique_central", {}),
    ("scan", "acceleration", {"integrator": AccelerationIntegrator.ZOH}),
    ("scan", "acceleration", {"integrator": AccelerationIntegrator.SEMI_IMPLICIT_EULER}),
    ("scan", "jerk", {}),
    ("velocity", "velocity", {}),
)
LAUNCHES: dict[str, Callable[[], object]] = {
    _name(name, scheme, vjp, dtype, per_step, size): functools.partial(
        _launch, module, name, vjp, dtype, per_step, size, scheme
    )
    for module, name, scheme in _MAPS
    for vjp in (False, True)
    for dtype, per_step, size in _variants(module)
}


def _launch_spline(degree: int, vjp: bool, has_goal: bool, dtype: torch.dtype) -> None:
    """The same of splines, 16 control points to 77 rows of 7 joints, with both pools where there is a goal."""
    from traj_integrator_ros.kernels.splines.form import SplineForm
    from traj_integrator_ros.kernels.triton.bspline import bspline_forward, bspline_vjp

    form, points, dof = SplineForm(degree), 16, 7
    idx = torch.zeros(_B, dtype=torch.int32)
    dt = torch.ones(_B, 1, dtype=torch.float64)
    pools = [torch.zeros(_POOL, dof, dtype=dtype) for _ in range(4)]
    goal, goal_idx = (pools, idx) if has_goal else ([None] * 4, None)
    tile = _flat_tile(dtype)
    if not vjp:
        action = torch.zeros(_B, points, dof, dtype=dtype)
        bspline_forward(action, *pools, idx, *goal, goal_idx, dt, form=form, tile=tile)
        return
    upstream = [torch.zeros(_B, form.rows(points), dof, dtype=dtype) for _ in range(4)]
    needs = (True,) * 5 + (has_goal,) * 4
    rows = {"start_rows": _POOL, "goal_rows": _POOL if has_goal else -1, "action_horizon": points}
    bspline_vjp(*upstream, idx, goal_idx, dt, **rows, needs=needs, form=form, tile=tile)


LAUNCHES |= {
    f"bspline {'vjp' if vjp else 'forward'} {str(dtype).removeprefix('torch.')} degree {degree}"
    f"{' to a goal' if has_goal else ''} P16 D7": functools.partial(_launch_spline, degree, vjp, has_goal, dtype)
    for degree in (3, 4, 5)
    for vjp in (False, True)
    for has_goal in (False, True)
    for dtype in _DTYPES
}
# One launch for each kernel, dtype and kind of dt that differs in more than size; the others are for thorough runs.
QUICK = tuple(
    name
    for name in LAUNCHES
    if re.search("H33|H128", name) and re.search("float32 |float64 dt/step|bfloat16 one|clique.*float64", name)
)
