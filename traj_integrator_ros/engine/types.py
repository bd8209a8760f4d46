"""The engine's arguments and results: configuration, start states, gradients, and its error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import AccelerationIntegrator, BsplineLayout, ControlSpace, FiniteDifference, SplineForm

Array = np.ndarray | Tensor

# Errors of the CPU's allocator, which has other words on arm64, and of CUDA's allocator for pinned memory.
_HOST_IS_FULL = ("can't allocate memory", "DefaultCPUAllocator: not enough memory", "CUDA error: out of memory")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class IntegratorConfig:
    """What an engine integrates, how, and on which device.

    Raises:
        ValueError: a field out of its range, named.

    """

    dof: int
    control_space: ControlSpace = ControlSpace.POSITION
    finite_difference: FiniteDifference = FiniteDifference.BACKWARD
    acceleration_integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH
    dt: float = 0.02
    """Default step length, s."""
    device: str = "auto"
    """"auto" (CUDA if there is a device, the CPU for calls that are faster there), "cpu", "cuda" or "cuda:N"."""
    dtype: str = "float32"
    bspline_degree: int = 3
    """3, 4 or 5."""
    bspline_steps: int = 4
    """Rows for each segment of a B-spline."""
    bspline_layout: BsplineLayout = BsplineLayout.TIGHT
    max_batch: int = 1024
    max_horizon: int = 256
    """Longest action horizon; central differences give 4 more rows, splines give `steps` rows for each segment."""
    max_graphs: int = 16
    """Number of CUDA graphs that are kept: one for each kind and shape of call, with its own buffers; 0 for none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "control_space", ControlSpace(self.control_space))
        object.__setattr__(self, "finite_difference", FiniteDifference(self.finite_difference))
        object.__setattr__(self, "acceleration_integrator", AccelerationIntegrator(self.acceleration_integrator))
        object.__setattr__(self, "bspline_layout", BsplineLayout(self.bspline_layout))
        for name, least in (("dof", 1), ("max_batch", 1), ("max_horizon", 1), ("max_graphs", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        if not (math.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt: expected a finite number of seconds > 0, got {self.dt}")
        try:
            self.spline()
        except ValueError as error:
            raise ValueError(f"bspline_{error}") from None
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}")

    def spline(self, degree: int = 0, steps: int = 0) -> SplineForm:
        """Return the configured form of splines, with `degree` and `steps` replaced where they are not 0."""
        return SplineForm(degree or self.bspline_degree, steps or self.bspline_steps, self.bspline_layout)


@dataclass(frozen=True)
class StartState:
    """Start or goal rows `[S, dof]`: one for all trajectories, one for each, or a pool from which an index selects."""

    position: Array
    velocity: Array | None = None
    acceleration: Array | None = None

    @property
    def rows(self) -> tuple[Array | None, Array | None, Array | None]:
        """Position, velocity and acceleration rows."""
        return self.position, self.velocity, self.acceleration


class UpstreamGradient(NamedTuple):
    """Gradient of a cost with respect to a trajectory's outputs, each `[B, H, dof]`; None means 0 and costs nothing."""

    position: Array | None = None
    velocity: Array | None = None
    acceleration: Array | None = None
    jerk: Array | None = None


class Gradient(NamedTuple):
    """Gradient of a cost with respect to the inputs of `integrate_array`."""

    action: np.ndarray  # [B, Ha, dof]
    start_position: np.ndarray  # [S, dof]
    start_velocity: np.ndarray
    start_acceleration: np.ndarray
    dt: np.ndarray | None  # in the shape in which dt was given; None unless wanted
    values: np.ndarray
    """All gradients except that of dt as one flat array, of which the others are views."""
    goal_position: np.ndarray | None = None  # [G, dof]; None without a goal
    goal_velocity: np.ndarray | None = None  # also None if the map takes a goal position only
    goal_acceleration: np.ndarray | None = None


class Wanted(NamedTuple):
    """Which gradients of the sum of the costs are wanted."""

    action: bool = True
    start: bool = False
    goal: bool = False
    dt: bool = False


class Evaluation(NamedTuple):
    """Costs, and gradients of their sum; None if not wanted, or for a goal that is absent."""

    cost: np.ndarray
    """`[B]`."""
    action: np.ndarray | None
    """`[B, Ha, dof]`."""
    start: tuple[np.ndarray, ...] | None
    """Gradients of position, velocity and acceleration, `[S, dof]` each."""
    goal: tuple[np.ndarray, ...] | None
    """The same for the parts of the goal that the map takes."""
    dt: np.ndarray | None
    """Float64, `[1 or B, 1 or Ha]`."""


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
