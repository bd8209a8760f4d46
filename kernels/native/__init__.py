"""The NATIVE backend: fused C++ loops on the CPU, forward and vjp of every control map.

The extension is built with the package if a C++ compiler is available, and wheels bring it. Without it, importing this
module raises an ImportError that says so, and the reference backend is used. `<map>_forward` and `<map>_vjp` are the
launchers that `backends` describes, without autograd. `FastMap` is the fast path of the public functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from .extension import UNFIT  # noqa: F401
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
"""Instruction set of the loops on this CPU: "baseline", "avx2" or "avx512"."""

kept_bytes: Callable[[], int] = _C.kept_bytes
"""Bytes of results no longer in use that are kept for the next ones of the same size (docs/native_kernels.md)."""

release_kept_memory: Callable[[], None] = _C.release_kept_memory
"""Releases them to the system."""


cost: Callable[..., Tensor | None] = _C.cost
"""`cost(apply, kept, map, values, indices, dt, terms)` of ordinary tensors, `[B]`.

`values` and `indices` are those of `Inputs`; `terms` has six for each output. Where autograd records it, the result is
what `apply((cost, kept, saved), *values)` returns; saved are nine values and their gradients, those of rows `[B, D]` in
float64. None, having done nothing, if anything is out of the ordinary.
"""

forward: Callable[..., tuple[Tensor, ...] | None] = _C.forward
"""`forward(map, values, indices, dt, outputs)`: a step on borrowed memory, without autograd.

`values` and `indices` are those of `Inputs`, as far as they are given: contiguous arrays of one dtype (numpy's, or what
else has the buffer protocol; they may be read-only), or CPU tensors of any strides. `map` is a number of `MAP_NUMBERS`
or a `spline_form`; `dt` a number of seconds or float64 `[1 or B, 1 or Ha]`; `outputs` are `[4, B, H, D]`, or four
`[B, H, D]`, or None: then they are made and returned. Raises an error of `UNFIT`, having written nothing, if one of
them does not fit.
"""

vjp: Callable[..., tuple[Tensor | None, ...]] = _C.vjp
"""`vjp(map, upstream, indices, dt, has_goal, gradients)`: the same for the vjp.

`upstream` are four `[B, H, D]` or None, `gradients` those of `Inputs.values` to write to; for a number of rows one is
made and returned, for None it is not computed.
"""
