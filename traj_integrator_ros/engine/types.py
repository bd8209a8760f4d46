"""The engine's results and its error, and which devices there are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

# Errors of the CPU's allocator, which has other words on arm64, and of CUDA's allocator for pinned memory.
_HOST_IS_FULL = ("can't allocate memory", "DefaultCPUAllocator: not enough memory", "CUDA error: out of memory")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Gradient(NamedTuple):
    """Gradients of a cost with respect to actions, rows and step lengths; None if not wanted, or for an absent goal."""

    action: np.ndarray | None
    """`[B, Ha, dof]`."""
    start: tuple[np.ndarray, ...] | None
    """Those of position, velocity and acceleration, `[S, dof]` each."""
    goal: tuple[np.ndarray, ...] | None
    """The same for the parts of the goal that the map takes."""
    dt: np.ndarray | None
    """Float64, `[1 or B, 1 or Ha]`."""


class Wanted(NamedTuple):
    """Which gradients of the sum of the costs are wanted."""

    action: bool = True
    start: bool = False
    goal: bool = False
    dt: bool = False


class OutOfDeviceMemory(RuntimeError):
    """One trajectory does not fit on the device, or the results do not fit on the host; the engine remains usable."""


def resolve_device(name: str) -> torch.device:
    """Return the device that `name` ("auto", "cpu", "cuda", "cuda:N") means here.

    Raises:
        ValueError: an unknown name, or a device that does not exist.

    """
    count = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda:0" if count else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: expected auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device: got {name!r}, but torch {torch.__version__} sees {count} CUDA devices")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else torch.device("cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: torch has an error type for devices only, so on the host its text decides."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return any(text in str(error) for text in _HOST_IS_FULL)
