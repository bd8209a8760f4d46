"""What the machine code of a kernel does for each element: instructions, float64 arithmetic, loads in flight."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import triton

_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
_DOUBLE = re.compile(r"^(DADD|DMUL|DFMA|DSETP|DMNMX|F2F\S*F64|I2F\S*F64|F2I\S*F64)")


class MachineCode(NamedTuple):
    """Counts over the code of one thread, up to the exit that every thread comes to."""

    instructions: int
    double: int
    """Of them float64 arithmetic and conversions."""
    loads: int
    """From device memory."""
    waits: int
    """Points at which a thread waits for loads: those since the wait before are in flight together."""
    barriers: int
    registers: int
    spilled: int
    """Bytes per thread in local memory: stack and spills."""


def read(cubin: bytes) -> MachineCode:
    """Disassemble a kernel."""
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        report, listing = (
            subprocess.run([tools / "cuobjdump", flag, file.name], check=True, capture_output=True, text=True).stdout
            for flag in ("--dump-resource-usage", "--dump-sass")
        )
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", report)}
    return _count(_main_path(listing), found["REG"], found["STACK"] + found["LOCAL"])


def _main_path(listing: str) -> list[str]:
    """Instructions up to the last exit: behind it stand subroutines for rare operands, and padding."""
    lines = [match[1] for line in listing.splitlines() if (match := _LINE.match(line))]
    # Exits under a predicate are for programs with nothing to do.
    end = next(i for i, line in enumerate(lines) if re.match(r"EXIT\b", line))
    return [line for line in lines[: end + 1] if not line.startswith("NOP")]


def _count(lines: list[str], registers: int, spilled: int) -> MachineCode:
    bare = [re.sub(r"^@!?U?P\w+\s+", "", line) for line in lines]
    double = sum(bool(_DOUBLE.match(line)) for line in bare)
    barriers = sum(line.startswith("BAR.") for line in bare)
    loads, waits = _flights(bare)
    return MachineCode(len(bare), double, loads, waits, barriers, registers, spilled)


def _flights(lines: list[str]) -> tuple[int, int]:
    """Loads, and how often one of them is waited for: on the first use of what is loaded, all before it are there."""
    loads = waits = 0
    under_way: set[int] = set()
    for line in lines:
        name, _, operands = line.partition(" ")
        target, _, sources = operands.partition(",")
        is_load = name.startswith("LDG")
        used = _numbers(sources if is_load else operands)
        if used & under_way:
            waits += 1
            under_way.clear()
        if is_load:
            loads += 1
            under_way |= _numbers(target)
    return loads, waits


def _numbers(operands: str) -> set[int]:
    result = set()
    for number, wide in _REGISTER.findall(operands):
        result.add(int(number))
        if wide:
            result.add(int(number) + 1)
    return result
