"""Instructions that a warp of a Triton kernel issues, counted in its machine code by the unit that executes them."""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import triton

# Units and their instructions, tried in this order. An instruction of no known unit only takes an issue slot: branches,
# barriers, constants, and everything on the uniform datapath (U...).
FLOAT64 = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)\b|(MUFU\.\w*64H)|(F2F|I2F|F2I|FRND)\b.*\.F64")
UNITS = {
    "conversion": re.compile(r"(F2F|I2F|F2I|FRND)\b.*\.[FSU]64"),
    "float64": FLOAT64,
    "load/store": re.compile(r"(LD|ST|LDG|STG|LDS|STS|LDL|STL|LDSM|STSM|RED|REDG|ATOM|ATOMG|ATOMS|SHFL)\b"),
    "special": re.compile(r"(MUFU|F2F|I2F|F2I|FRND|I2I|POPC|FLO|BREV|REDUX|CREDUX)\b"),
    "multiply": re.compile(r"(IMAD|IDP|IDP4A)\b"),
    "float32": re.compile(r"([FH](ADD|MUL|FMA)2?)\b"),
    "other": re.compile(r"U[A-Z]|(BRA|BRX|JMP|CALL|RET|EXIT|BSSY|BSYNC|BMOV|BREAK|BAR|WARPSYNC|DEPBAR|MEMBAR|LDCU?|"
                        r"C?S2U?R|R2UR|ERRBAR|CCTL|YIELD|NANOSLEEP|KILL|BPT)\b"),
    "integer": re.compile(""),
}  # fmt: skip


class Instruction(NamedTuple):
    """An instruction with its source line."""

    text: str
    """Text of the instruction without the predicate."""
    file: str
    line: int


class Loop(NamedTuple):
    """Instructions from a label to the branch back to it."""

    first: int
    last: int


class Counts(NamedTuple):
    """Instructions that a warp issues."""

    by_unit: Counter[str]
    """Instructions by unit; `issue` counts all of them."""
    of_float64: Counter[str]
    """All instructions at the rate of float64, once each, also in code that is hardly ever called."""


def counted(cubin: bytes, arguments: Mapping[str, object], programs: tuple[int, ...]) -> Counts:
    """Count the instructions of a warp; those of a loop count for each of its iterations with a launch's arguments.

    Both ways of a branch count. Subroutines, which divisions call for operands that hardly occur, do not.
    """
    instructions, labels = disassembled(cubin)
    end = min([at for label, at in labels.items() if "$" in label], default=len(instructions))
    weights = [1] * end
    for loop, trips in _trips(instructions[:end], labels, {**arguments, "programs": programs}):
        for i in range(loop.first, loop.last + 1):
            weights[i] *= trips
    by_unit = Counter()
    for one, weight in zip(instructions, weights, strict=False):
        if one.text.startswith("NOP"):
            continue
        pairs = re.match(r"F(ADD|MUL|FMA)2\b", one.text)
        by_unit[unit(one.text)] += 2 * weight if pairs else weight
        by_unit["issue"] += weight
    return Counts(by_unit, Counter(one.text.split()[0] for one in instructions if is_float64(one)))


def is_float64(one: Instruction) -> bool:
    """Return whether an instruction runs at the rate of float64."""
    return FLOAT64.match(one.text) is not None


def unit(text: str) -> str:
    """Return the unit of `UNITS` that executes an instruction."""
    return next(name for name, pattern in UNITS.items() if pattern.match(text.split()[0]))


def disassembled(cubin: bytes) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions, and the index of the one after each label."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--print-code", "--print-line-info", "--no-dataflow", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    instructions, labels, place = [], {}, ("", 0)
    for row in text.splitlines():
        if found := re.match(r"([.$\w]+):\s*$", row):
            labels[found[1]] = len(instructions)
        elif found := re.search(r'//## File "(.*)", line (\d+)', row):
            place = found[1], int(found[2])
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;", row):
            instructions.append(Instruction(found[1], *place))
    return instructions, labels


def _trips(
    instructions: list[Instruction], labels: dict[str, int], arguments: Mapping[str, object]
) -> list[tuple[Loop, float]]:
    """All loops, with the number of iterations of a program."""
    ends = {}
    for i, one in enumerate(instructions):
        to = labels.get(found[1], i) if (found := re.match(r"BRA\b.*`\((\S+)\)", one.text)) else i
        if to < i:
            ends[to] = max(ends.get(to, 0), i)
    loops = sorted(Loop(*item) for item in ends.items())
    statements = [_statement(instructions[loop.first : loop.last + 1]) for loop in loops]
    result, rest, copies = [], set(), Counter()
    for k, (loop, statement) in enumerate(zip(loops, statements, strict=True)):
        if k in rest:
            continue
        trips = _range_length(statement, arguments, copies[statement])
        copies[statement] += 1
        after = next((i for i in range(k + 1, len(loops)) if loops[i].first > loop.last), None)
        times = 1
        if after is not None and statements[after] == statement:
            # An unrolled loop and a loop for the remainder have the same loads several times.
            loads = [sum("LD" in one.text[:3] for one in instructions[a : b + 1]) for a, b in (loop, loops[after])]
            times = max(round(loads[0] / max(loads[1], 1)), 1)
        if times > 1:
            result.append((loops[after], trips % times))
            rest.add(after)
        result.append((loop, trips // times))
    return result


def _statement(body: list[Instruction]) -> tuple[str, int]:
    """File and line of the `for` of a loop: around the line of its branch, or around most lines of its body.

    Lines of functions that are called in the body say nothing.
    """
    lines = Counter((one.file, one.line) for one in body)
    for file, line in [body[-1][1:], *(place for place, _ in lines.most_common())]:
        if around := [node for node in _loops(file) if node.lineno <= line <= node.end_lineno]:
            return file, around[-1].lineno
    raise ValueError(f"{body[-1].file}:{body[-1].line}: expected a `for` over a range, the machine code has a loop")


@lru_cache
def _loops(file: str) -> list[ast.For]:
    """Loops over a range that are not unrolled, outer ones first."""
    nodes = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.For) and re.match(r"(tl\.)?range\(", ast.unparse(node.iter))]


def _range_length(statement: tuple[str, int], arguments: Mapping[str, object], copy: int) -> float:
    """Length of a loop's range, from the arguments of a kernel and values computed from them alone.

    A range from a program's number on, in steps of the number of programs, has the mean length of all programs. Within
    an unrolled loop that counts from 0, there are copies of it.
    """
    file, line = statement
    programs = arguments["programs"]
    language = SimpleNamespace(range=range, cdiv=triton.cdiv, num_programs=lambda axis: programs[axis])
    language.program_id = lambda axis: 0
    known = {**arguments, "range": range, "tl": language}
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not getattr(node, "lineno", line + 1) <= line <= getattr(node, "end_lineno", line):
            continue
        if isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter):
            known[ast.unparse(node.target)] = copy
        if isinstance(node, ast.FunctionDef):
            for assigned in [one for one in node.body if isinstance(one, ast.Assign)]:
                with contextlib.suppress(Exception):
                    known[ast.unparse(assigned.targets[0])] = eval(ast.unparse(assigned.value), {}, known)
    expression = next(ast.unparse(node.iter) for node in _loops(file) if node.lineno == line)
    try:
        found = eval(expression, {}, known)
        return len(found) if found.step == 1 else max(found.stop - found.start, 0) / found.step
    except NameError as error:
        raise ValueError(f"{file}:{line}: expected a range of the arguments, got {expression}: {error}") from error
