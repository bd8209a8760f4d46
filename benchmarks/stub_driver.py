"""A CUDA driver for Triton that does nothing, so that a launch takes only the host's time.

Kernels are compiled for a real architecture and "loaded"; a launch ends in a function that returns at once. Tensors are
on the CPU. A real driver adds about 2 us per launch for every launcher. Triton's own C launcher is left out, so
Triton's launches are cheaper here than on a device.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from traj_integrator_ros.kernels import backends
from traj_integrator_ros.kernels.fast_path import native_kernels
from traj_integrator_ros.kernels.triton import launch, replay
from traj_integrator_ros.kernels.validation import kept_dt

ARCHITECTURE = 90
BUILD = Path(__file__).resolve().parent.parent / "build" / "bench"
SOURCE = 'extern "C" int launch(void*, unsigned, unsigned, unsigned, unsigned) { return 0; }'


class StubDriver:
    """The interface of `triton.runtime.driver.active`."""

    def __init__(self) -> None:
        handles = itertools.count(1)
        self.utils = SimpleNamespace(
            load_binary=lambda *binary: (1, next(handles), 32, 0, 1024),
            get_device_properties=lambda device: {"max_shared_mem": 232_448},
            unload_module=lambda module: None,
        )
        self.launcher_cls = StubLauncher
        # Built in, as torch's and Triton's own are.
        self.get_current_device = int
        self.get_current_stream = abs

    def get_current_target(self) -> GPUTarget:
        """An H100's."""
        return GPUTarget("cuda", ARCHITECTURE, 32)


class StubLauncher:
    """Starts nothing."""

    def __init__(self, source: object, metadata: object) -> None:
        pass

    def __call__(self, *arguments: object) -> None:
        """Return at once."""


@contextlib.contextmanager
def stub_driver() -> Iterator[None]:
    """Triton compiles for the stub, and all launchers take CPU tensors for a device's.

    Not where there is a device: Triton would keep what the stub has loaded for its kernels.
    """
    obstacle = mock.patch.object(backends, "_obstacle", lambda backend, device: None)
    driver.set_active(StubDriver())
    try:
        with mock.patch.object(launch, "interpreted", lambda kernel: True), obstacle:
            yield
    finally:
        with contextlib.suppress(RuntimeError):  # without a device there is no driver to go back to
            driver.reset_active()


@contextlib.contextmanager
def replays() -> Iterator[None]:
    """The C++ extension starts kernels by itself, on the CPU's tensors."""
    native = native_kernels()
    native.set_kept_dt(kept_dt)
    native.replay_on("cpu", _address_of_nothing(), 0, 0, abs, replay.record)
    try:
        yield
    finally:
        native.replay_on(None, 0, 0, 0, None, None)


@functools.cache
def _address_of_nothing() -> int:
    """Address of a function like cuLaunchKernel, in a library that stays loaded."""
    BUILD.mkdir(parents=True, exist_ok=True)
    library = BUILD / "stub_driver.so"
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-shared", "-fPIC", "-O2", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return ctypes.cast(ctypes.CDLL(str(library)).launch, ctypes.c_void_p).value
