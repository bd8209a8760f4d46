"""Compile the Triton kernels for GPUs that are not there.

The launchers run as they are on CPU tensors, but a recorder stands in for the launch: what is compiled is what would be
started on a device. Needs TRITON_INTERPRET to be unset while triton is imported.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from .launches import LAUNCHES, MODULES

ARCHITECTURES = (80, 87, 90, 100)
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
    programs: int
    arguments: dict[str, object]
    options: dict[str, int]
    """`num_warps`, and `maxnreg` where there is a bound."""


class Compiled(NamedTuple):
    """Its machine code for one architecture."""

    recorded: Recorded
    sm: int
    registers: int
    """Per thread."""
    spilled: int
    """Bytes per thread in local memory: stack and spills."""
    shared: int
    """Bytes per program."""


def compile_all(names: Iterator[str]) -> Iterator[Compiled]:
    """Compile every kernel that the named launches start, once for each architecture."""
    seen = set()
    for name in names:
        for recorded in record(name, LAUNCHES[name]):
            source = _source(recorded.kernel, recorded.arguments)
            key = (recorded.kernel, str(source.signature), str(source.constants), str(recorded.options))
            if key in seen:
                continue
            seen.add(key)
            for architecture in ARCHITECTURES:
                target = GPUTarget("cuda", architecture, 32)
                yield _measured(recorded, architecture, triton.compile(source, target=target, options=recorded.options))


def record(name: str, launch: Callable[[], object]) -> list[Recorded]:
    """Run a launcher and return what it would have started."""
    recorded = []

    def stand_in(
        kernel: triton.JITFunction,
        programs: int,
        arguments: dict[str, object],
        warps: int,
        registers: int | None = None,
    ) -> None:
        assert programs > 0
        options = {"num_warps": warps} if registers is None else {"num_warps": warps, "maxnreg": registers}
        recorded.append(Recorded(name, kernel, programs, arguments, options))

    modules = [importlib.import_module(module) for module in MODULES]
    originals = [module.run for module in modules]
    for module in modules:
        module.run = stand_in
    try:
        launch()
    finally:
        for module, original in zip(modules, originals, strict=True):
            module.run = original
    return recorded


def _source(kernel: triton.JITFunction, arguments: dict[str, object]) -> ASTSource:
    signature, constants, attributes = {}, {}, {}
    for i, parameter in enumerate(kernel.params):
        value = arguments[parameter.name]
        if parameter.is_constexpr or value is None:
            signature[parameter.name] = "constexpr"
            constants[(i,)] = value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = _POINTERS[value.dtype]
            attributes[(i,)] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "i32" if abs(int(value)) < 1 << 31 else "i64"
    return ASTSource(kernel, signature, constants, attributes)


def _measured(recorded: Recorded, sm: int, compiled: object) -> Compiled:
    """Read registers, spills and shared memory from the machine code."""
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        report = subprocess.run(
            [tools / "cuobjdump", "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", report)}
    return Compiled(recorded, sm, found["REG"], found["STACK"] + found["LOCAL"], compiled.metadata.shared)
