"""The host side that all launchers share: program sizes, output buffers, and the launch of a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..types import End, first_given

START_LANES = 256
"""Elements of a flat program on the rows that depend on the start: one for each thread."""
_MANY_ELEMENTS = 1 << 20
_WARP = 32
_SMALL_LANES = 256
_SCAN_ROWS = 32


@dataclass(frozen=True)
class FlatTile:
    """Shape of a program that walks over a flat array: `lanes` consecutive elements, at most 1024."""

    lanes: int
    warps: int


@dataclass(frozen=True)
class ScanTile:
    """Shape of a program that scans along time: `rows` steps at once for `columns` joints of one trajectory."""

    rows: int
    columns: int
    warps: int


def flat_tile(elements: int, lanes: int, device: torch.device) -> FlatTile:
    """Size of a flat program: four elements for each thread in large batches, otherwise one.

    Four keep several loads per thread in flight; one spreads a small batch over the whole chip.
    """
    if device.type == "cpu":
        return FlatTile(1024, 8)  # the interpreter, whose time depends on the number of programs, not on that of lanes
    if elements < _MANY_ELEMENTS:
        return FlatTile(_SMALL_LANES, _SMALL_LANES // _WARP)
    return FlatTile(lanes, lanes // (4 * _WARP))


def flat_division(size: int, tile: FlatTile) -> dict[str, int | bool]:
    """Kernel arguments with which lanes divide by the row's `size` without a division instruction.

    With m = 2^21 // size + 1, x m >> 21 is x // size while x (m size - 2^21) < 2^21: for sizes and lanes up to 1024,
    x being less than their sum. Rows that are longer than a program need only a comparison.
    """
    short = 0 < size <= tile.lanes
    return {"n_magic": (1 << 21) // size + 1 if short else 0, "SHORT": short}


def scan_tile(horizon: int, dof: int, device: torch.device) -> ScanTile:
    """Size of a scan program: one warp, all joints up to 32, 16 or 32 steps at a time.

    One warp needs no barrier and no shared memory for its sums. Blocks are short, because rounding errors add up within
    a block of rows, but not from block to block (`chain`).
    """
    columns = min(_power_of_two(dof), _WARP)
    if device.type == "cpu":
        return ScanTile(min(max(_power_of_two(horizon), 16), 128), columns, warps=1)  # the interpreter, as above
    rows = _SCAN_ROWS if horizon > _SCAN_ROWS // 2 and columns < _WARP else _SCAN_ROWS // 2
    return ScanTile(rows, columns, warps=1)


class Upstream(NamedTuple):
    """Upstream gradients of position, velocity, acceleration and jerk: contiguous, or None if absent."""

    position: Tensor | None
    velocity: Tensor | None
    acceleration: Tensor | None
    jerk: Tensor | None

    @classmethod
    def of(cls, *gradients: Tensor | None) -> Upstream:
        """Check that all have one shape; copy what is not contiguous, such as the expanded gradient of a sum."""
        upstream = cls(*gradients)
        shape = first_given(upstream).shape
        for name, gradient in zip(cls._fields, upstream, strict=True):
            if gradient is not None and gradient.shape != shape:
                raise ValueError(f"grad_{name}: expected shape {list(shape)}, got {list(gradient.shape)}")
        return cls(*(contiguous(gradient) for gradient in upstream))

    def arguments(self) -> dict[str, Tensor | None]:
        """Kernel arguments `p_grad_position` to `p_grad_jerk`."""
        return {f"p_grad_{name}": gradient for name, gradient in zip(self._fields, self, strict=True)}


def outputs(out: Sequence[Tensor] | None, shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, ...]:
    """Return four output tensors: the caller's, checked, or new ones."""
    if out is None:
        return tuple(torch.empty(shape, dtype=like.dtype, device=like.device) for _ in range(4))
    if len(out) != 4:
        raise ValueError(f"out: expected 4 tensors, got {len(out)}")
    return tuple(output(buffer, shape, like, f"out[{i}]") for i, buffer in enumerate(out))


def output(buffer: Tensor | None, shape: tuple[int, ...], like: Tensor, name: str) -> Tensor:
    """Return the caller's contiguous buffer, checked, or a new tensor."""
    if buffer is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    got = (tuple(buffer.shape), buffer.dtype, buffer.device)
    if got != (shape, like.dtype, like.device) or not buffer.is_contiguous():
        raise ValueError(
            f"{name}: expected a contiguous {like.dtype} tensor of shape {list(shape)} on {like.device}, got "
            f"{buffer.dtype}, {list(buffer.shape)}, strides {list(buffer.stride())} on {buffer.device}"
        )
    return buffer


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """Return the tensor itself where it is contiguous, a copy where it is not."""
    return None if tensor is None else tensor.contiguous()


def start_arguments(names: str, start: End) -> dict[str, Tensor | int | None]:
    """Kernel arguments of a start state: `p_<name>` and `n_<name>` (rows) for each letter of `names`, and `p_idx`."""
    arguments: dict[str, Tensor | int | None] = {"p_idx": contiguous(start.index)}
    for name, rows in zip(names, start.rows, strict=False):
        arguments[f"p_{name}0"] = contiguous(rows)
        arguments[f"n_{name}0"] = 1 if rows is None else rows.shape[0]
    return arguments


def dt_arguments(dt: Tensor, batch: int, horizon: int) -> dict[str, Tensor | int | bool]:
    """Kernel arguments of the step lengths `[1 or batch, 1 or horizon]`."""
    if dt.dim() != 2 or dt.shape[0] not in (1, batch) or dt.shape[1] not in (1, horizon):
        raise ValueError(f"dt: expected shape [1 or {batch}, 1 or {horizon}], got {list(dt.shape)}")
    return {
        "p_dt": dt.contiguous(),
        "n_dt": dt.shape[1],
        "DT_PER_TRAJECTORY": dt.shape[0] > 1,
        "DT_PER_STEP": dt.shape[1] > 1,
    }


def one_dt_arguments(dt: Tensor, batch: int) -> dict[str, Tensor | int | bool]:
    """Kernel arguments of step lengths `[1 or batch, 1]`."""
    arguments = dt_arguments(dt, batch, 1)
    return {name: arguments[name] for name in ("p_dt", "DT_PER_TRAJECTORY")}


def run(
    kernel: object,
    programs: int,
    arguments: dict[str, object],
    warps: int,
    registers: int | None = None,
) -> None:
    """Launch `programs` programs of a kernel on the device of its tensors; with 0 programs, nothing is launched.

    `registers` is the compiler's bound per thread; without it, the compiler may spill registers to fit one more
    program.

    Raises:
        ValueError: the tensors are not where Triton can reach them.

    """
    if programs == 0:
        return
    tensors = [value for value in arguments.values() if isinstance(value, Tensor)]
    device = tensors[0].device
    for tensor in tensors:
        if tensor.device != device:
            raise ValueError(f"all tensors: expected on {device}, got one on {tensor.device}")
    if device.type != "cuda" and type(kernel).__name__ != "InterpretedFunction":
        raise ValueError(f"all tensors: expected on a CUDA device (or TRITON_INTERPRET=1), got {device}")
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        kernel[(programs,)](**arguments, num_warps=warps, maxnreg=registers)


def programs_for(elements: int, lanes: int) -> int:
    """Programs that cover a flat array."""
    return -(-elements // lanes)


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
