"""The backends that compute the control maps, and which of them runs where.

A backend has two launchers for each control map (`clique`, `clique_central`, `acceleration`, `velocity`, `jerk`,
`bspline`), which `launchers(map)` of its package returns; Triton's are `<map>_forward` and `<map>_vjp` of modules:

    forward(inputs: Inputs, *, out=None, **scheme) -> (position, velocity, acceleration, jerk)
    vjp(inputs: VjpInputs, *, out=None, **scheme) -> gradients of `Inputs.values`

- Outputs are fresh contiguous `[B, H, D]` tensors in the action's dtype, gradients `[B, Ha, D]` and `[S, D]`, None if
  not wanted; rows of a start pool are summed in the same order on every run.
- `out`, which only Triton's take, are contiguous tensors to write to instead: the outputs, or the gradients, None for
  those that are to be new.
- Tensors may have any strides; launchers that want contiguous ones copy. `scheme` is
  `integrator: AccelerationIntegrator` for `acceleration`, `form: SplineForm` for `bspline`, and
  `truncate_terminal_gradient: bool` for `clique_central_vjp` (the forward map does not take it).
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch


class Backend(str, enum.Enum):
    """Implementation that computes a control map."""

    REFERENCE = "reference"
    """Plain torch operations in float64 on any device: the oracle of the tests, and slower than the others."""
    NATIVE = "native"
    """Compiled loops on the CPU."""
    TRITON = "triton"
    """Triton kernels on CUDA devices, or anywhere under Triton's interpreter."""


class BackendUnavailable(RuntimeError):
    """The requested backend cannot run here; the message says why."""


@dataclass(frozen=True)
class BackendInfo:
    """Backend of one kind of device."""

    device: str
    """Device type: "cpu" or "cuda"."""
    backend: Backend
    """The backend that runs when none is selected."""
    reason: str
    """Why it is the default."""
    unavailable: dict[Backend, str]
    """The backends that cannot run on this device, and why."""


# Plain strings, because torch.compile of older versions cannot trace an enum.
_NAMES = tuple(member.value for member in Backend)
# The backends for each kind of device, in order of preference. The last one runs everywhere.
_PREFERENCE = {"cpu": (Backend.NATIVE, Backend.REFERENCE), "cuda": (Backend.TRITON, Backend.REFERENCE)}
_TRITON_MODULES = {
    **dict.fromkeys(("clique", "velocity", "acceleration", "jerk"), "chain"),
    **dict.fromkeys(("clique_central", "bspline"), "control_points"),
}
_PACKAGES = {Backend.REFERENCE: ".reference_backend", Backend.NATIVE: ".native", Backend.TRITON: ".triton"}


def backend_info() -> tuple[BackendInfo, ...]:
    """Return what runs on each kind of device of this machine when no backend is selected, and why."""
    kinds = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    return tuple(_describe(kind) for kind in kinds)


def default_backend(device: torch.device) -> Backend:
    """Return the backend that runs on `device` when none is selected."""
    return _describe(device.type).backend


@functools.cache
def launcher(name: str, direction: str, backend: str | None, device_type: str) -> Callable[..., tuple]:
    """Return the launcher of map `name` ("clique", ...) in one direction ("forward" or "vjp").

    `backend` None means the default one of the kind of device.

    Raises:
        BackendUnavailable: the backend cannot run on this kind of device.

    """
    if backend is None:
        info = _describe(device_type)
        chosen = info.backend
        if device_type == "cuda" and chosen is not _PREFERENCE["cuda"][0]:
            warnings.warn(f"traj_integrator_ros.kernels on CUDA: {info.reason}", RuntimeWarning, stacklevel=2)
    else:
        chosen = Backend(backend)
        obstacle = _obstacle(chosen, device_type)
        if obstacle is not None:
            raise BackendUnavailable(f"backend {chosen.value!r} cannot run on {device_type!r}: {obstacle}")
    if chosen is Backend.TRITON:
        return getattr(_import(chosen, _TRITON_MODULES[name]), f"{name}_{direction}")
    return _import(chosen, "").launchers(name)[direction == "vjp"]


def check_backend(backend: Backend | str | None) -> str | None:
    """Return the value of `backend`."""
    if backend is None:
        return None
    name = backend.value if isinstance(backend, Backend) else backend
    if name not in _NAMES:
        raise ValueError(f"backend: expected None or one of {', '.join(map(repr, _NAMES))}, got {backend!r}")
    return name


@functools.cache
def native_kernels() -> ModuleType | None:
    """Return the C++ kernels; None if they cannot be imported, which is logged once."""
    try:
        return importlib.import_module(_PACKAGES[Backend.NATIVE], __package__)
    except ImportError as error:
        message = "CPU tensors are computed by the reference kernels in plain torch, not by the C++ kernels: %s"
        logging.getLogger(__package__).warning(message, error)
        return None


@functools.cache
def _describe(device_type: str) -> BackendInfo:
    preferred = _PREFERENCE.get(device_type, (Backend.REFERENCE,))
    obstacles = {backend: _obstacle(backend, device_type) for backend in Backend}
    unavailable = {backend: obstacle for backend, obstacle in obstacles.items() if obstacle is not None}
    chosen = next(backend for backend in preferred if backend not in unavailable)
    missing = [f"{backend.value}: {unavailable[backend]}" for backend in preferred if backend in unavailable]
    reason = "; ".join(missing) if missing else f"the fastest on {device_type!r}"
    return BackendInfo(device_type, chosen, reason, unavailable)


def _obstacle(backend: Backend, device_type: str) -> str | None:
    """Return why a backend cannot run on a kind of device; None if it can."""
    if backend is Backend.REFERENCE:
        return None
    package = importlib.util.find_spec(_PACKAGES[backend], __package__)
    if package is None or package.origin is None:
        return f"this installation has no {backend.value} kernels"
    if backend is Backend.NATIVE:
        if device_type != "cpu":
            return "it computes on the CPU only"
    elif importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    elif device_type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return "it needs a CUDA device, or TRITON_INTERPRET=1 set before triton is imported"
    try:
        _import(backend, "chain" if backend is Backend.TRITON else "")
    except Exception as error:  # Any exception that the import of an optional compiled part raises is the reason.
        return f"its import failed: {error}"
    # A device that is first used while a graph is captured is not probed: a probe would wait for it.
    if device_type != "cuda" or not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing():
        return None
    return _import(backend, "probe").probe(torch.device("cuda", torch.cuda.current_device()))


def _import(backend: Backend, module: str) -> ModuleType:
    name = f"{_PACKAGES[backend]}.{module}" if module else _PACKAGES[backend]
    return importlib.import_module(name, __package__)
