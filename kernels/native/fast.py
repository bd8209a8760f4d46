"""The fast path of the public functions: ordinary CPU tensors go straight to the loops, with one node of autograd.

It repeats no check of the extension or of the general way: other arguments go to the general way, which names the
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction
from torch.compiler import is_compiling

from ..derivatives import dt_gradient
from ..signature import Signature, all_values
from ..splines.form import SplineForm
from ..types import DT_PER, Inputs, Trajectory, VjpInputs, encoded_rows, first_given
from .extension import UNFIT
from .extension import extension as _C
from .launch import map_of

_PLAIN = (Tensor, torch.nn.Parameter)
_REAL = (torch.float32, torch.float64)
_UNFIT = (*UNFIT, AttributeError)
_new = tuple.__new__  # of a named tuple: its own takes twice as long

Values = Sequence[Tensor | None]


class FastMap:
    """A control map with its scheme: its name in the extension, and the operator of the general way."""

    def __init__(self, operator: Signature, scheme: Sequence[object]) -> None:
        """Raise ValueError for a spline whose form does not exist."""
        form = SplineForm(*scheme) if operator.goals else None
        options = () if form else tuple(part for part in scheme if isinstance(part, str))
        self.kind = map_of("_".join([operator.name, *options]), form=form)
        self.operator = operator
        self.scheme = form.scheme if form else tuple(scheme)
        self.truncates = True in scheme

    def step(
        self,
        values: Values,
        indices: Values,
        dt: float | Tensor,
        dt_per: str,
        memory: Sequence[Tensor] | None = None,
        gradient: Tensor | None = None,
        *,
        is_rate: bool = False,
    ) -> Trajectory | None:
        """Return the trajectory; `values` and `indices` are those of `Inputs`.

        With `memory`, four tensors are written to, and the trajectory consists of views of them that carry the graph;
        then `gradient` may be memory for the gradient of the action, and `dt` 1 / dt. None, having done nothing, if
        anything is out of the ordinary, or if dt has a gradient beside `memory`.
        """
        recorded = _C.records(*values, *indices, dt)
        if recorded is None or not has_ends(values, indices) or dt_per not in DT_PER:
            return None
        try:
            steps = dt
            if memory is not None:
                memory = tuple(map(_memory, memory))
                if gradient is not None and not _is_alike(_memory(gradient), values[0]):
                    return None
                dt = steps = _seconds(dt, is_rate, (1, values[0].shape[1], memory[0].shape[1]))
            elif type(dt) is not float:
                steps = _steps(dt, dt_per)
            call = _Call(self, values, indices, dt, steps, memory, gradient)
            return _new(Trajectory, _recorded(call) if recorded else call.run())
        except _UNFIT:
            return None

    def vjp(
        self,
        upstream: Values,
        start: tuple[int, Tensor | None],
        goal: tuple[int | None, Tensor | None],
        dt: float | Tensor,
        dt_per: str,
        horizons: tuple[int, int],
        wanted: Sequence[bool],
    ) -> tuple[Tensor | None, ...] | None:
        """Gradients of action, start and goal, nine; None, having done nothing, as for `step`.

        `start` and `goal` are numbers of rows and indices, `horizons` those of actions and outputs.
        """
        if _C.records(*upstream, start[1], goal[1], dt) is not False:
            return None
        try:
            steps = dt if type(dt) is float else _steps(dt, dt_per)
            batch, rows, _ = first_given(upstream).shape
            for count, index in (start, goal):
                if index is None and count not in (None, 1, batch):
                    return None
            if rows != horizons[1] or dt_per not in DT_PER:
                return None
            sizes = [
                count if want else None
                for want, count in zip(wanted, (horizons[0], *[start[0]] * 4, *[goal[0]] * 4), strict=True)
            ]
            options = self.truncates, goal[0] is not None
            return _C.vjp(self.kind, tuple(upstream), (start[1], goal[1]), steps, *options, sizes)
        except _UNFIT:
            return None


def has_ends(values: Values, indices: Values) -> bool:
    """Return whether start and goal have a position, as far as anything else is given of them."""
    if len(values) > 5 and values[5] is None and (indices[1] is not None or any(row is not None for row in values[6:])):
        return False
    return values[1] is not None


def shown(values: Values) -> list[Tensor | None]:
    """Return what autograd has to see, up to the last one: it takes its time for each tensor."""
    needed = [value if value is not None and value.requires_grad else None for value in values]
    while needed and needed[-1] is None:
        needed.pop()
    return needed


class _Call(NamedTuple):
    """A step to compute."""

    map: FastMap
    values: Values
    indices: Values
    dt: float | Tensor
    """As it is given, for its gradient."""
    steps: float | Tensor
    memory: tuple[Tensor, ...] | None = None
    """Four tensors to write to."""
    gradient: Tensor | None = None
    """Memory for the gradient of the action."""

    def run(self) -> Sequence[Tensor]:
        outputs = _C.forward(self.map.kind, self.values, self.indices, self.steps, self.memory)
        if self.memory is None:
            return outputs
        torch.autograd.graph.increment_version(self.memory)
        return [buffer.view_as(buffer) for buffer in self.memory]


class _Kept(NamedTuple):
    """Data of autograd's node, beside the tensors that it saves: none, indices and steps, or also dt and the values."""

    map: FastMap
    seconds: float | None
    """The step, or None if that is a tensor."""
    action_horizon: int
    start_rows: int
    goal_rows: int
    """-1: there is no goal."""
    buffer: tuple[Tensor, int, bool] | None
    """Memory for the gradient of the action, its version, and whether the action is a leaf. It is written to, not
    computed from: `save_for_backward` would treat that as an error."""


def _recorded(call: _Call) -> Sequence[Tensor]:
    dt = [call.dt] if isinstance(call.dt, Tensor) else []
    values = [*call.values, *[None] * (9 - len(call.values))] if dt else call.values
    return _Step.apply(call, *shown([*values, *dt]))


class _Step(_SingleLevelFunction):
    """A step of ordinary tensors. The maps are linear: what it saves are indices, dt and numbers of rows."""

    @staticmethod
    def forward(ctx, call: _Call, *shown: Tensor | None) -> tuple[Tensor, ...]:
        values, indices, steps = call.values, call.indices, call.steps
        ctx.materialize_grads = False
        is_number = type(steps) is float
        if len(shown) > 9:
            ctx.save_for_backward(*indices, steps, call.dt, *values)
        elif not is_number or indices[0] is not None or indices[1] is not None:
            ctx.save_for_backward(*indices, None if is_number else steps)
        goal_rows = values[5].shape[0] if len(values) > 5 and values[5] is not None else -1
        buffer = None if call.gradient is None else (call.gradient, call.gradient._version, values[0].is_leaf)
        seconds = steps if is_number else None
        ctx.call = _Kept(call.map, seconds, values[0].shape[1], values[1].shape[0], goal_rows, buffer)
        return tuple(call.run())

    @staticmethod
    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients = None if torch.is_grad_enabled() or is_compiling() else _vjp_by_loops(ctx, upstream)
        return _general_vjp(ctx, upstream) if gradients is None else gradients


def _vjp_by_loops(ctx, upstream: Values) -> Sequence[Tensor | None] | None:
    """Gradients of a step; None, having done nothing, if something is not ordinary.

    That of the action is written to its buffer, too. The buffer itself is returned only if nobody else can end up
    owning its memory: see `dropin.buffers`.
    """
    call, needs, saved = ctx.call, ctx.needs_input_grad[1:], ctx.saved_tensors
    if _C.records(*upstream) is None:
        return None
    indices = saved[:2]
    dt = saved[2] if call.seconds is None else call.seconds
    counts = call.action_horizon, *[call.start_rows] * 4, *[call.goal_rows] * 4
    sizes = [count if need else None for need, count in zip(needs, counts, strict=False)]
    buffer, version, is_leaf = call.buffer or (None, 0, False)
    # Written since, it may hold a gradient that has not been accumulated yet.
    is_written = buffer is not None and sizes[0] is not None and buffer._version == version
    if is_written and is_leaf:
        sizes[0] = buffer
    gradients = [None] * len(sizes)
    try:
        if any(size is not None for size in sizes):
            options = call.map.truncates, call.goal_rows >= 0
            gradients = [*_C.vjp(call.map.kind, upstream, indices, dt, *options, sizes)[: len(sizes)]]
        if len(needs) > 9:
            found = torch.empty(dt.shape, dtype=torch.float64)
            _C.dt_gradient(call.map.kind, saved[4:], indices, dt, upstream, found)
            gradients.append(found.view(saved[3].shape).to(saved[3].dtype))
    except _UNFIT:
        return None
    if is_written and is_leaf:
        torch.autograd.graph.increment_version(buffer)
        gradients[0] = buffer
    elif is_written:
        buffer.copy_(gradients[0])
    return None, *gradients


def _general_vjp(ctx, upstream: Values) -> Sequence[Tensor | None]:
    """Gradients that are differentiated again, batched or traced."""
    needs = ctx.needs_input_grad
    if all(gradient is None for gradient in upstream):
        return (None,) * len(needs)
    call, fast = ctx.call, ctx.call.map
    *indices, dt = ctx.saved_tensors[:3] or (None, None, None)
    of_dt, *values = ctx.saved_tensors[3:] or (None,)
    if of_dt is not None:
        dt = of_dt.reshape(dt.shape)
    elif dt is None:
        dt = torch.full((1, 1), call.seconds, dtype=torch.float64)
    rows = encoded_rows((call.start_rows, call.goal_rows), indices, first_given(upstream).shape[0])
    wanted = [*needs[1:10], *[False] * (10 - len(needs))]
    gradients = [None] * 9
    if any(wanted):
        inputs = VjpInputs(upstream, indices, dt, rows, call.action_horizon, wanted)
        gradients = fast.operator.vjp(*inputs.arguments, *fast.scheme, None)
    if len(needs) > 10:
        inputs, scheme = Inputs(all_values(values), indices, dt), fast.operator.scheme(fast.scheme)
        gradients = *gradients, dt_gradient(fast.operator.name, inputs, upstream, scheme).reshape(of_dt.shape)
    if call.buffer is not None and gradients[0] is not None:
        buffer, version, _ = call.buffer
        if buffer._version == version:
            with torch.no_grad():
                buffer.copy_(gradients[0].detach())
    return (None, *gradients[: len(needs) - 1])


def _steps(dt: Tensor, dt_per: str) -> Tensor:
    """Step lengths `[1 or B, 1 or Ha]` in float64, detached; raises TypeError where it is no ordinary tensor."""
    if type(dt) not in _PLAIN or not dt.is_cpu or dt.layout is not torch.strided or dt.dtype not in _REAL:
        raise TypeError
    if dt.requires_grad:
        dt = dt.detach()
    if dt.dim() == 1 and dt_per == "trajectory":
        dt = dt.unsqueeze(1)
    elif dt.dim() < 2:
        dt = dt.reshape(1, -1)
    return dt.double().contiguous()


def _seconds(dt: float | Tensor, is_rate: bool, lengths: Sequence[int]) -> float | Tensor:
    """Return step lengths from dt, or 1 / dt: a number where all are the same, since operations of torch take longer.

    Raises:
        TypeError: dt has a gradient, or is no ordinary tensor.

    """
    if type(dt) is not float:
        if dt.requires_grad:
            raise TypeError
        numbers = dt.tolist() if dt.dim() == 1 and dt.is_cpu and dt.layout is torch.strided else ()
        is_short = 0 < len(numbers) in lengths and type(numbers[0]) is float
        if not is_short or numbers.count(numbers[0]) < len(numbers):
            steps = _steps(dt, "step")
            return steps.reciprocal() if is_rate else steps
        dt = numbers[0]
    return 1 / dt if is_rate and dt else dt


def _memory(buffer: Tensor) -> Tensor:
    """Return a tensor to write to; raises TypeError or AttributeError if autograd cannot follow what is written to it.

    A view that an earlier call returned has a graph, but what counts is the memory that it shows.
    """
    base = buffer._base
    if type(buffer) is not Tensor or buffer.is_inference() or (buffer if base is None else base).requires_grad:
        raise TypeError
    return buffer if base is None else buffer.detach()


def _is_alike(buffer: Tensor, action: Tensor) -> bool:
    return buffer.shape == action.shape and buffer.dtype is action.dtype and buffer.is_cpu and buffer.is_contiguous()
