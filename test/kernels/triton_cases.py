"""Launches that cover every Triton kernel, in each variant that makes other machine code, at the sizes for a device."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator

import torch

from traj_integrator_ros.kernels.triton.launch import FlatTile, ScanTile, scan_tile
from traj_integrator_ros.kernels.types import AccelerationIntegrator

_PACKAGE = "traj_integrator_ros.kernels.triton"
MODULES = tuple(f"{_PACKAGE}.{name}" for name in ("clique", "clique_central", "scan", "start_gradients"))
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_B, _H, _D, _POOL = 6, 33, 7, 3


def _launch(
    module: str,
    name: str,
    transpose: bool,
    dtype: torch.dtype,
    steps: int,
    tile: FlatTile | ScanTile,
    scheme: dict[str, object],
) -> None:
    """Start the launcher with everything there: all upstream gradients, a start pool, a dt for each trajectory."""
    launchers = importlib.import_module(f"{_PACKAGE}.{module}")
    central = name == "clique_central"
    horizon = _H + 4 * central
    starts = 4 if central else 3
    idx = torch.zeros(_B, dtype=torch.int32)
    dt = torch.ones(_B, steps, dtype=torch.float64)
    if transpose:
        upstream = [torch.zeros(_B, horizon, _D, dtype=dtype) for _ in range(4)]
        needs = (True,) * (1 + starts)
        getattr(launchers, f"{name}_transpose")(
            *upstream, idx, dt, start_rows=_POOL, action_horizon=_H, needs=needs, tile=tile, **scheme
        )
    else:
        action = torch.zeros(_B, _H, _D, dtype=dtype)
        pools = [torch.zeros(_POOL, _D, dtype=dtype) for _ in range(starts)]
        getattr(launchers, f"{name}_forward")(action, *pools, idx, dt, tile=tile, **scheme)


def _variants(module: str) -> Iterator[tuple[torch.dtype, int, FlatTile | ScanTile]]:
    """Dtype, columns of dt and tile. A step length for each step makes the larger code: most variants have it."""
    if module.startswith("clique"):
        for dtype in _DTYPES:
            accesses = 4096 // (256 * torch.empty(0, dtype=dtype).element_size())
            for steps in (1,) if module == "clique_central" else (1, _H):
                yield dtype, steps, FlatTile(256, accesses, 8)
    else:
        for tile in (scan_tile(128, 7), scan_tile(32, 7), scan_tile(256, 1), scan_tile(32, 32)):
            for dtype in _DTYPES:
                for steps in (1, _H):
                    yield dtype, steps, tile


def _name(name: str, scheme: dict[str, object], direction: str, dtype: torch.dtype, steps: int, tile: object) -> str:
    size = f"{tile.rows}x{tile.columns}" if isinstance(tile, ScanTile) else f"{tile.accesses}x{tile.lanes}"
    schemes = [str(value.value) for value in scheme.values()]
    dtypes = str(dtype).removeprefix("torch.")
    return " ".join((name, *schemes, direction, dtypes, "dt/step" if steps > 1 else "one dt", size))


_MAPS = (
    ("clique", "clique", {}),
    ("clique_central", "clique_central", {}),
    ("scan", "acceleration", {"integrator": AccelerationIntegrator.ZOH}),
    ("scan", "acceleration", {"integrator": AccelerationIntegrator.SEMI_IMPLICIT_EULER}),
    ("scan", "jerk", {}),
    ("velocity", "velocity", {}),
)
LAUNCHES: dict[str, Callable[[], object]] = {
    _name(name, scheme, "transpose" if transpose else "forward", dtype, steps, tile): functools.partial(
        _launch, module, name, transpose, dtype, steps, tile, scheme
    )
    for module, name, scheme in _MAPS
    for transpose in (False, True)
    for dtype, steps, tile in _variants(module)
}
# One launch for each kernel, dtype and kind of dt that differs in more than size; the others are for thorough runs.
QUICK = tuple(
    name
    for name in LAUNCHES
    if re.search(r"256|128x8", name) and re.search("float32 |float64 dt/step|bfloat16 one|clique.*float64", name)
    if not re.search("256x1$", name)
)
