"""Buffers that belong to the caller: written in place, and still correct under autograd.

Three things have to hold at once, and a plain `ctx.mark_dirty` gives only the first:

* Autograd knows of the write. `copy_` increments the version of the buffer's memory, so any node that saved the old
  numbers for its backward raises an error there.
* A loop over one set of buffers grows no graph. A buffer marked dirty gets a `grad_fn`, and the next call would attach
  its graph to that of the previous call. So a buffer itself never gets one: its numbers are returned as a new view that
  carries the graph, while the buffer stays plain memory.
* An old view cannot be mistaken for the new numbers. Autograd recomputes the `grad_fn` of a view whose memory has been
  written since, and refuses to do so for a view that a custom function returned: using one in a new computation raises
  an error. What was computed from it before the write (a clone, a sum) keeps its correct gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..types import Trajectory


def write_trajectory(trajectory: Trajectory, buffers: dict[str, Tensor]) -> Trajectory:
    """Copy position, velocity, acceleration and jerk into the buffers; return views that carry the gradient.

    `buffers` maps the argument names to four tensors; nothing is written when one of them is refused.

    Raises:
        TypeError: a buffer that is no tensor.
        ValueError: a buffer that has another shape, dtype or device than the output, is not contiguous, was created in
            inference mode, is memory of a tensor that requires grad, or overlaps another buffer.

    """
    for (name, buffer), output in zip(buffers.items(), trajectory, strict=True):
        check_buffer(name, buffer, output)
    # A view returned by an earlier call and passed in again has a graph and a tangent: detach drops both.
    memory = [buffer.detach() for buffer in buffers.values()]
    written = _Write.apply(tuple(buffers), *memory, *(output.detach() for output in trajectory))
    return Trajectory(*map(_OutBuffer.apply, written, trajectory))


def with_gradient_buffer(name: str, buffer: Tensor | None, tensor: Tensor) -> Tensor:
    """Return a view of `tensor` whose gradient is written into `buffer`; with None, torch allocates the gradient.

    The buffer itself is returned as the gradient only if no one else can end up owning its memory, which is so when
    all of these hold; otherwise the gradient is a new tensor:

    * `tensor` is a leaf: autograd copies a gradient that is also referenced elsewhere into `.grad`. For a non-leaf it
      may pass on a view of it, which `.grad` would keep and the next backward would overwrite.
    * The backward records no graph (`create_graph=False`).
    * The buffer has not been written since this call: a gradient put there by another call, or by an earlier backward
      of this one, may not have been accumulated yet. In this case the buffer is not written either.

    Raises:
        TypeError: a buffer that is no tensor.
        ValueError: as in `write_trajectory`.

    """
    if buffer is None:
        return tensor
    check_buffer(name, buffer, tensor)
    return _KeepGradient.apply(tensor, buffer, name) if tensor.requires_grad else tensor


def check_buffer(name: str, buffer: Tensor, like: Tensor) -> None:
    """Raise TypeError or ValueError unless `buffer` can take the numbers of `like` as they are."""
    if not isinstance(buffer, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(buffer).__name__}")
    if buffer.shape != like.shape:
        raise ValueError(f"{name}: expected shape {list(like.shape)}, got {list(buffer.shape)}")
    if buffer.dtype != like.dtype:
        raise ValueError(f"{name}: expected dtype {like.dtype}, got {buffer.dtype}")
    if buffer.device != like.device:
        raise ValueError(f"{name}: expected device {like.device}, got {buffer.device}")
    if buffer.layout != torch.strided or not buffer.is_contiguous():
        strides = list(buffer.stride()) if buffer.layout == torch.strided else buffer.layout
        raise ValueError(f"{name}: expected a contiguous tensor, got strides {strides}")
    if buffer.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(f"{name}: expected a tensor that autograd can follow, got one made in inference mode")
    owner = buffer if buffer._base is None else buffer._base
    if owner.requires_grad:
        raise ValueError(f"{name}: expected plain memory, got that of a tensor that requires grad")


def _check_apart(names: Sequence[str], buffers: Sequence[Tensor]) -> None:
    """Raise ValueError if two of the buffers, which are all contiguous, share memory."""
    ranges: list[tuple[int, int, str]] = []
    for name, buffer in zip(names, buffers, strict=True):
        begin = buffer.data_ptr()
        end = begin + buffer.numel() * buffer.element_size()
        for other_begin, other_end, other in ranges:
            # On the meta device, where nothing is written, all addresses are 0.
            if begin and begin < other_end and other_begin < end:
                raise ValueError(f"{name}: expected memory of its own, got the memory of {other}")
        ranges.append((begin, end, name))


def _refuse_vmap(*_: object) -> NoReturn:
    raise RuntimeError(
        "vmap cannot write the values of its batch into buffers made outside of it; map "
        "over a step without buffers, such as clique_step"
    )


class _Write(torch.autograd.Function):
    """Takes names, buffers and as many values; returns the written buffers. `_OutBuffer` provides the gradient.

    This is a function of its own so that the write also works under `torch.func.grad` and `jvp`, which allow no other
    writes into captured tensors. All buffers are written before the first is returned: they may share one allocation
    and hence one version.
    """

    @staticmethod
    def forward(names: Sequence[str], *tensors: Tensor) -> Sequence[Tensor]:
        buffers, values = tensors[: len(names)], tensors[len(names) :]
        _check_apart(names, buffers)
        for buffer, value in zip(buffers, values, strict=True):
            buffer.copy_(value)
        return buffers

    @staticmethod
    def setup_context(ctx: Any, inputs: Sequence[Tensor], output: Sequence[Tensor]) -> None:
        ctx.mark_non_differentiable(*output)

    vmap = staticmethod(_refuse_vmap)


class _OutBuffer(torch.autograd.Function):
    """A view of the written buffer with the gradient of the output it was written from.

    It has one output per call, because of several views of its inputs torch (2.13) gives only the first a forward-mode
    tangent.
    """

    @staticmethod
    def forward(buffer: Tensor, output: Tensor) -> Tensor:
        return buffer.view_as(buffer)

    @staticmethod
    def setup_context(ctx: Any, inputs: Sequence[Tensor], output: Tensor) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Sequence[Tensor | None]:
        return None, grad

    @staticmethod
    def jvp(ctx: Any, _: None, tangent: Tensor | None) -> Tensor | None:
        return tangent

    vmap = staticmethod(_refuse_vmap)


class _KeepGradient(torch.autograd.Function):
    """The identity; its backward puts the gradient into a buffer."""

    @staticmethod
    def forward(tensor: Tensor, buffer: Tensor, name: str) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx: Any, inputs: Sequence[Tensor], output: Tensor) -> None:
        tensor, buffer, ctx.name = inputs
        ctx.set_materialize_grads(False)
        # The gradient is written to the buffer, not computed from it: save_for_backward would copy it elsewhere under
        # save_on_cpu, and would treat the write as an error.
        ctx.buffer = buffer
        ctx.version = buffer._version
        ctx.is_leaf = tensor.is_leaf

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Sequence[Tensor | None]:
        if grad is None or ctx.buffer._version != ctx.version:
            return grad, None, None
        _Write.apply((ctx.name,), ctx.buffer, grad.detach())
        returns_buffer = ctx.is_leaf and not torch.is_grad_enabled()
        return ctx.buffer if returns_buffer else grad, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, *_: None) -> Tensor | None:
        return None if tangent is None else tangent.view_as(tangent)

    vmap = staticmethod(_refuse_vmap)
