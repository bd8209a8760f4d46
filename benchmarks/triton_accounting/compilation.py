"""Compile the Triton kernels for GPUs without having them.

The launchers run unchanged on tensors without memory, with a recorder in place of the launch, so that exactly the
kernels that would be launched on a device are compiled. Needs TRITON_INTERPRET to be unset while triton is imported.
Works with every Triton from 3.2 on (torch 2.6); whatever that one's assembler does not know is left out.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import machine_code
from .launches import LAUNCHES, MODULES, SCAN
from .machine_code import MachineCode
from .occupancy import DEVICES
from .sources import digest

OLDEST = tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 3)
ARCHITECTURES = (80, 87, 89, 90) if OLDEST else (80, 87, 89, 90, 100, 120)
# AMD's: compiled, never run.
AMD_ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
_POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}


class Recorded(NamedTuple):
    """A kernel as a launcher would have started it."""

    launch: str
    kernel: triton.JITFunction
    arguments: dict[str, object]
    options: dict[str, int]
    """`num_warps`, `enable_fp_fusion`, and `maxnreg` where there is a bound."""


class Compiled(NamedTuple):
    """Its machine code for one architecture."""

    recorded: Recorded
    sm: int
    whole: MachineCode
    counted: MachineCode
    """Without the programs that do the start rows: what most programs run."""
    shared: int
    """Bytes per program."""


def compile_all(
    names: Sequence[str], architectures: Sequence[int], is_wanted: Callable[[str], bool]
) -> Iterator[Compiled]:
    """Compile every kernel that the named launches start, once for each architecture; of them those that are wanted.

    What several launches start belongs to the first of them, whether or not that one is wanted.
    """
    for fast_double in (True, False):
        some = [sm for sm in architectures if (DEVICES[sm].double_a_cycle > 2) is fast_double]
        for recorded in distinct(names, fast_double) if some else ():
            for sm in some if is_wanted(recorded.launch) else ():
                yield _compile(recorded, sm)


def _compile(recorded: Recorded, sm: int) -> Compiled:
    target = GPUTarget("cuda", sm, 32)
    compiled = triton.compile(source(recorded), target=target, options=recorded.options)
    whole = counted = machine_code.read(compiled.asm["cubin"])
    if "n_start_programs" in recorded.arguments:
        alone = triton.compile(source(recorded, "n_start_programs"), target=target, options=recorded.options)
        counted = machine_code.read(alone.asm["cubin"])
    return Compiled(recorded, sm, whole, counted, compiled.metadata.shared)


def compile_for_amd(names: Sequence[str], is_wanted: Callable[[str], bool]) -> Iterator[dict]:
    """Compile for AMD GPUs: vector registers and spills of each kernel."""
    for recorded in distinct(names):
        for name in AMD_ARCHITECTURES if is_wanted(recorded.launch) else ():
            target = GPUTarget("hip", name, 32 if name.startswith("gfx1") else 64)
            options = {key: value for key, value in recorded.options.items() if key != "maxnreg"}
            text = triton.compile(source(recorded), target=target, options=options).asm["amdgcn"]
            found = dict(re.findall(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s+(\d+)", text))
            yield {
                "launch": recorded.launch,
                "kernel": recorded.kernel.fn.__name__,
                "architecture": name,
                "sources": sources_of(recorded.kernel),
                "registers": int(found["vgpr_count"]),
                "spilled": int(found["vgpr_spill_count"]) + int(found["sgpr_spill_count"]),
            }


def distinct(names: Sequence[str], fast_double: bool = True) -> Iterator[Recorded]:
    """What the named launches start on a device that computes float64 fast or slowly, each variant once."""
    seen = set()
    for name in names:
        for recorded in record(name, LAUNCHES[name], fast_double):
            made = source(recorded)
            key = (recorded.kernel, str(made.signature), str(made.constants), str(recorded.options))
            if key not in seen:
                seen.add(key)
                yield recorded


def record(name: str, launch: Callable[[], object], fast_double: bool = True) -> list[Recorded]:
    """Run a launcher and return what it would have started."""
    recorded = []

    def stand_in(
        kernel: triton.JITFunction,
        programs: int,
        arguments: dict[str, object],
        warps: int,
        registers: int | None = None,
        *,
        contract: bool = True,
    ) -> None:
        assert programs > 0
        options = {"num_warps": warps, "enable_fp_fusion": contract}
        options |= {} if registers is None else {"maxnreg": registers}
        recorded.append(Recorded(name, kernel, arguments, options))

    with contextlib.ExitStack() as patches:
        for module in MODULES:
            patches.enter_context(mock.patch(f"{module}.run", stand_in))
        patches.enter_context(mock.patch(f"{SCAN}.has_fast_double", lambda device: fast_double))
        launch()
    return recorded


def source(recorded: Recorded, zero: str | None = None) -> ASTSource:
    """The kernel for the types of its arguments, as a launch would specialize it; `zero` names one that is always 0.

    Tensors of torch are aligned to 16 bytes, which a launch tells the compiler unless a kernel asks it not to.
    """
    signature, constants, attributes = {}, {}, {}
    kernel = recorded.kernel
    for i, parameter in enumerate(kernel.params):
        value = 0 if parameter.name == zero else recorded.arguments[parameter.name]
        if parameter.is_constexpr or value is None or parameter.name == zero:
            if not OLDEST:
                signature[parameter.name] = "constexpr"
            constants[parameter.name if OLDEST else (i,)] = value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = _POINTERS[value.dtype]
            if not parameter.do_not_specialize_on_alignment and not OLDEST:
                attributes[(i,)] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "i32" if abs(int(value)) < 1 << 31 else "i64"
    return ASTSource(kernel, signature, constants, attributes or None)


def sources_of(kernel: triton.JITFunction) -> str:
    """What tells whether a kernel has changed."""
    return digest(Path(inspect.getsourcefile(kernel.fn)))
