"""Compile the Triton kernels for absent GPUs: `python -m benchmarks.offline [--sm ...] [PATTERN ...]`.

Prints one line of JSON for each kernel and architecture, with registers and spilled bytes of a thread; `make offline`
does so with the newest and the oldest Triton. The launchers run unchanged on tensors without memory, with a recorder in
place of the launch, so that exactly the kernels that would be launched on a device are compiled. Needs TRITON_INTERPRET
to be unset while triton is imported. Works with every Triton from 3.2 on (torch 2.6); whatever that one's assembler
does not know is left out.
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

from .machine_code import disassembled, is_float64

OLDEST = tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 3)
ARCHITECTURES = (80, 87, 89, 90) if OLDEST else (80, 87, 89, 90, 100, 120)
AMD_ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--all", action="store_true", help="all dtypes and sizes, not one or two launches of each kernel"
    )
    parser.add_argument("--sm", type=int, nargs="*", default=ARCHITECTURES, help="architectures of NVIDIA")
    parser.add_argument("--no-amd", action="store_true", help="nothing for AMD")
    parser.add_argument("patterns", nargs="*", help="regular expressions for the names of launches")
    arguments = parser.parse_args()
    targets = [GPUTarget("cuda", sm, 32) for sm in arguments.sm]
    if not arguments.no_amd:
        targets += [GPUTarget("hip", name, 32 if name.startswith("gfx1") else 64) for name in AMD_ARCHITECTURES]
    pattern = re.compile("|".join(arguments.patterns))
    seen = set()
    for name, launch in launches():
        if not pattern.search(name) or not (arguments.all or QUICK.search(name)):
            continue
        for recorded in record(name, launch):
            made = source(recorded)
            variant = recorded.kernel, str(made.signature), str(made.constants), str(recorded.options)
            for target in () if variant in seen else targets:
                row = {"launch": name, "kernel": recorded.kernel.fn.__name__, "architecture": target.arch}
                print(json.dumps(row | compiled(recorded, target)), flush=True)
            seen.add(variant)


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

    def stand_in(
        kernel: triton.JITFunction, programs: tuple[int, ...], arguments: dict[str, object], warps: int
    ) -> None:
        assert min(programs) > 0
        options = {"num_warps": warps, "enable_fp_fusion": False}
        options["maxnreg"] = importlib.import_module(f"{ROOM}.launch").REGISTERS
        recorded.append(Launch(name, kernel, arguments, options, programs))

    with mock.patch(f"{ROOM}.launch.launch", stand_in):
        launch()
    return recorded


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


def compiled(launch: Launch, target: GPUTarget) -> dict[str, int]:
    """Registers and spills of a kernel: bytes of stack on NVIDIA, registers on AMD.

    For NVIDIA, it also counts the instructions at the rate of float64.
    """
    if target.backend == "hip":
        options = {key: value for key, value in launch.options.items() if key != "maxnreg"}
        text = triton.compile(source(launch), target=target, options=options).asm["amdgcn"]
        found = dict(re.findall(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s+(\d+)", text))
        spilled = int(found["vgpr_spill_count"]) + int(found["sgpr_spill_count"])
        return {"registers": int(found["vgpr_count"]), "spilled": spilled}
    cubin = cubin_of(launch, target)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", report)}
    float64 = sum(is_float64(one) for one in disassembled(cubin)[0])
    return {"registers": found["REG"], "spilled": found["STACK"] + found["LOCAL"], "float64": float64}


def cubin_of(launch: Launch, target: GPUTarget) -> bytes:
    """Compile a kernel for NVIDIA."""
    return triton.compile(source(launch), target=target, options=launch.options).asm["cubin"]


if __name__ == "__main__":
    main()
