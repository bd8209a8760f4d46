"""One differentiable torch operator for each control map, and one for its transpose.

`StepOperator` registers `traj_integrator::<map>_forward` and `traj_integrator::<map>_transpose` with torch: schema,
shapes (fake), batching (`torch.vmap`) and derivatives of any order in reverse and forward mode. Each is the other's
derivative, since the maps are linear in everything but dt. What computes them is a backend (`backends`); derivatives
with respect to dt are computed where they are asked for, by the float64 compositions (`dt_derivatives`).

The derivatives are registered at torch's autograd key: the operator itself has them, it stays one opaque node for
`torch.compile` and `torch.export`, and it behaves the same under every `torch.func` transform.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import dt_derivatives
from .backends import Backend, check_backend, launcher
from .batching import fold, fold_dt, fold_start_idx, unfold
from .shortcut import quick_step
from .types import Trajectory
from .validation import prepare_step, prepare_transpose

_LIBRARY = torch.library.Library("traj_integrator", "FRAGMENT")
_OUTPUTS = ("position", "velocity", "acceleration", "jerk")
_START = _OUTPUTS[:3]


class StepOperator:
    """The operator pair of one control map.

    Positional arguments of `forward`: action, each start, start_idx, dt, the scheme (where the map has one), backend.
    Of `transpose`: the four upstream gradients, start_idx, dt, start_rows, action_horizon, needs, scheme, backend; it
    returns the gradients of action and each start, None where `needs` says so. Shapes are those of
    `backends`; the public functions check them, the operators do not.

    Args:
        name: of the map; the operators are called after it.
        start: the start rows that the map takes.
        extra_horizon: output rows beyond the action horizon.
        integrators: enum of the schemes that the map knows, if it knows several.
        truncates: whether the map knows `truncate_terminal_gradient`.
        uniform_dt_only: whether the map refuses step lengths that differ along the horizon.

    """

    def __init__(
        self,
        name: str,
        start: Sequence[str] = _START,
        *,
        extra_horizon: int = 0,
        integrators: type[enum.Enum] | None = None,
        truncates: bool = False,
        uniform_dt_only: bool = False,
    ) -> None:
        self.name = name
        self.starts = len(start)
        self.extra_horizon = extra_horizon
        self.uniform_dt_only = uniform_dt_only
        self._integrators = integrators
        self._truncates = truncates
        starts = ", ".join(f"Tensor? start_{kind}" for kind in start)
        upstream = ", ".join(f"Tensor? grad_{kind}" for kind in _OUTPUTS)
        outputs = ", ".join(f"Tensor {kind}" for kind in _OUTPUTS)
        gradients = ", ".join(f"Tensor grad_{kind}" for kind in ("action", *(f"start_{kind}" for kind in start)))
        scheme = "str integrator, " * bool(integrators) + "bool truncate_terminal_gradient, " * truncates
        self.forward = _register(
            f"{name}_forward",
            f"(Tensor action, {starts}, Tensor? start_idx, Tensor dt, {scheme}str? backend) -> ({outputs})",
            run=self._run_forward,
            fake=self._fake_forward,
            vmap=self._vmap_forward,
            derivative=_forward_derivative(self),
            dt_place=self.starts + 2,
        )
        self.transpose = _register(
            f"{name}_transpose",
            f"({upstream}, Tensor? start_idx, Tensor dt, SymInt start_rows, SymInt action_horizon, bool[] needs, "
            f"{scheme}str? backend) -> ({gradients})",
            run=self._run_transpose,
            fake=self._fake_transpose,
            vmap=self._vmap_transpose,
            derivative=_transpose_derivative(self),
            dt_place=5,
        )

    def step(
        self,
        action: Tensor,
        start: Sequence[Tensor | None],
        dt: float | Tensor,
        start_idx: Tensor | None,
        dt_per: str,
        backend: Backend | str | None,
        *scheme: object,
    ) -> Trajectory:
        """Check the arguments of a public step function and run the forward operator."""
        if backend is None:
            trajectory = quick_step(self.name, action, start, dt, start_idx, dt_per, scheme)
            if trajectory is not None:
                return trajectory
        inputs = prepare_step(action, start, dt, start_idx, dt_per, uniform_dt_only=self.uniform_dt_only)
        outputs = self.forward(
            inputs.action, *inputs.start, inputs.start_idx, inputs.dt, *scheme, check_backend(backend)
        )
        return Trajectory(*outputs)

    def pull_back(
        self,
        upstream: Sequence[Tensor | None],
        dt: float | Tensor,
        start_idx: Tensor | None,
        dt_per: str,
        backend: Backend | str | None,
        *scheme: object,
        action_horizon: int,
        start_rows: int,
        needs: Sequence[bool],
    ) -> tuple[Tensor | None, ...]:
        """Check the arguments of `ControlMap.pull_back` and run the transposed operator."""
        inputs = prepare_transpose(
            upstream,
            dt,
            start_idx,
            dt_per,
            start_rows=start_rows,
            action_horizon=action_horizon,
            output_horizon=action_horizon + self.extra_horizon,
            uniform_dt_only=self.uniform_dt_only,
        )
        wanted = [*needs, *(False for _ in range(self.starts + 1 - len(needs)))]
        return self.transpose(
            *inputs.upstream,
            inputs.start_idx,
            inputs.dt,
            start_rows,
            action_horizon,
            wanted,
            *scheme,
            check_backend(backend),
        )

    def split(self, arguments: Sequence) -> tuple[Tensor, Sequence[Tensor | None], Tensor | None, Tensor, Sequence]:
        """Action, start rows, start_idx, dt and the rest of the arguments of `forward`."""
        n = self.starts + 1
        return arguments[0], arguments[1:n], arguments[n], arguments[n + 1], arguments[n + 2 :]

    def variants(self, action: Tensor, options: Sequence) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
        """Actions to run the forward map on, each with the outputs to take, for the map whose transpose `transpose` is.

        That is the forward map itself, except that a truncated transpose has never seen the last action but in the
        position.
        """
        if self._truncates and options[0]:
            yield action, (0,)
            yield torch.cat([action[:, :-1], torch.zeros_like(action[:, -1:])], 1), (1, 2, 3)
        else:
            yield action, (0, 1, 2, 3)

    def scheme(self, options: Sequence, *, transpose: bool = False) -> dict[str, object]:
        """Keyword arguments of a launcher from the last arguments of an operator."""
        if self._integrators is not None:
            return {"integrator": self._integrators(options[0])}
        if self._truncates and transpose:
            return {"truncate_terminal_gradient": options[0]}
        return {}

    def _run_forward(self, *arguments) -> tuple[Tensor, ...]:
        action, start, start_idx, dt, options = self.split(arguments)
        launch = launcher(self.name, "forward", options[-1], action.device.type)
        return tuple(launch(action, *start, start_idx, dt, **self.scheme(options)))

    def _fake_forward(self, action: Tensor, *_) -> tuple[Tensor, ...]:
        batch, horizon, dof = action.shape
        return tuple(action.new_empty(batch, horizon + self.extra_horizon, dof) for _ in _OUTPUTS)

    def _vmap_forward(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple, tuple]:
        size = info.batch_size
        action, start, start_idx, dt, options = self.split(arguments)
        action_dim, start_dims, idx_dim, dt_dim, _ = self.split(in_dims)
        action = fold(action, action_dim, size)
        batch = action.shape[0] // size
        start = [fold(row, dim, size) for row, dim in zip(start, start_dims, strict=True)]
        rows = next((row.shape[0] // size for row in start if row is not None), batch)
        start_idx = fold_start_idx(start_idx, idx_dim, size, batch, rows, action.device)
        outputs = self.forward(action, *start, start_idx, fold_dt(dt, dt_dim, size, batch), *options)
        return unfold(outputs, size), (0,) * len(outputs)

    def _run_transpose(self, *arguments) -> tuple[Tensor | None, ...]:
        *upstream_index_dt, start_rows, action_horizon, needs = arguments[:9]
        options = arguments[9:]
        device = _some(upstream_index_dt[:4]).device
        return launcher(self.name, "transpose", options[-1], device.type)(
            *upstream_index_dt,
            start_rows=start_rows,
            action_horizon=action_horizon,
            needs=tuple(needs),
            **self.scheme(options, transpose=True),
        )

    def _fake_transpose(self, *arguments) -> tuple[Tensor | None, ...]:
        start_rows, action_horizon, needs = arguments[6:9]
        like = _some(arguments[:4])
        batch, _, dof = like.shape
        shapes = [(batch, action_horizon, dof), *[(start_rows, dof)] * self.starts]
        return tuple(like.new_empty(shape) if needed else None for shape, needed in zip(shapes, needs, strict=True))

    def _vmap_transpose(
        self, info, in_dims: Sequence[int | None], *arguments
    ) -> tuple[tuple[Tensor | None, ...], tuple]:
        size = info.batch_size
        start_idx, dt, start_rows = arguments[4:7]
        upstream = [fold(g, dim, size) for g, dim in zip(arguments[:4], in_dims[:4], strict=True)]
        like = _some(upstream)
        batch = like.shape[0] // size
        start_idx = fold_start_idx(start_idx, in_dims[4], size, batch, start_rows, like.device)
        dt = fold_dt(dt, in_dims[5], size, batch)
        gradients = self.transpose(*upstream, start_idx, dt, size * start_rows, *arguments[7:])
        return unfold(gradients, size), tuple(None if gradient is None else 0 for gradient in gradients)


def _some(upstream: Sequence[Tensor | None]) -> Tensor:
    """One of the upstream gradients that are there."""
    for gradient in upstream:
        if gradient is not None:
            return gradient
    raise ValueError("upstream gradients: expected at least one tensor, got None for all four")


def _register(
    name: str,
    schema: str,
    *,
    run: Callable,
    fake: Callable,
    vmap: Callable,
    derivative: type[_SingleLevelFunction],
    dt_place: int,
) -> torch._ops.OpOverload:
    """Define an operator and all it can do; its tensors are the arguments up to `dt_place`."""
    _LIBRARY.define(name + schema, tags=torch.Tag.pt2_compliant_tag)
    operator = getattr(torch.ops.traj_integrator, name).default

    def below_autograd(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    def autograd(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
        if not _is_differentiated(arguments[: dt_place + 1]):
            return below_autograd(keyset, *arguments)
        if not torch._C._are_functorch_transforms_active():
            return derivative.apply(keyset, *arguments)
        with enable_single_level_autograd_function():
            return derivative.apply(keyset, *arguments)

    def forward(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
        if not torch._C._are_functorch_transforms_active():
            return below_autograd(keyset, *arguments)
        # The node switches differentiation off for its own level; under nested transforms the outer ones want theirs.
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return below_autograd(keyset, *arguments)

    derivative.forward = staticmethod(forward)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"traj_integrator::{name}", fake, lib=_LIBRARY)
    torch.library.register_vmap(operator, vmap, lib=_LIBRARY)
    return operator


def _is_differentiated(tensors: Sequence[Tensor | None]) -> bool:
    """Whether autograd has to see an operator: a tensor requires grad, or one may carry a tangent."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    # To look for a tangent costs more than a backend takes; where none can be, nothing of this holds. A dual level that
    # a compiled graph enters is not known here while torch traces it, but then there is a mode.
    maybe_dual = (
        forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )
    return maybe_dual and torch._C._is_fwd_grad_enabled()


def _forward_derivative(operator: StepOperator) -> type[_SingleLevelFunction]:
    """Build the autograd node of a forward map. Arguments: the dispatch keys, then those of `operator.forward`."""
    dt_place = operator.starts + 3

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        action, start, start_idx, dt, options = operator.split(inputs[1:])
        ctx.set_materialize_grads(False)
        ctx.options = options
        ctx.action_horizon = action.shape[1]
        ctx.start_rows = next((row.shape[0] for row in start if row is not None), 1)
        # The map is linear: its derivatives by action and start need dt alone.
        ctx.save_for_backward(start_idx, dt, *((action, *start) if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(start_idx, dt, action, *start)

    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if any(gradient is not None for gradient in upstream):
            start_idx, dt, *inputs = ctx.saved_tensors
            needs = list(ctx.needs_input_grad[1 : operator.starts + 2])
            if any(needs):
                results[1 : operator.starts + 2] = operator.transpose(
                    *upstream, start_idx, dt, ctx.start_rows, ctx.action_horizon, needs, *ctx.options
                )
            if ctx.needs_input_grad[dt_place]:
                action, *start = inputs
                results[dt_place] = dt_derivatives.pull_back(
                    operator.name, action, start, start_idx, dt, upstream, operator.scheme(ctx.options)
                )
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        action_tangent, start_tangents, _, dt_tangent, _ = operator.split(tangents[1:])
        start_idx, dt, action, *start = dt_derivatives.primals(ctx.saved_tensors)
        results = [None] * 4
        if any(tangent is not None for tangent in (action_tangent, *start_tangents)):
            if action_tangent is None:
                action_tangent = torch.zeros_like(action)
            results = operator.forward(action_tangent, *start_tangents, start_idx, dt, *ctx.options)
        if dt_tangent is not None:
            by_dt = dt_derivatives.push_forward(
                f"{operator.name}_forward",
                (action, *start, start_idx, dt),
                dt_place - 1,
                dt_tangent,
                **operator.scheme(ctx.options),
            )
            results = [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
        return tuple(results)

    return _node(f"{_title(operator.name)}Step", setup_context, backward, jvp)


def _transpose_derivative(operator: StepOperator) -> type[_SingleLevelFunction]:
    """Build the autograd node of a transposed map. Arguments: the dispatch keys, then those of `operator.transpose`."""
    dt_place = 6

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        _, *upstream, start_idx, dt, start_rows, action_horizon, needs = inputs[:10]
        ctx.set_materialize_grads(False)
        ctx.options = inputs[10:]
        ctx.start_rows, ctx.action_horizon, ctx.needs = start_rows, action_horizon, list(needs)
        ctx.batch, _, ctx.dof = _some(upstream).shape
        ctx.save_for_backward(start_idx, dt, *(upstream if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(start_idx, dt, *upstream)

    def backward(ctx, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        action, *start = cotangents
        some = next((cotangent for cotangent in cotangents if cotangent is not None), None)
        if some is None:
            return tuple(results)
        if action is None:
            action = some.new_zeros(ctx.batch, ctx.action_horizon, ctx.dof)
        start_idx, dt, *upstream = ctx.saved_tensors
        for variant, taken in operator.variants(action, ctx.options):
            if any(ctx.needs_input_grad[1 + i] for i in taken):
                outputs = operator.forward(variant, *start, start_idx, dt, *ctx.options)
                for i in taken:
                    results[1 + i] = outputs[i] if ctx.needs_input_grad[1 + i] else None
            seen = [g if i in taken else None for i, g in enumerate(upstream)]
            if ctx.needs_input_grad[dt_place] and any(gradient is not None for gradient in seen):
                by_dt = dt_derivatives.pull_back(
                    operator.name, variant, start, start_idx, dt, seen, operator.scheme(ctx.options)
                )
                results[dt_place] = _sum(results[dt_place], by_dt)
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        start_idx, dt, *upstream = dt_derivatives.primals(ctx.saved_tensors)
        upstream_tangents, dt_tangent = tangents[1:5], tangents[dt_place]
        results = [None] * len(ctx.needs)
        shape = (ctx.start_rows, ctx.action_horizon, ctx.needs)
        if any(tangent is not None for tangent in upstream_tangents):
            results = operator.transpose(*upstream_tangents, start_idx, dt, *shape, *ctx.options)
        if dt_tangent is not None:
            by_dt = dt_derivatives.push_forward(
                f"{operator.name}_transpose",
                (*upstream, start_idx, dt),
                dt_place - 1,
                dt_tangent,
                start_rows=ctx.start_rows,
                action_horizon=ctx.action_horizon,
                needs=ctx.needs,
                **operator.scheme(ctx.options, transpose=True),
            )
            results = [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
        return tuple(results)

    return _node(f"{_title(operator.name)}Transpose", setup_context, backward, jvp)


def _node(name: str, setup_context: Callable, backward: Callable, jvp: Callable) -> type[_SingleLevelFunction]:
    """Build an autograd node class; `_register` gives it its forward."""
    methods = {"setup_context": setup_context, "backward": backward, "jvp": _in_forward_mode(jvp)}
    return type(name, (_SingleLevelFunction,), {key: staticmethod(method) for key, method in methods.items()})


def _in_forward_mode(jvp: Callable) -> Callable:
    """Run a jvp so that an outer level of forward mode sees its operations: torch switches them off for all levels."""

    @functools.wraps(jvp)
    def run(*arguments) -> tuple[Tensor | None, ...]:
        with forward_ad._set_fwd_grad_enabled(True):
            return jvp(*arguments)

    return run


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
