"""The host side that all launchers share: how big a program is, where outputs live, how a kernel is started."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_PROGRAM_BYTES = 4096
_MANY_ELEMENTS = 1 << 20
_WARP = 32
# Registers a thread at which two programs of 256 threads still run on a multiprocessor at a time.
_TWO_PROGRAMS = 128


@dataclass(frozen=True)
class FlatTile:
    """Shape of a program that walks over a flat array: `accesses` times `lanes` consecutive elements.

    One element for each thread and access: neighbouring threads then touch neighbouring elements whatever the alignment
    of the rows, which a dof of 7 spoils for wider accesses.
    """

    lanes: int
    accesses: int
    warps: int

    @property
    def elements(self) -> int:
        """Elements of one program."""
        return self.lanes * self.accesses


@dataclass(frozen=True)
class ScanTile:
    """Shape of a program that scans along time: `rows` steps at once for `columns` joints of one trajectory."""

    rows: int
    columns: int
    warps: int


def flat_tile(elements: int, like: Tensor) -> FlatTile:
    """Size of a flat program: 4 KiB of each tensor where there is much to do, else one access for each thread.

    Long programs keep several loads in flight for each thread; short ones spread a small batch over the whole chip.
    """
    if like.device.type == "cpu":
        return FlatTile(lanes=4096, accesses=1, warps=4)  # the interpreter: its time goes by programs, not by lanes
    lanes = 256
    accesses = _PROGRAM_BYTES // (lanes * like.element_size()) if elements >= _MANY_ELEMENTS else 1
    return FlatTile(lanes=lanes, accesses=max(1, accesses), warps=lanes // _WARP)


def scan_tile(horizon: int, dof: int, registers: int = _TWO_PROGRAMS) -> ScanTile:
    """Size of a scan program: all joints up to 32, and as many steps as make about 1,024 elements.

    Four elements for each thread: of each of the four outputs a warp then has 512 bytes of float32 in flight, and no
    variant needs more registers than it may have. The row counts are powers of two from 16 to 256, so that at most five
    variants are ever compiled for one dof. With more than 128 `registers` a thread, a multiprocessor holds one program
    of 256 threads but three of 128: programs are half as large then.
    """
    elements = 1024 if registers <= _TWO_PROGRAMS else 512
    columns = min(_power_of_two(dof), 32)
    rows = min(max(_power_of_two(horizon), 16), max(16, min(elements // columns, 256)))
    return ScanTile(rows, columns, warps=min(max(rows * columns // (4 * _WARP), 1), 8))


class Upstream(NamedTuple):
    """Upstream gradients of position, velocity, acceleration and jerk: contiguous, None if there is none."""

    position: Tensor | None
    velocity: Tensor | None
    acceleration: Tensor | None
    jerk: Tensor | None

    @classmethod
    def of(cls, *gradients: Tensor | None) -> Upstream:
        """Check that all have one shape; copy what is not contiguous, such as the expanded gradient of a sum."""
        upstream = cls(*gradients)
        shape = upstream.some.shape
        for name, gradient in zip(cls._fields, upstream, strict=True):
            if gradient is not None and gradient.shape != shape:
                raise ValueError(f"grad_{name}: expected shape {list(shape)}, got {list(gradient.shape)}")
        return cls(*(contiguous(gradient) for gradient in upstream))

    def arguments(self) -> dict[str, Tensor | None]:
        """Kernel arguments `p_grad_position` to `p_grad_jerk`."""
        return {f"p_grad_{name}": gradient for name, gradient in zip(self._fields, self, strict=True)}

    @property
    def some(self) -> Tensor:
        """One of the gradients that are there.

        Raises:
            ValueError: all of them are None.

        """
        for gradient in self:
            if gradient is not None:
                return gradient
        raise ValueError("upstream gradients: expected at least one tensor, got None for all four")


def outputs(out: Sequence[Tensor] | None, shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, ...]:
    """Return four output tensors: those of the caller, checked, or new ones."""
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


def start_arguments(
    names: str, start: Sequence[Tensor | None], start_index: Tensor | None
) -> dict[str, Tensor | int | None]:
    """Kernel arguments of a start state: `p_<name>` and `n_<name>` (rows) for each letter of `names`, and `p_idx`."""
    arguments: dict[str, Tensor | int | None] = {"p_idx": contiguous(start_index)}
    for name, rows in zip(names, start, strict=True):
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


def run(kernel: object, programs: int, arguments: dict[str, object], warps: int, registers: int | None = None) -> None:
    """Start `programs` programs of a kernel on the device of its tensors; none, when there is nothing to do.

    `registers` per thread is the compiler's bound; left to itself it may prefer a spill to one program less at a time.

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
    if device.type != "cuda" and not interpreted(kernel):
        raise ValueError(f"all tensors: expected on a CUDA device (or TRITON_INTERPRET=1), got {device}")
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        kernel[(programs,)](**arguments, num_warps=warps, maxnreg=registers)


def scan_registers(double: bool, wide_registers: int = _TWO_PROGRAMS) -> int:
    """Register bound of the scan kernels; arithmetic in float64, all of it or some of it (wide), takes two a number.

    As tight as it goes without a spill.
    """
    return 255 if double else wide_registers


def interpreted(kernel: object) -> bool:
    """Whether triton was imported under TRITON_INTERPRET=1."""
    return type(kernel).__name__ == "InterpretedFunction"


def programs_for(elements: int, tile: FlatTile) -> int:
    """Programs that cover a flat array."""
    return -(-elements // tile.elements)


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
