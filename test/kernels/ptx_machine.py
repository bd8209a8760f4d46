"""Executes the PTX of a kernel: all threads of a launch at once, each register an array with a number for each thread.

Threads that take different ways wait for those whose place in the code is the smallest, so that they meet again. What a
device would not forgive is a `Fault`, with the line of the source: a register read before it is written, a shuffle or a
barrier that some threads do not reach, and what `ptx_memory` finds. What a device makes of the PTX is not executed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from ptx_memory import UNSIGNED, WARP, Cells, Fault, Lanes, Memory
from ptx_operations import DTYPES, OPERATIONS, Operation

_WIDTHS = {"p": np.bool_, "rs": np.uint16, "r": np.uint32, "rd": np.uint64}
_AXES = "xyz"
_NOBODY = np.zeros(0, bool)
_RANDOM = np.random.default_rng(0)


class Instruction(NamedTuple):
    """One line of PTX."""

    guard: str
    """A predicate register, "!" before it if it must be false; "" for none."""
    opcode: str
    operation: Operation | None
    """None for what is more than arithmetic."""
    operands: tuple[str, ...]
    source: str


class Code(NamedTuple):
    """A kernel."""

    name: str
    parameters: tuple[str, ...]
    blocks: list[list[Instruction]]
    """Only the last instruction of a block branches, returns or waits."""
    labels: dict[str, int]
    written: frozenset[str]
    """Registers that an instruction writes."""


@cache
def parsed(text: str) -> Code:
    """Read the one kernel of a module."""
    name = re.search(r"\.entry\s+([\w$]+)", text)[1]
    head, body = text[text.index(".entry") :].split("\n{", 1)
    parameters = tuple(re.findall(r"([\w$]+)[,\n]", head.split("(", 1)[1].split(")")[0] + "\n"))
    blocks: list[list[Instruction]] = [[]]
    labels, source = {}, ""
    for line in body.split("\n}", 1)[0].splitlines():
        if place := re.match(r"\s*\.loc\b.*//\s*(\S+:\d+)", line):
            source = place[1]
        line = line.split("//")[0].strip()
        if label := re.match(r"([\w$]+):$", line):
            blocks.append([])
            labels[label[1]] = len(blocks) - 1
        elif found := re.match(r"(?:@(!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*?);$", line):
            operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^\s,{}\[\]]+", found[3])
            operation = None if "{" in found[3] else _operation(found[2], len(operands) - 1)
            blocks[-1].append(Instruction(found[1] or "", found[2], operation, tuple(operands), source))
            if found[2].split(".")[0] in ("bra", "ret", "bar", "barrier"):
                blocks.append([])
        elif line and not line.startswith("."):
            raise Fault(f"{name}: expected an instruction, got {line!r}")
    written = {one for block in blocks for each in block for one in re.findall(r"%\w+", "".join(each.operands[:1]))}
    return Code(name, parameters, blocks, labels, frozenset(written))


def _operation(opcode: str, count: int) -> Operation | None:
    return OPERATIONS.get(f"{opcode} {count}", OPERATIONS.get(opcode))


class Machine:
    """Executes programs of a launch.

    Args:
        code: the kernel.
        parameters: numbers and addresses, in the order of the kernel.
        memory: of the tensors.
        programs: numbers of those to execute, `[N, 3]`.
        grid: number of programs along each axis.
        threads: of a program.
        shared: bytes of shared memory of a program.

    """

    def __init__(
        self, code: Code, parameters: Sequence[int], memory: Memory, programs: np.ndarray, grid: Sequence[int],
        threads: int, shared: int,
    ) -> None:  # fmt: skip
        self._code, self._memory, self._threads = code, memory, threads
        self._parameters = dict(zip(code.parameters, parameters, strict=False))
        count = len(programs) * threads
        self._index = np.arange(count)
        self._place = np.zeros(count, np.int64)
        self._epochs = np.zeros(len(programs), np.int64)
        self._registers: dict[str, np.ndarray] = {}
        self._known: dict[str, np.ndarray | None] = {}
        """Threads that have written a register; None: all of them."""
        self._shared_size = -(-shared // 8) * 8
        self._shared = Cells(np.zeros(self._shared_size * len(programs), np.uint8), 1, is_shared=True)
        special = {"%tid.x": self._index % threads, "%laneid": self._index % WARP}
        for axis, letter in enumerate(_AXES):
            special[f"%ctaid.{letter}"] = programs[:, axis].repeat(threads)
            special[f"%nctaid.{letter}"] = np.full(count, grid[axis])
        for name, values in special.items():
            self._registers[name], self._known[name] = values.astype(np.uint32), None

    def run(self) -> None:
        """Execute until all threads have returned."""
        end = len(self._code.blocks)
        with np.errstate(all="ignore"):
            while (first := int(self._place.min())) < end:
                lanes = np.flatnonzero(self._place == first)
                self._place[lanes] = first + 1
                for one in self._code.blocks[first]:
                    try:
                        self._execute(one, lanes)
                    except Fault as fault:
                        raise Fault(f"{self._code.name}, {one.source}: {one.opcode} {fault}") from None
                    except Exception as error:
                        raise RuntimeError(f"{self._code.name}, {one.source}: {one.opcode}, {one.operands}") from error

    def _execute(self, one: Instruction, lanes: np.ndarray) -> None:
        if one.guard:
            is_chosen = self._read(one.guard.lstrip("!"), "pred", lanes)
            lanes = lanes[~is_chosen if one.guard[0] == "!" else is_chosen]
            if not len(lanes):
                return
        if one.operation is not None:
            (target, *operands), kinds = one.operands, one.operation.operands
            values = [self._read(x, kind, lanes) for x, kind in zip(operands, kinds, strict=True)]
            self._write(target, one.operation.compute(*values), one.operation.result, lanes)
            return
        name, *modifiers = one.opcode.split(".")
        if name not in ("bra", "ret", "bar", "mov", "shfl", "ld", "st"):
            raise Fault("is an opcode that this interpreter does not know")
        getattr(self, f"_{name}")(modifiers, one.operands, lanes)

    # Instructions that do more than arithmetic, by name

    def _bra(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        self._place[lanes] = self._code.labels[operands[0]]

    def _ret(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        self._place[lanes] = len(self._code.blocks)

    def _bar(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        if modifiers[0] == "warp":
            self._expect_whole(lanes, WARP)
            return
        self._expect_whole(lanes, self._threads)
        self._epochs[np.unique(lanes // self._threads)] += 1

    def _mov(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        """Pack numbers into a register, or unpack it."""
        kind, (target, given) = modifiers[0], operands
        size = DTYPES[kind]().itemsize
        parts = re.findall(r"[^\s,{}]+", given if given.startswith("{") else target)
        part = f"b{8 * size // len(parts)}"
        if given.startswith("{"):
            values = np.stack([np.broadcast_to(self._read(x, part, lanes), len(lanes)) for x in parts], 1)
            self._write(target, np.ascontiguousarray(values).view(DTYPES[kind])[:, 0], kind, lanes)
            return
        values = np.broadcast_to(self._read(given, kind, lanes), len(lanes))
        values = np.ascontiguousarray(values)[:, None].view(DTYPES[part])
        for place, name in enumerate(parts):
            if name != "_":
                self._write(name, values[:, place].copy(), part, lanes)

    def _shfl(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        """Registers of other lanes of a warp; a lane without another one keeps its own."""
        (target, *found), mode = operands[0].split("|"), modifiers[1]
        given, by, clamp, members = (self._read(x, "b32", lanes) for x in operands[1:])
        self._expect_whole(lanes, WARP)
        if not (np.broadcast_to(members, len(lanes)) == 0xFFFFFFFF).all():
            raise Fault("does not name all lanes of a warp")
        lane, by, clamp = lanes % WARP, by.astype(np.int64), clamp.astype(np.int64)
        inside = (clamp >> 8) & 31
        most, own = (lane & inside) | (clamp & 31 & ~inside), lane
        same = (lane & inside) | (by & ~inside & 31)
        other = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": same}[mode]
        is_there = other >= most if mode == "up" else other <= most
        other = np.where(is_there, other, own)
        self._write(target, given[np.arange(len(lanes)) - lane + other], "b32", lanes)
        if found:
            self._write(found[0], is_there, "pred", lanes)

    def _ld(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        space, kind = modifiers[0], modifiers[-1]
        targets = re.findall(r"[^\s,{}]+", operands[0])
        if space == "param":
            bits = np.full(len(lanes), self._parameters[operands[1].strip("[]")] & (1 << 64) - 1, np.uint64)
            self._write(targets[0], bits.astype(DTYPES[kind]), kind, lanes)
            return
        memory, places = self._access(space, operands[1], np.dtype(DTYPES[kind]).itemsize, len(targets), lanes)
        for target, begin in zip(targets, places, strict=True):
            bits = memory.load(begin, np.dtype(DTYPES[kind]).itemsize, self._lanes(lanes))
            self._write(target, bits.view(DTYPES[kind]), kind, lanes)

    def _st(self, modifiers: list[str], operands: Sequence[str], lanes: np.ndarray) -> None:
        space, kind = modifiers[0], modifiers[-1]
        given, size = re.findall(r"[^\s,{}]+", operands[1]), np.dtype(DTYPES[kind]).itemsize
        memory, places = self._access(space, operands[0], size, len(given), lanes)
        for one, begin in zip(given, places, strict=True):
            bits = np.ascontiguousarray(np.broadcast_to(self._read(one, kind, lanes), len(lanes)))
            memory.store(begin, bits.view(UNSIGNED[size]), self._lanes(lanes))

    def _access(
        self, space: str, operand: str, size: int, count: int, lanes: np.ndarray
    ) -> tuple[Cells | Memory, list[np.ndarray]]:
        """Memory, and the first bytes in it of each of some adjacent numbers."""
        name, offset = re.match(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand).groups()
        begin = self._read(name, "s64" if name.startswith("%rd") else "s32", lanes)
        begin = np.broadcast_to(begin, len(lanes)).astype(np.int64) + int(offset or 0)
        if (begin % (size * count)).any():
            raise Fault(f"takes {size * count} bytes from an address that is no multiple of {size * count}")
        places = [begin + k * size for k in range(count)]
        if space != "shared":
            return self._memory, places
        if ((begin < 0) | (begin + size * count > self._shared_size)).any():
            raise Fault("takes bytes outside of the program's shared memory")
        return self._shared, [place + lanes // self._threads * self._shared_size for place in places]

    # Registers and addresses

    def _read(self, operand: str, kind: str, lanes: np.ndarray) -> np.ndarray:
        """Numbers of some lanes, or one for all of them."""
        if not operand.startswith("%"):
            return _constant(operand, kind)
        known = self._known.get(operand, _NOBODY)
        if known is not None and (known is _NOBODY or not known[lanes].all()):
            if operand in self._code.written:
                raise Fault(f"reads {operand} before it is written")
            # The compiler's word for a number that does not matter.
            self._write(operand, _RANDOM.integers(0, 2**16, len(lanes), np.uint16), "b16", lanes)
        bits = self._registers[operand]
        bits = bits if len(lanes) == len(bits) else bits[lanes]
        dtype = np.dtype(DTYPES[kind])
        if dtype.itemsize < bits.dtype.itemsize and kind != "f32x2":
            bits = bits.astype(UNSIGNED[dtype.itemsize])  # conversions may take a part of a register
        return bits.view(dtype)

    def _write(self, name: str, values: np.ndarray, kind: str, lanes: np.ndarray) -> None:
        width = _width(name)
        if kind != "f32x2" and values.dtype.itemsize < np.dtype(width).itemsize:  # narrow numbers are extended
            values = values.astype(f"{'i' if kind[0] == 's' else 'u'}{np.dtype(width).itemsize}")
        bits = np.ascontiguousarray(values).view(width)
        if len(lanes) == len(self._index):
            self._registers[name] = np.array(np.broadcast_to(bits, len(lanes)))
            self._known[name] = None
            return
        if name not in self._registers:
            self._registers[name] = np.zeros(len(self._index), width)
            self._known[name] = np.zeros(len(self._index), bool)
        self._registers[name][lanes] = bits
        if self._known[name] is not None:
            self._known[name][lanes] = True

    def _lanes(self, lanes: np.ndarray) -> Lanes:
        program = lanes // self._threads
        return Lanes(lanes, program, lanes // WARP, self._epochs[program], self._threads)

    def _expect_whole(self, lanes: np.ndarray, group: int) -> None:
        """Expect all threads of each warp, or of each program."""
        if len(lanes) != group * len(np.unique(lanes // group)):
            raise Fault(f"is not reached by all threads of a {'warp' if group == WARP else 'program'}")


@cache
def _width(name: str) -> type:
    return _WIDTHS[re.match(r"%([a-z]+)", name)[1]]


@cache
def _constant(text: str, kind: str) -> np.ndarray:
    """A number that stands in the code."""
    dtype = np.dtype(DTYPES[kind])
    if text.startswith(("0f", "0d")):
        bits = int(text[2:], 16)
    elif re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
        bits = int(text, 0)
    else:
        bits = 0  # a symbol: shared memory begins there
    if kind == "pred":
        return np.array(bits != 0)
    return np.array([bits & (1 << 8 * dtype.itemsize) - 1], UNSIGNED[dtype.itemsize]).view(dtype)
