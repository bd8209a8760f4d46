"""What registers and shared memory allow on a multiprocessor, and whether that keeps the memory busy.

Memory answers after about `LATENCY_NS`, so a multiprocessor reads at the full rate only while it has rate x latency
bytes under way (Little's law). A program is taken to have all loads of one tile under way at a time; stores do not
wait. This is a count, not a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

LATENCY_NS = 700.0
"""Of device memory under load, assumed."""


@dataclass(frozen=True)
class Device:
    """The limits of one architecture, and the memory of a device of it."""

    name: str
    multiprocessors: int
    bandwidth_gb_s: float
    warps: int
    """Most warps on a multiprocessor."""
    programs: int
    """Most programs on a multiprocessor."""
    shared_bytes: int


DEVICES = {
    80: Device("A100 80 GB", 108, 2039.0, 64, 32, 164 << 10),
    87: Device("AGX Orin", 16, 204.8, 48, 16, 164 << 10),
    90: Device("H200", 132, 4800.0, 64, 32, 228 << 10),
    100: Device("B200", 148, 8000.0, 64, 32, 228 << 10),
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


def bandwidth_share(sm: int, bytes_under_way: float, read_share: float) -> float:
    """Share of the device's bandwidth that loads of so many bytes on each multiprocessor keep up, at most 1.

    `read_share` is the share of the kernel's traffic that are reads.
    """
    device = DEVICES[sm]
    needed = device.bandwidth_gb_s / device.multiprocessors * LATENCY_NS * read_share
    return min(1.0, bytes_under_way / needed)
