"""Count what the Triton kernels need: `python -m benchmarks.triton_accounting [--quick | --keep] [PATTERN ...]`.

Compiles the launches whose names match a pattern (those of the kept table with no pattern; one or two of each kernel
with --quick) for all architectures, AMD's too, without a GPU, and prints one line of JSON for each kernel. --keep
prints a table, too, and writes benchmarks/results/triton_kernels.json: all for NVIDIA and AMD with the Triton that is
imported, and keeps what the file has of the other one (`make offline` compiles with the oldest and the newest). With a
pattern --keep replaces the rows of the launches that match it and leaves the others.
"""

from __future__ import annotations

import argparse
import json
import re

import torch
import triton

from .compilation import ARCHITECTURES, Compiled, compile_all, compile_for_amd, sources_of
from .launches import KEPT_LAUNCHES, LAUNCHES, OTHER_DTYPES, QUICK
from .occupancy import (
    occupancy,
    resident_programs,
    share_by_double,
    share_by_issue,
    share_by_loads,
)
from .table import KEPT, Row, load, table


def main() -> None:
    """Compile, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triton_accounting", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one or two launches for each kernel")
    parser.add_argument("--keep", action="store_true", help=f"print a table and write {KEPT.name}")
    parser.add_argument("--sm", type=int, nargs="*", default=ARCHITECTURES, help="architectures of NVIDIA")
    parser.add_argument("--no-amd", action="store_true", help="nothing for AMD")
    parser.add_argument("patterns", nargs="*", help="regular expressions: of all launches without --quick and --keep")
    arguments = parser.parse_args()
    patterns = arguments.patterns or [""]
    known = QUICK if arguments.quick else KEPT_LAUNCHES
    if arguments.patterns and not (arguments.quick or arguments.keep):
        known = tuple(LAUNCHES)
    rows = []

    def is_wanted(launch: str) -> bool:
        return any(re.search(pattern, launch) for pattern in patterns)

    def add(found: Row) -> None:
        rows.append({"triton": triton.__version__, **found})
        print(json.dumps(rows[-1]), flush=True)

    for compiled in compile_all(known, arguments.sm, is_wanted):
        add(row(compiled))
    for compiled in compile_all(OTHER_DTYPES, [90], is_wanted) if arguments.keep else ():
        add(row(compiled))
    for found in () if arguments.no_amd else compile_for_amd(QUICK, is_wanted):
        add(found)
    if arguments.keep:
        print(table([row for row in rows if "sm" in row]))
        known_rows = load()
        others = [row for row in known_rows if row["triton"] != triton.__version__ or not is_wanted(row["launch"])]
        keep(rows + others, known_rows)


def keep(rows: list[Row], before: list[Row]) -> None:
    """Write the rows, each where its like was before."""
    named = ("triton", "launch", "kernel", "sm", "architecture")
    places: dict[tuple[object, ...], int] = {}
    for place, known in enumerate(before):
        places.setdefault(tuple(known.get(name) for name in named), place)
    ordered = sorted(
        rows, key=lambda row: (row["triton"], places.get(tuple(row.get(name) for name in named), len(before)))
    )
    lines = dict.fromkeys(map(json.dumps, ordered))  # two variants may come to the same
    KEPT.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def row(compiled: Compiled) -> Row:
    """One kernel on one architecture: what it needs, and what follows."""
    (launch, kernel, arguments, options), sm, whole, counted, shared = compiled
    warps = options["num_warps"]
    result: Row = {"launch": launch, "kernel": kernel.fn.__name__, "sm": sm, **options}
    result |= {"sources": sources_of(kernel), "registers": whole.registers, "spilled": whole.spilled, "shared": shared}
    programs = resident_programs(sm, whole.registers, shared, warps)
    result |= {"barriers": counted.barriers, "loads": counted.loads, "waits": counted.waits}
    result |= {"programs_per_multiprocessor": programs, "occupancy": round(occupancy(sm, programs, warps), 3)}
    read, written = _bytes_per_element(arguments)
    if not read or "TRAJECTORIES" in arguments:  # which walks in a loop, whose instructions are there once
        return result
    moved = read + written
    elements = _elements(arguments)
    instructions, double = (count * warps * 32 / elements for count in (counted.instructions, counted.double))
    result |= {"bytes_per_element": moved, "instructions": round(instructions, 1), "double": round(double, 2)}
    under_way = programs * elements * read / max(counted.waits, 1)
    shares = {
        "loads": share_by_loads(sm, under_way, read / moved),
        "issue": share_by_issue(sm, instructions, moved),
        "double": share_by_double(sm, double, moved),
    }
    return result | {f"share_by_{name}": round(share, 3) for name, share in shares.items()}


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


def _elements(arguments: dict[str, object]) -> int:
    """Elements of the action that one program computes at a time; lanes beyond the rows and joints are not counted."""
    if "ROWS" in arguments:
        return min(arguments["ROWS"], arguments["H"]) * min(arguments["COLUMNS"], arguments["D"])
    return arguments["LANES"]


if __name__ == "__main__":
    main()
