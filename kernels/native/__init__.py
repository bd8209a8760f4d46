"""The NATIVE backend: fused C++ loops on the CPU, forward and vjp of every control map.

The extension is built with the package if a C++ compiler is available, and wheels bring it. Without it, importing this
module raises an ImportError that says so, and the reference backend is used. `launchers` returns those that `backends`
describes, without autograd. `FastMap` is the fast path of the public functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from .extension import UNFIT  # noqa: F401
from .extension import extension as _C
from .fast import FastMap, has_ends, shown  # noqa: F401
from .launch import dt_gradient, launchers, spline_form  # noqa: F401

MAP_NUMBERS: Mapping[str, int] = _C.map_numbers
"""Number of each map in the extension, by its name in `MAPS`: the table in `control_map.h`."""

instruction_set: Callable[[], str] = _C.instruction_set
"""Instruction set of the loops on this CPU: "baseline" or "avx2"."""

records: Callable[..., bool | None] = _C.records
"""`records(*objects)`: whether autograd records what becomes of tensors, numbers and None.

None if something has to see torch's operators: a transform, a mode, tracing, forward mode, a subclass; and for other
objects.
"""

quadratic_cost: Callable[..., None] = _C.quadratic_cost
"""`quadratic_cost(map, values, indices, dt, terms, cost, grad_action, grad_rows)`: costs `[B]`, and gradients.

The first arguments are those of `forward`; `terms` has six for each output. The last three are written to: gradients
are None if they are not wanted, those of rows are `[B, D]` in float64.
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
"""`vjp(map, upstream, indices, dt, truncate_terminal_gradient, has_goal, gradients)`: the same for the vjp.

`upstream` are four `[B, H, D]` or None, `gradients` those of `Inputs.values` to write to; for a number of rows one is
made and returned, for None it is not computed.
"""
