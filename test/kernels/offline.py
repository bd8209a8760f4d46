"""Compile the Triton kernels for absent GPUs: `python test/kernels/offline.py [--sm ...] [--json] [PATTERN ...]`.

Prints a table of registers, spilled bytes and float64 instructions of a thread, or a line of JSON for each kernel and
architecture; `make offline` does so with the newest and the oldest Triton. The launchers run unchanged on tensors
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
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
BATCH, HORIZON, POOL = 100_000, 16, 3
# Numbers of joints that give programs of each shape: the usual one, one joint, as many as fit.
DOFS = (7, 1, 32)
QUICK = re.compile("float32 (D7|degree 4 to a goal)")
"""One launch for each kernel."""


class Launch(NamedTuple):
    """A kernel as a launcher would start it."""

    name: str
    kernel: triton.JITFunction
    arguments: dict[str, object]
    options: dict[str, int]
    """`num_warps` and `maxnreg`."""
    programs: tuple[int, ...]


def main() -> None:
    """Compile and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--all", action="store_true", help="all dtypes and sizes, not one or two launches of each kernel"
    )
    parser.add_argument("--sm", type=int, nargs="*", default=ARCHITECTURES, help="architectures")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each kernel and architecture")
    parser.add_argument("patterns", nargs="*", help="regular expressions for the names of launches")
    arguments = parser.parse_args()
    pattern = re.compile("|".join(arguments.patterns))
    seen = set()
    if not arguments.json:
        print(f"triton {triton.__version__}: registers / spilled bytes / float64 instructions")
        print(f"{'':75}" + "".join(f"{f'sm_{sm}':>12}" for sm in arguments.sm))
    for name, launch in launches():
        if not pattern.search(name) or not (arguments.all or QUICK.search(name)):
            continue
        for recorded in record(name, launch):
            made = source(recorded)
            variant = recorded.kernel, str(made.signature), str(made.constants), str(recorded.options)
            if variant in seen:
                continue
            seen.add(variant)
            head = {"launch": name, "kernel": recorded.kernel.fn.__name__}
            if not arguments.json:
                print(f"{name:55}{head['kernel']:20}", end="")
            for sm in arguments.sm:
                found = compiled(recorded, sm)
                line = json.dumps({**head, "architecture": sm, **found}) + "\n"
                print(line if arguments.json else f"{' / '.join(map(str, found.values())):>12}", end="", flush=True)
            print(end="" if arguments.json else "\n")


def launches() -> Iterator[tuple[str, partial]]:
    """Names and launchers for every kernel, in each variant with different machine code.

    A variant is a direction, a dtype, a dof, and whether steps are of one length; for splines of 7 joints, a degree and
    whether there is a goal.
    """
    for kernel, vjp, dtype in product(MAPS.values(), (False, True), DTYPES):
        operator, scheme = kernel.operator, (*kernel.scheme, None)
        head = f"{'vjp' if vjp else 'forward'} {str(dtype).removeprefix('torch.')}"
        begin = partial(start, operator, vjp, dtype)
        if operator.goals:
            for degree, goal in product((3, 4, 5), (False, True)) if kernel.name == "bspline_tight" else ():
                name = f"bspline {head} degree {degree}{' to a goal' if goal else ''}"
                yield name, partial(begin, 7, (degree, *scheme[1:]), goal)
            continue
        for dof in DOFS[:1] if kernel.uniform_dt_only else DOFS:
            yield f"{kernel.name} {head} D{dof}", partial(begin, dof, scheme, False)
        if not kernel.uniform_dt_only:
            name = f"{kernel.name} {head} D{DOFS[0]}, steps of any length"
            yield name, partial(begin, DOFS[0], scheme, False, HORIZON)


def start(
    operator: StepOperator,
    vjp: bool,
    dtype: torch.dtype,
    dof: int,
    scheme: tuple[object, ...],
    goal: bool,
    steps: int = 1,
    horizon: int = HORIZON,
) -> None:
    """Start a launcher with every optional argument, all upstream gradients and pools, on tensors without memory."""
    empty = partial(torch.empty, device="meta")
    index = empty(BATCH, dtype=torch.int32)
    dt = empty(1, steps, dtype=torch.float64)
    module = operator.name if operator.name in ("clique_central", "bspline") else "chain"
    launcher = getattr(importlib.import_module(f"{ROOM}.{module}"), f"{operator.name}_{'vjp' if vjp else 'forward'}")
    options = operator.scheme(scheme, vjp=vjp)
    there = [k < kinds for kinds in (operator.starts, operator.goals if goal else 0) for k in range(4)]
    indices = index, index if goal else None
    if vjp:
        upstream = [empty(BATCH, operator.output_horizon(horizon, scheme), dof, dtype=dtype) for _ in range(4)]
        counts = POOL, POOL if goal else -1
        launcher(VjpInputs(upstream, indices, dt, counts, horizon, (True, *there)), **options)
    else:
        action, pool = empty(BATCH, horizon, dof, dtype=dtype), empty(POOL, dof, dtype=dtype)
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
