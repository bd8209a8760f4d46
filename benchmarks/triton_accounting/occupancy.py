"""What the machine code of a kernel allows of a device's bandwidth: by loads in flight, by issue slots, by float64.

Memory answers after about `LATENCY_NS`, so a multiprocessor reads at the full rate only while it has rate x latency
bytes under way (Little's law); of what a program loads, those between two waits are under way together. A
multiprocessor issues four instructions of 32 threads a cycle, however much memory waits for them. This is a count, not
a measurement: no scheduler reaches all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

LATENCY_NS = 700.0
"""Of device memory under load, assumed."""
ISSUED_A_CYCLE = 128
"""Instructions that a multiprocessor starts, counted by threads."""


@dataclass(frozen=True)
class Device:
    """The limits of one architecture, and the memory of a device of it."""

    name: str
    multiprocessors: int
    bandwidth_gb_s: float
    clock_ghz: float
    double_a_cycle: int
    """float64 instructions that a multiprocessor starts in a cycle, counted by threads."""
    warps: int
    """Most warps on a multiprocessor."""
    programs: int
    """Most programs on a multiprocessor."""
    shared_bytes: int


DEVICES = {
    80: Device("A100 80 GB", 108, 2039.0, 1.41, 32, 64, 32, 164 << 10),
    87: Device("AGX Orin", 16, 204.8, 1.30, 2, 48, 16, 164 << 10),
    89: Device("RTX 4090", 128, 1008.0, 2.52, 2, 48, 24, 100 << 10),
    90: Device("H200", 132, 4800.0, 1.98, 64, 64, 32, 228 << 10),
    100: Device("B200", 148, 8000.0, 1.85, 64, 64, 32, 228 << 10),
    120: Device("RTX 5090", 170, 1792.0, 2.41, 2, 48, 24, 100 << 10),
}
_REGISTERS = 65_536
_REGISTERS_AT_A_TIME = 256  # granted to each warp
_RESERVED_SHARED = 1024  # by the system, for each program


def resident_programs(sm: int, registers: int, shared: int, warps: int) -> int:
    """Programs that fit on a multiprocessor at a time."""
    device = DEVICES[sm]
    per_warp = -(-registers * 32 // _REGISTERS_AT_A_TIME) * _REGISTERS_AT_A_TIME
    by_registers = _REGISTERS // per_warp // warps
    by_shared = device.shared_bytes // (shared + _RESERVED_SHARED)
    return min(by_registers, by_shared, device.warps // warps, device.programs)


def occupancy(sm: int, programs: int, warps: int) -> float:
    """Share of the warps that could be there."""
    return programs * warps / DEVICES[sm].warps


def share_by_loads(sm: int, bytes_under_way: float, read_share: float) -> float:
    """Share of the bandwidth that loads of so many bytes on each multiprocessor keep up, at most 1.

    `read_share` is the share of the kernel's traffic that are reads.
    """
    device = DEVICES[sm]
    needed = device.bandwidth_gb_s / device.multiprocessors * LATENCY_NS * read_share
    return min(1.0, bytes_under_way / needed)


def share_by_issue(sm: int, instructions: float, moved: float) -> float:
    """Share of the bandwidth that so many instructions for each `moved` bytes leave room for, at most 1."""
    return _share(sm, instructions, moved, ISSUED_A_CYCLE)


def share_by_double(sm: int, double: float, moved: float) -> float:
    """The same for float64 instructions."""
    return _share(sm, double, moved, DEVICES[sm].double_a_cycle)


def room_for(sm: int, moved: float, share: float = 0.9) -> float:
    """Instructions for each `moved` bytes that leave `share` of the bandwidth."""
    device = DEVICES[sm]
    return device.multiprocessors * device.clock_ghz * ISSUED_A_CYCLE * moved / (device.bandwidth_gb_s * share)


def _share(sm: int, instructions: float, moved: float, a_cycle: int) -> float:
    device = DEVICES[sm]
    if not instructions:
        return 1.0
    reached = device.multiprocessors * device.clock_ghz * a_cycle / instructions * moved
    return min(1.0, reached / device.bandwidth_gb_s)
