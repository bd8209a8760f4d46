"""The NATIVE backend: fused C++ loops on the CPU, forward and vjp of every control map.

The extension is built with the package if torch and a C++ compiler are available. Without it, importing this module
raises an ImportError that says so, and the reference backend is used. `<map>_forward` and `<map>_vjp` are the launchers
that `backends` describes, without autograd. They also take `out`, contiguous tensors to write to instead of new ones:
the four outputs, or the gradient of the action. `step` is the fast path of the public functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from ..splines.form import SplineForm
from ..types import AccelerationIntegrator, End, Trajectory
from .bspline import bspline_dt_gradient, bspline_forward, bspline_vjp, spline_form  # noqa: F401
from .extension import extension as _C

MAP_NUMBERS: Mapping[str, int] = _C.map_numbers
"""Number of each map in the extension, by its name in `MAPS`: the table in `control_map.h`."""

_C.return_as(Trajectory)

instruction_set: Callable[[], str] = _C.instruction_set
"""Which loops run on this CPU: "baseline", "avx2" or "avx512"."""

step: Callable[..., Trajectory | None] = _C.step
"""`step(map, action, p0, v0, a0, j0, dt, start_index, dt_per_trajectory, truncate_terminal_gradient)`.

Checks, autograd and loops in one call. Returns None, having done nothing, if anything is out of the ordinary: a wrong
argument, a tensor on a device without kernels, a tensor subclass, an active transform or tracer, a dt that requires
grad.
"""

step_with_buffers: Callable[..., Trajectory | None] = _C.step_with_buffers
"""`step_with_buffers(map, is_reciprocal, u_act, p0, v0, a0, start_index, traj_dt, 4 outputs, out_grad_position)`.

The same for the drop-in kernels: writes to the four buffers and returns views of them that carry the graph.
"""

set_general_vjp: Callable[[Callable[..., tuple[Tensor | None, ...]]], None] = _C.set_general_vjp
"""Sets the function that computes gradients of the two above that are differentiated again, batched or traced."""

spline_step: Callable[..., Trajectory | None] = _C.spline_step
"""`spline_step(spline_form(form), control_points, start, goal, start_index, goal_index, dt, dt_per_trajectory)`.

The same for `bspline_step`; `start` and `goal` are tuples of four.
"""

set_general_spline_vjp: Callable[..., None] = _C.set_general_spline_vjp
"""Sets the function that computes its gradients if they are differentiated again, batched or traced."""

kept_bytes: Callable[[], int] = _C.kept_bytes
"""Bytes of results no longer in use that are kept for the next ones of the same size (docs/native_kernels.md)."""

release_kept_memory: Callable[[], None] = _C.release_kept_memory
"""Releases them to the system."""

step_into: Callable[..., bool] = _C.step_into
"""`step_into(map, action, p0, v0, a0, start_index, dt, out)`: a step on borrowed buffers, without allocation.

Arguments are contiguous numpy arrays (or other objects with the buffer protocol; inputs may be read-only) or CPU
tensors, of one dtype: `action` `[B, Ha, D]`, `p0`, `v0` and `a0` `[1 or B, D]` or a pool `[S, D]` or None,
`start_index` `[B]` int32 or int64 or None, `dt` float64 `[1 or B, 1 or Ha]`, and for the outputs `out` `[4, B, H, D]`.
Returns False, having done nothing, if one of them does not fit. Without autograd.
"""

vjp_into: Callable[..., bool] = _C.vjp_into
"""`vjp_into(map, grad_p, grad_v, grad_a, grad_j, start_index, dt, truncate_terminal_gradient, action, p0, v0, a0)`.

The same for the vjp: the last four are outputs, `[B, Ha, D]` and `[S, D]`; start rows that are None are not computed.
"""

quadratic_cost_into: Callable[..., bool] = _C.quadratic_cost_into
"""`quadratic_cost_into(map, start, start_index, goal, goal_index, action, dt, terms, cost, grad_action, grad_ends)`.

Map, cost and gradients in one pass, on arrays as above. `map` is a number, or what `spline_form` returns; `start` and
`goal` are tuples of four, `terms` is a tuple of twenty-four: weight, target, terminal weight, limit weight, lower and
upper limit of position, of velocity and so on. Writes `cost` `[B]`, `grad_action` `[B, Ha, D]` or None, and
`grad_ends`, a tuple of eight `[B, D]` in float64 or None: those of start and goal, not summed over a pool.
"""


def dt_gradient(
    name: str,
    upstream: tuple[Tensor | None, ...],
    action: Tensor,
    ends: Sequence[End],
    dt: Tensor,
    *,
    integrator: AccelerationIntegrator | None = None,
    form: SplineForm | None = None,
) -> Tensor | None:
    """Return the gradient of dt, float64, in its shape; None, having done nothing, if a tensor or mode rules it out."""
    if form is not None:
        return bspline_dt_gradient(upstream, action, ends, dt, form)
    return _C.dt_gradient(_number(name, integrator), upstream, action, tuple(ends[0].rows), ends[0].index, dt)


def _number(name: str, integrator: AccelerationIntegrator | None) -> int:
    return MAP_NUMBERS[name if integrator is None else f"{name}_{integrator.value}"]


def _forward(name: str) -> Callable[..., tuple[Tensor, ...]]:
    def forward(
        action: Tensor,
        *start_index_dt: Tensor | None,
        integrator: AccelerationIntegrator | None = None,
        out: Sequence[Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        *start, start_index, dt = start_index_dt
        rows = start if len(start) == 4 else [*start, None]
        return tuple(_C.forward(_number(name, integrator), action, rows, start_index, dt, out))

    return forward


def _vjp(name: str) -> Callable[..., tuple[Tensor | None, ...]]:
    def vjp(
        *upstream_index_dt: Tensor | None,
        start_rows: int,
        action_horizon: int,
        needs: Sequence[bool],
        integrator: AccelerationIntegrator | None = None,
        truncate_terminal_gradient: bool = False,
        out: Tensor | None = None,
    ) -> tuple[Tensor | None, ...]:
        *upstream, start_index, dt = upstream_index_dt
        number, rows = _number(name, integrator), [start_rows] * 4
        wanted = needs if len(needs) == 5 else [*needs, False]
        gradients = _C.vjp(
            number, upstream, start_index, dt, rows, action_horizon, wanted, truncate_terminal_gradient, out
        )
        return tuple(gradients[: len(needs)])

    return vjp


clique_forward, clique_vjp = _forward("clique"), _vjp("clique")
clique_central_forward, clique_central_vjp = _forward("clique_central"), _vjp("clique_central")
velocity_forward, velocity_vjp = _forward("velocity"), _vjp("velocity")
acceleration_forward, acceleration_vjp = _forward("acceleration"), _vjp("acceleration")
jerk_forward, jerk_vjp = _forward("jerk"), _vjp("jerk")
