"""Compile the Triton kernels for GPUs that are not there: `python -m benchmarks.offline [--sm ...] [PATTERN ...]`.

Prints one line of JSON for each kernel and architecture, with registers and spilled bytes of a thread; `make offline`
does so with the newest and the oldest Triton. The launchers run unchanged on tensors without memory, with a recorder in
place of the launch, so that exactly the kernels that would be launched on a device are compiled. Needs TRITON_INTERPRET
to be unset while triton is imported. Works with every Triton from 3.2 on (torch 2.6); whatever that one's assembler
does not know is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from .triton_launches import LAUNCHES, MODULES, QUICK

OLDEST = tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 3)
ARCHITECTURES = (80, 87, 89, 90) if OLDEST else (80, 87, 89, 90, 100, 120)
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
    """`num_warps`, and `maxnreg` where there is a bound."""


def main() -> None:
    """Compile and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--all", action="store_true", help="all dtypes and sizes, not one or two launches of each kernel"
    )
    parser.add_argument("--sm", type=int, nargs="*", default=ARCHITECTURES, help="architectures of NVIDIA")
    parser.add_argument("--no-amd", action="store_true", help="nothing for AMD")
    parser.add_argument("patterns", nargs="*", default=[""], help="regular expressions for the names of launches")
    arguments = parser.parse_args()
    names = [
        name
        for name in (LAUNCHES if arguments.all else QUICK)
        if any(re.search(pattern, name) for pattern in arguments.patterns or [""])
    ]
    targets = [GPUTarget("cuda", sm, 32) for sm in arguments.sm]
    if not arguments.no_amd:
        targets += [GPUTarget("hip", name, 32 if name.startswith("gfx1") else 64) for name in AMD_ARCHITECTURES]
    for recorded in distinct(names):
        for target in targets:
            row = {"launch": recorded.launch, "kernel": recorded.kernel.fn.__name__, "architecture": target.arch}
            print(json.dumps(row | compiled(recorded, target)), flush=True)


def compiled(recorded: Recorded, target: GPUTarget) -> dict[str, int]:
    """Registers and spills of a kernel: bytes of stack on NVIDIA, registers on AMD."""
    if target.backend == "hip":
        options = {key: value for key, value in recorded.options.items() if key != "maxnreg"}
        text = triton.compile(source(recorded), target=target, options=options).asm["amdgcn"]
        found = dict(re.findall(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s+(\d+)", text))
        spilled = int(found["vgpr_spill_count"]) + int(found["sgpr_spill_count"])
        return {"registers": int(found["vgpr_count"]), "spilled": spilled}
    cubin = triton.compile(source(recorded), target=target, options=recorded.options).asm["cubin"]
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", report)}
    return {"registers": found["REG"], "spilled": found["STACK"] + found["LOCAL"]}


def distinct(names: list[str]) -> Iterator[Recorded]:
    """What the named launches start, each variant once."""
    seen = set()
    for name in names:
        for recorded in record(name, LAUNCHES[name]):
            made = source(recorded)
            key = (recorded.kernel, str(made.signature), str(made.constants), str(recorded.options))
            if key not in seen:
                seen.add(key)
                yield recorded


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
        options = {"num_warps": warps} | ({} if registers is None else {"maxnreg": registers})
        recorded.append(Recorded(name, kernel, arguments, options))

    with contextlib.ExitStack() as patches:
        for module in MODULES:
            patches.enter_context(mock.patch(f"{module}.run", stand_in))
        launch()
    return recorded


def source(recorded: Recorded) -> ASTSource:
    """The kernel for the types of its arguments, as a launch would specialize it.

    Tensors of torch are aligned to 16 bytes, which a launch tells the compiler unless a kernel asks it not to.
    """
    signature, constants, attributes = {}, {}, {}
    kernel = recorded.kernel
    for i, parameter in enumerate(kernel.params):
        value = recorded.arguments[parameter.name]
        if parameter.is_constexpr or value is None:
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


if __name__ == "__main__":
    main()
