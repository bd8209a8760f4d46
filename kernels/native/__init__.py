"""The NATIVE backend: fused C++ loops on the CPU, forward and vjp of every control map.

The extension is built with the package if a C++ compiler is available, and wheels bring it. Without it, importing this
module raises an ImportError that says so, and the reference backend is used. `<map>_forward` and `<map>_vjp` are the
launchers that `backends` describes, without autograd. `FastMap` is the fast path of the public functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from ..signature import four
from .extension import UNFIT
from .extension import extension as _C
from .fast import FastMap  # noqa: F401
from .launch import dt_gradient, launchers, spline_form  # noqa: F401

clique_forward, clique_vjp = launchers("clique")
clique_central_forward, clique_central_vjp = launchers("clique_central")
velocity_forward, velocity_vjp = launchers("velocity")
acceleration_forward, acceleration_vjp = launchers("acceleration")
jerk_forward, jerk_vjp = launchers("jerk")
bspline_forward, bspline_vjp = launchers("bspline")

MAP_NUMBERS: Mapping[str, int] = _C.map_numbers
"""Number of each map in the extension, by its name in `MAPS`: the table in `control_map.h`."""

instruction_set: Callable[[], str] = _C.instruction_set
"""Which loops run on this CPU: "baseline", "avx2" or "avx512"."""

kept_bytes: Callable[[], int] = _C.kept_bytes
"""Bytes of results no longer in use that are kept for the next ones of the same size (docs/native_kernels.md)."""

release_kept_memory: Callable[[], None] = _C.release_kept_memory
"""Releases them to the system."""


cost: Callable[..., Tensor | None] = _C.cost
"""`cost(apply, kept, map, values, indices, dt, terms)`: of ordinary tensors, `[B]`.

`values` and `indices` are those of `Inputs`; `terms` has six for each output. Where autograd records it, the result is
what `apply((cost, kept, saved), *values)` returns; saved are nine values and their gradients, those of rows `[B, D]` in
float64. None, having done nothing, if anything is out of the ordinary.
"""


def step_into(*arguments: object) -> bool:
    """`step_into(map, action, start, start_index, goal, goal_index, dt, out)`: a step on borrowed buffers.

    Arguments are contiguous numpy arrays (or other objects with the buffer protocol; inputs may be read-only) or CPU
    tensors, of one dtype; tensors that are read may have any strides, and are copied then. `map` is a number of
    `MAP_NUMBERS` or a `spline_form`; `action` is `[B, Ha, D]`; `start` a tuple of at most four `[1 or B, D]` or pools
    `[S, D]` or None; `start_index` `[B]` int32 or int64 or None; `goal` and `goal_index` the same, None without a goal;
    `dt` a number of seconds or float64 `[1 or B, 1 or Ha]`; `out` `[4, B, H, D]`, or four `[B, H, D]`. Returns False,
    having done nothing, if one of them does not fit. Without autograd.
    """
    return _is_done(_forward, arguments)


def vjp_into(*arguments: object) -> bool:
    """`vjp_into(map, upstream, start_index, goal_index, dt, truncate_terminal_gradient, action, start, goal)`.

    The same for the vjp: `upstream` is a tuple of four `[B, H, D]` or None. The last three are outputs: `[B, Ha, D]`,
    and tuples of at most four `[S, D]`; what is None is not computed, and `goal` is None where there is none.
    """
    return _is_done(_vjp, arguments)


def _forward(kind, action, start, start_index, goal, goal_index, dt, out) -> None:
    _C.forward(kind, (action, *four(start or ()), *four(goal or ())), (start_index, goal_index), dt, out)


def _vjp(kind, upstream, start_index, goal_index, dt, truncates, action, start, goal) -> None:
    into = (action, *four(start or ()), *four(goal or ()))
    _C.vjp(kind, upstream, (start_index, goal_index), dt, truncates, goal is not None, into)


def _is_done(call: Callable[..., object], arguments: tuple[object, ...]) -> bool:
    try:
        call(*arguments)
    except UNFIT:
        return False
    return True
