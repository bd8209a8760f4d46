"""In place of a launch: compiles the kernel for a GPU that is not there, and executes its PTX on tensors of the CPU.

TRITON_INTERPRET must be unset while triton is imported. Compiled kernels are kept in the folder TRITON_CACHE_DIR, which
must not be a device's: the PTX is not translated any further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import offline
import torch
import triton
from ptx_machine import Machine, parsed
from ptx_memory import Memory, Simulated
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

ARCHITECTURES = (80, 87, 90, 100, 120)
DEVICE_SIZE = 256
"""`program_size` of a device."""


@dataclass
class Execution:
    """How launches are executed."""

    architecture: int
    programs: Callable[[tuple[int, ...]], Iterable[tuple[int, int]]] | None = None
    """Which programs of a grid are executed; None: all."""
    simulated: Callable[[str, torch.Tensor], Simulated] | None = None
    """Stand-ins for tensors without memory, by the kernel's name for them."""
    edit: Callable[[str], str] = str
    """Changes the PTX."""
    executed: list[str] = field(default_factory=list)
    """Names of the kernels that ran."""

    def launch(self, kernel: triton.JITFunction, programs: tuple[int, ...], arguments: dict, warps: int) -> None:
        """Stand in for `kernels.triton.launch.launch`."""
        one = offline.launch_of("", kernel, programs, arguments, warps)
        compiled = ptx_of(one, self.architecture)
        constants = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
        given = {name: one for name, one in arguments.items() if name not in constants and one is not None}
        self.execute(self.edit(compiled.asm["ptx"]), programs, given, warps, compiled.metadata.shared)
        self.executed.append(kernel.fn.__name__)

    def execute(self, text: str, programs: tuple[int, ...], arguments: dict, warps: int, shared: int = 0) -> None:
        """Execute PTX with arguments for its parameters; those that the compiler adds are unused."""
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        simulated = {name: self.simulated(name, one) for name, one in tensors.items() if one.device.type == "meta"}
        memory = Memory(tensors, simulated)
        given = [memory.address.get(name, value) for name, value in arguments.items()]
        chosen = np.ndindex(*programs) if self.programs is None else self.programs(programs)
        numbers = np.array([(*one, 0, 0)[:3] for one in chosen])
        Machine(parsed(text), given, memory, numbers, (*programs, 1, 1)[:3], 32 * warps, shared).run()


@contextmanager
def executing(architecture: int, **options: object) -> Iterator[Execution]:
    """Execute what launchers launch, with programs of the size that a device has; new memory begins as NaN."""
    execution, room = Execution(architecture, **options), offline.ROOM
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        with (
            mock.patch(f"{room}.launch.launch", execution.launch),
            mock.patch(f"{room}.launch.program_size", lambda device: DEVICE_SIZE),
        ):
            yield execution
    finally:
        torch.use_deterministic_algorithms(was_deterministic)


def ptx_of(launch: offline.Launch, architecture: int) -> triton.compiler.CompiledKernel:
    """Compile a kernel to PTX."""
    target = GPUTarget("cuda", architecture, 32)
    with mock.patch.object(CUDABackend, "make_cubin", lambda *_: b""):
        return triton.compile(offline.source(launch), target=target, options=launch.options)
