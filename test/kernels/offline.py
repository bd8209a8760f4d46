"""Compile the Triton kernels for absent GPUs: `python test/kernels/offline.py [--sm ...]`.

Prints registers, spilled bytes and float64 instructions of a thread, a line of JSON for each kernel and architecture;
`make offline` does so with the newest and the oldest Triton. The launchers run unchanged on tensors
without memory, with a recorder in place of the launch, so that exactly the kernels that would be launched on a device
are compiled. Needs TRITON_INTERPRET to be unset while triton is imported. Works with every Triton from 3.2 on (torch
2.6); whatever that one's assembler does not know is left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from traj_integrator_ros.kernels import MAPS
from traj_integrator_ros.kernels.operator import StepOperator
from traj_integrator_ros.kernels.types import Inputs, VjpInputs

OLDEST = tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 3)
ARCHITECTURES = (80, 87, 89, 90) if OLDEST else (80, 87, 89, 90, 100, 120)
FLOAT64 = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)\b|(MUFU\.\w*64H)|(F2F|I2F|F2I|FRND)\b.*\.F64")
"""Instructions at the rate of float64, which robots' GPUs compute at a 64th of that of float32."""
ROOM = "traj_integrator_ros.kernels.triton"
POINTERS = {
    torch.float64: "*fp64", torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16",
    torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip
BATCH, HORIZON, DOF, POOL = 100_000, 16, 7, 3


class Launch(NamedTuple):
    """A kernel as a launcher would start it."""

    name: str
    kernel: triton.JITFunction
    arguments: dict[str, object]
    options: dict[str, int]
    """`num_warps` and `maxnreg`."""
    programs: tuple[int, ...]


def main() -> None:
    """Compile, and print a line of JSON for each kernel and architecture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sm", type=int, nargs="*", default=ARCHITECTURES, help="architectures")
    arguments = parser.parse_args()
    seen = set()
    for name, launch in launches():
        for recorded in record(name, launch):
            made = source(recorded)
            variant = recorded.kernel, str(made.signature), str(made.constants), str(recorded.options)
            if variant not in seen:
                seen.add(variant)
                for sm in arguments.sm:
                    head = {"launch": name, "kernel": recorded.kernel.fn.__name__, "architecture": sm}
                    print(json.dumps(head | compiled(recorded, sm)), flush=True)


def launches() -> Iterator[tuple[str, partial]]:
    """Names and launchers for each kernel and direction, with steps of one length and of any; for splines, a goal."""
    for kernel, vjp in product(MAPS.values(), (False, True)):
        name, begin = f"{kernel.name} {'vjp' if vjp else 'forward'}", partial(start, kernel.operator, vjp)
        scheme = (*kernel.scheme, None)
        if not kernel.operator.goals:
            yield name, partial(begin, scheme)
            if not kernel.uniform_dt_only:
                yield f"{name}, steps of any length", partial(begin, scheme, steps=HORIZON)
        elif kernel.name == "bspline_tight":
            yield name, partial(begin, (4, *scheme[1:]), goal=True)


def start(operator: StepOperator, vjp: bool, scheme: tuple[object, ...], *, goal: bool = False, steps: int = 1) -> None:
    """Start a launcher with every optional argument, all upstream gradients and pools, on tensors without memory."""
    empty = partial(torch.empty, device="meta")
    index = empty(BATCH, dtype=torch.int32)
    dt = empty(1, steps, dtype=torch.float64)
    module = "control_points" if operator.name in ("clique_central", "bspline") else "chain"
    launcher = getattr(importlib.import_module(f"{ROOM}.{module}"), f"{operator.name}_{'vjp' if vjp else 'forward'}")
    options = operator.scheme(scheme, vjp=vjp)
    there = [k < kinds for kinds in (operator.starts, operator.goals if goal else 0) for k in range(4)]
    indices = index, index if goal else None
    if vjp:
        upstream = [empty(BATCH, operator.output_horizon(HORIZON, scheme), DOF) for _ in range(4)]
        counts = POOL, POOL if goal else -1
        launcher(VjpInputs(upstream, indices, dt, counts, HORIZON, (True, *there)), **options)
    else:
        action, pool = empty(BATCH, HORIZON, DOF), empty(POOL, DOF)
        launcher(Inputs((action, *(pool if one else None for one in there)), indices, dt), **options)


def record(name: str, launch: partial) -> list[Launch]:
    """Run a launcher and return the kernels that it would start."""
    recorded = []

    def stand_in(*started: object) -> None:
        recorded.append(launch_of(name, *started))

    with mock.patch(f"{ROOM}.launch.launch", stand_in):
        launch()
    return recorded


def launch_of(
    name: str, kernel: triton.JITFunction, programs: tuple[int, ...], arguments: dict[str, object], warps: int
) -> Launch:
    """The launch that a launcher asks for, with the options of the real one."""
    assert min(programs) > 0
    options = importlib.import_module(f"{ROOM}.launch").OPTIONS
    return Launch(name, kernel, arguments, {"num_warps": warps, **options}, programs)


def source(launch: Launch) -> ASTSource:
    """The kernel for the types of its arguments, specialized as for a launch.

    Tensors of torch are aligned to 16 bytes, which a launch tells the compiler unless a kernel asks it not to.
    """
    signature, constants, attributes = {}, {}, {}
    for i, parameter in enumerate(launch.kernel.params):
        value = launch.arguments[parameter.name]
        if parameter.is_constexpr or value is None:
            if not OLDEST:
                signature[parameter.name] = "constexpr"
            constants[parameter.name if OLDEST else (i,)] = value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = POINTERS[value.dtype]
            if not parameter.do_not_specialize_on_alignment and not OLDEST:
                attributes[(i,)] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "i32" if abs(int(value)) < 1 << 31 else "i64"
    return ASTSource(launch.kernel, signature, constants, attributes or None)


def compiled(launch: Launch, sm: int) -> dict[str, int]:
    """Registers, bytes of stack, and instructions at the rate of float64."""
    target = GPUTarget("cuda", sm, 32)
    cubin = triton.compile(source(launch), target=target, options=launch.options).asm["cubin"]
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", _read(cubin, "cuobjdump", "--dump-resource-usage")))
    code = _read(cubin, "nvdisasm", "--print-code", "--no-dataflow")
    instructions = re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;", code, re.M)
    float64 = sum(FLOAT64.match(one) is not None for one in instructions)
    return {"registers": int(found["REG"]), "spilled": int(found["STACK"]) + int(found["LOCAL"]), "float64": float64}


def _read(cubin: bytes, tool: str, *options: str) -> str:
    """What a tool that Triton brings says of machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool, *options, file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
