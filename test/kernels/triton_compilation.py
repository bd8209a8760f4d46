"""Compile every Triton kernel for GPUs that are not there, and print what each needs as JSON lines.

A program of its own because the tests around it import triton under TRITON_INTERPRET=1. The launchers run as they are
on CPU tensors, but a recorder stands in for the launch: what is compiled is what would be started on a device.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_cases import LAUNCHES, MODULES, QUICK

ARCHITECTURES = (80, 87, 90, 100)
_POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}


def main(patterns: list[str]) -> None:
    """Compile the launches of triton_cases that match a pattern, or all; with --quick only one of each kind."""
    seen = set()
    names = QUICK if "--quick" in patterns else LAUNCHES
    patterns = [pattern for pattern in patterns if pattern != "--quick"]
    for name in names:
        if patterns and not any(re.search(pattern, name) for pattern in patterns):
            continue
        launch = LAUNCHES[name]
        for kernel, arguments, options in _recorded(launch):
            source = _source(kernel, arguments)
            key = (kernel, str(source.signature), str(source.constants), str(options))
            if key in seen:
                continue
            seen.add(key)
            for architecture in ARCHITECTURES:
                target = GPUTarget("cuda", architecture, 32)
                compiled = triton.compile(source, target=target, options=options)
                usage = {"launch": name, "kernel": kernel.fn.__name__, "sm": architecture, **options}
                print(json.dumps({**usage, **_usage(compiled)}), flush=True)


def _recorded(launch: Callable[[], object]) -> list[tuple[triton.JITFunction, dict[str, object], dict[str, int]]]:
    launches = []

    def record(
        kernel: triton.JITFunction,
        programs: int,
        arguments: dict[str, object],
        warps: int,
        registers: int | None = None,
    ) -> None:
        assert programs > 0
        options = {"num_warps": warps} if registers is None else {"num_warps": warps, "maxnreg": registers}
        launches.append((kernel, arguments, options))

    for module in MODULES:
        importlib.import_module(module).run = record
    launch()
    return launches


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


def _usage(compiled: object) -> dict[str, int]:
    """Registers per thread, spilled bytes (stack and local memory) and shared memory, read from the machine code."""
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        report = subprocess.run(
            [tools / "cuobjdump", "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", report)}
    return {"registers": found["REG"], "spilled": found["STACK"] + found["LOCAL"], "shared": compiled.metadata.shared}


if __name__ == "__main__":
    main(sys.argv[1:])
