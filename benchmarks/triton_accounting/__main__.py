"""Count what the Triton kernels need: `python -m benchmarks.triton_accounting [--quick | --keep] [PATTERN ...]`.

Compiles the launches whose names match a pattern (all float32 ones with no pattern; one of each kind with --quick) for
four architectures without a GPU, and prints one line of JSON for each kernel. --keep prints a table instead and writes
benchmarks/results/triton_kernels.json.
"""

from __future__ import annotations

import argparse
import json
import re

import torch

from .compilation import Compiled, compile_all
from .launches import LAUNCHES, QUICK
from .occupancy import bandwidth_share, occupancy, resident_programs
from .table import KEPT, Row, table


def main() -> None:
    """Compile, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triton_accounting", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one launch for each kernel, dtype and kind of dt")
    parser.add_argument("--keep", action="store_true", help=f"print a table and write {KEPT.name}")
    parser.add_argument("patterns", nargs="*", help="regular expressions of launches")
    arguments = parser.parse_args()
    patterns = arguments.patterns or ["" if arguments.quick else r"\bfloat32\b"]
    names = [name for name in (QUICK if arguments.quick else LAUNCHES) if any(re.search(p, name) for p in patterns)]
    rows = []
    for compiled in compile_all(names):
        rows.append(row(compiled))
        if not arguments.keep:
            print(json.dumps(rows[-1]), flush=True)
    if arguments.keep:
        print(table(rows))
        KEPT.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def row(compiled: Compiled) -> Row:
    """One kernel on one architecture: what it needs, and what follows."""
    (launch, kernel, _, arguments, options), sm, registers, spilled, shared = compiled
    warps = options["num_warps"]
    result: Row = {"launch": launch, "kernel": kernel.fn.__name__, "sm": sm, **options}
    result |= {"registers": registers, "spilled": spilled, "shared": shared}
    programs = resident_programs(sm, registers, shared, warps)
    result |= {"programs_per_multiprocessor": programs, "occupancy": round(occupancy(sm, programs, warps), 3)}
    read, written = _bytes_per_element(arguments)
    if read:
        elements = _tile_elements(arguments)
        share = bandwidth_share(sm, programs * elements * read, read / (read + written))
        result |= {"bytes_per_element": read + written, "bandwidth_share": round(share, 3)}
    return result


def _bytes_per_element(arguments: dict[str, object]) -> tuple[int, int]:
    """Bytes read and written for each element of the action, each tensor once of `[B, H, D]` once."""
    read = written = 0
    for name, value in arguments.items():
        if not isinstance(value, torch.Tensor) or value.dim() != 3:
            continue
        if name == "p_action" or (name.startswith("p_grad_") and name != "p_grad_action"):
            read += value.element_size()
        else:
            written += value.element_size()
    return read, written


def _tile_elements(arguments: dict[str, object]) -> int:
    """Elements of the action that one program loads at a time."""
    if "ROWS" in arguments:
        return arguments["ROWS"] * arguments["COLUMNS"]
    return arguments["LANES"] * arguments["ACCESSES"]


if __name__ == "__main__":
    main()
