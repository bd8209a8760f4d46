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
        self.steps, self.results = _steps, Trajectory
        self.step = functools.partial(_C.step, self, _Step.apply)
        """`step(values, indices, dt, dt_per)`: the trajectory; `values` and `indices` as in `Inputs`.

        None, having done nothing, if anything is out of the ordinary.
        """
        self.step_into = functools.partial(_C.step_into, self, _Step.apply)
        """`step_into(values, indices, dt, is_rate, buffers, gradient)`: views of the buffers that carry the graph.

        `gradient` is a buffer for the gradient of the action, or None. None as for `step`.
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
            return _C.vjp(self.kind, tuple(upstream), (start[1], goal[1]), steps, goal[0] is not None, sizes)
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


class _Step(_SingleLevelFunction):
    """A step of ordinary tensors."""

    forward = staticmethod(_C.record)

    @staticmethod
    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients = None if is_compiling() else _C.backward(ctx, upstream)
        return _general_vjp(ctx, upstream) if gradients is None else gradients


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
    if call.buffer is not None and gradients[0] is not None:
        buffer, version, _ = call.buffer
        if buffer._version == version:
            with torch.no_grad():
                buffer.copy_(gradients[0].detach())
    return (None, *gradients[: len(needs) - 1])


def _steps(dt: Tensor, dt_per: str) -> Tensor:
    """Step lengths `[1 or B, 1 or Ha]` in float64, detached; raises TypeError where it is no ordinary tensor.

    Where `dt_per` is "rate", dt is 1 / dt for each step.
    """
    if type(dt) not in _PLAIN or not dt.is_cpu or dt.dtype not in (torch.float32, torch.float64):
        raise TypeError
    if dt.requires_grad:
        dt = dt.detach()
    if dt.dim() == 1 and dt_per == "trajectory":
        dt = dt.unsqueeze(1)
    elif dt.dim() < 2:
        dt = dt.reshape(1, -1)
    dt = dt.double().contiguous()
    return dt.reciprocal() if dt_per == "rate" else dt


def _unpacked(given: object) -> tuple[object, Tensor | None]:
    """A value without its tangent, and the tangent; only tensors have one."""
    return torch._VF._unpack_dual(given, level=0) if isinstance(given, Tensor) else (given, None)


def _dual_outputs(outputs: Sequence[Tensor], moved: Sequence[Tensor | None], rate: Tensor | None) -> Iterator[Tensor]:
    """Outputs with tangents, see `derivatives.moved_inputs`."""
    for order, (output, tangent) in enumerate(zip(outputs, moved, strict=True)):
        if rate is not None and order:
            tangent = tangent.addcmul_(output, rate[..., None], value=-order)
        yield output if tangent is None else torch._VF._make_dual(output, tangent, level=0)
