"""The fast path of the public functions: ordinary CPU tensors go straight to the loops, with one node of autograd.

It repeats no check of the extension or of the general way: other arguments go to the general way, which names the
error.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.compiler import is_compiling

from ..derivatives import dt_gradient, moved_inputs
from ..signature import Signature, all_values
from ..splines.form import SplineForm
from ..types import DT_PER, Inputs, Trajectory, VjpInputs, encoded_rows, first_given
from .extension import UNFIT
from .extension import extension as _C
from .launch import map_of

_PLAIN = (Tensor, torch.nn.Parameter)
_UNFIT = (*UNFIT, AttributeError)


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
        self.steps, self.results, self.number = _steps, Trajectory, _C.number
        self.step = functools.partial(_C.step, self, _Step.apply)
        """`step(values, indices, dt, dt_per)`: the trajectory; `values` and `indices` as in `Inputs`.

        None, having done nothing, if anything is out of the ordinary.
        """

    def vjp(
        self,
        upstream: Sequence[Tensor | None],
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
        if forward_ad._current_level >= 0 or not _C.are_plain(*upstream, start[1], goal[1], dt):
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

    def dual_step(
        self, values: Sequence[Tensor | None], indices: Sequence[Tensor | None], dt: float | Tensor, dt_per: str
    ) -> Trajectory | None:
        """`step` in forward mode: outputs with tangents, which are another call of the loops; None as for `step`.

        None also where autograd records the step, or dt has a tangent and a value for each step.
        """
        given = [*all_values(values), dt]
        if given[1] is None or dt_per not in DT_PER or not _C.are_plain(*given, *indices):
            return None
        values, tangents = zip(*(_unpacked(one) for one in given), strict=True)
        try:
            *values, dt = values
            steps = dt if isinstance(dt, float) else _steps(dt, dt_per)
            *tangents, rate = tangents
            if rate is not None:
                if steps.shape[1] != 1:
                    return None
                rate = (rate.reshape(steps.shape) / steps).to(values[0].dtype)
            inputs = Inputs(values, indices, steps)
            outputs = _C.forward(self.kind, *inputs, None)
            moved = moved_inputs(inputs, tangents, rate, self.operator.action_order)
            results = [None] * 4 if moved is None else _C.forward(self.kind, *moved, None)
        except _UNFIT:
            return None
        return Trajectory._make(_dual_outputs(outputs, results, rate))

    def step_into(
        self,
        values: Sequence[Tensor | None],
        indices: Sequence[Tensor | None],
        dt: float | Tensor,
        buffers: tuple[Tensor, ...],
        gradient: Tensor | None,
    ) -> Trajectory | None:
        """Write a step into the caller's buffers and return views of them that carry the graph; None as for `step`.

        `gradient` is a buffer for the gradient of the action.
        """
        action = values[0]
        if type(action) not in _PLAIN or values[1] is None or torch.is_inference_mode_enabled():
            return None
        if isinstance(dt, Tensor) and dt.requires_grad:
            return None
        try:
            if not _are_memory(buffers if gradient is None else (*buffers, gradient)):
                return None
            if gradient is not None and (gradient.shape != action.shape or gradient.dtype is not action.dtype):
                return None
            # A view that an earlier call returned has a graph, which is dropped here.
            memory = tuple([buffer.detach() if buffer.requires_grad else buffer for buffer in buffers])
            outputs = _C.step(self, _StepInto.apply, values, indices, dt, "step", memory, gradient)
            return outputs if outputs is None or outputs[0] is not None else Trajectory._make(_views(memory))
        except _UNFIT:
            return None


class _Step(_SingleLevelFunction):
    """A step of ordinary tensors."""

    forward = staticmethod(_C.record)

    @staticmethod
    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients = None if is_compiling() else _C.backward(ctx, upstream, None)
        return _general_vjp(ctx, upstream) if gradients is None else gradients


class _StepInto(_Step):
    """Step into the caller's buffers, one of which may be for the gradient of the action."""

    @staticmethod
    def forward(ctx, recording: tuple, action: Tensor, *rows: Tensor | None) -> tuple[Tensor, ...]:
        _C.record(ctx, recording)
        memory, gradient = recording.memory, recording.gradient
        # The gradient is written to it, not computed from it: save_for_backward would treat the write as an error.
        ctx.buffer = None if gradient is None else (gradient, gradient._version, action.is_leaf)
        return _views(memory)

    @staticmethod
    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """Put the gradient of the action into the caller's buffer, too.

        The buffer is returned as the gradient only if nobody else can end up owning its memory: see
        `with_gradient_buffer`.
        """
        if ctx.buffer is None or not ctx.needs_input_grad[1]:
            return _Step.backward(ctx, *upstream)
        buffer, version, is_leaf = ctx.buffer
        if buffer._version != version:
            return _Step.backward(ctx, *upstream)
        gradients = _C.backward(ctx, upstream, buffer) if is_leaf and not is_compiling() else None
        if gradients is not None:
            torch.autograd.graph.increment_version(buffer)
            return (None, buffer, *gradients[2:])
        gradients = _general_vjp(ctx, upstream)
        with torch.no_grad():
            buffer.copy_(gradients[1].detach())
        return gradients


def _general_vjp(ctx, upstream: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
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
        inputs, scheme = Inputs(values, indices, dt), fast.operator.scheme(fast.scheme)
        gradients = *gradients, dt_gradient(fast.operator.name, inputs, upstream, scheme).reshape(of_dt.shape)
    return (None, *gradients[: len(needs) - 1])


def _views(memory: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Results that have been written into buffers."""
    torch.autograd.graph.increment_version(memory)
    return tuple(map(Tensor.view_as, memory, memory))


def _steps(dt: Tensor, dt_per: str) -> Tensor:
    """Step lengths `[1 or B, 1 or Ha]` in float64, detached; raises TypeError where it is no ordinary tensor."""
    if type(dt) not in _PLAIN or not dt.is_cpu or dt.dtype not in (torch.float32, torch.float64):
        raise TypeError
    if dt.requires_grad:
        dt = dt.detach()
    if dt.dim() == 1 and dt_per == "trajectory":
        dt = dt.unsqueeze(1)
    elif dt.dim() < 2:
        dt = dt.reshape(1, -1)
    return dt.contiguous() if dt.dtype is torch.float64 else dt.double().contiguous()


def _unpacked(given: object) -> tuple[object, Tensor | None]:
    """A value without its tangent, and the tangent; only tensors have one."""
    return torch._VF._unpack_dual(given, level=0) if isinstance(given, Tensor) else (given, None)


def _dual_outputs(outputs: Sequence[Tensor], moved: Sequence[Tensor | None], rate: Tensor | None) -> Iterator[Tensor]:
    """Outputs with tangents, see `derivatives.moved_inputs`."""
    for order, (output, tangent) in enumerate(zip(outputs, moved, strict=True)):
        if rate is not None and order:
            tangent = tangent.addcmul_(output, rate[..., None], value=-order)
        yield output if tangent is None else torch._VF._make_dual(output, tangent, level=0)


def _are_memory(buffers: Sequence[Tensor]) -> bool:
    """Return whether autograd can follow writes to the buffers; the extension checks everything else."""
    for buffer in buffers:
        if type(buffer) is not Tensor or buffer.is_inference() or not buffer.is_contiguous():
            return False
        # A view from an earlier call has a graph; only its memory matters here.
        owner = buffer._base
        if (buffer if owner is None else owner).requires_grad:
            return False
    return True
