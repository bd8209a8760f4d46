"""GPUs that predictions are made for, with the throughputs in their data sheets and in NVIDIA's table."""

from __future__ import annotations

from typing import NamedTuple


class Rates(NamedTuple):
    """Results per clock and multiprocessor.

    From "Throughput of Native Arithmetic Instructions" in the CUDA C++ Programming Guide, by compute capability; a warp
    instruction has 32 results, and each of four schedulers issues one a clock.
    """

    float32: int
    """Add, multiply, multiply-add. Integer multiply-adds take the same unit and half of its lanes."""
    multiply: int
    """32-bit integer multiply-add, which compilers use to move registers as well."""
    integer: int
    """32-bit integer add, compare, minimum, shift, logic and selection, also of floating-point numbers."""
    special: int
    """Reciprocals and conversions of 32-bit types; the guide's smallest number since 8.0."""
    float64: int
    conversion: int
    """Conversions from and to 64-bit types."""
    lanes: int
    """Lanes of loads and stores (load/store units of a multiprocessor), from white papers of the architectures."""
    issue: int = 4 * 32


class Device(NamedTuple):
    """A GPU with its largest clock, as memory and float32 peaks in data sheets assume."""

    name: str
    sm: int
    multiprocessors: int
    clock: float
    """Hz"""
    bandwidth: float
    """Byte/s"""
    rates: Rates


# Compute capability 8.0, 8.6 (8.7 and 8.9 are the same), 9.0 (10.0 is the same).
A100_RATES = Rates(float32=64, multiply=64, integer=64, special=16, float64=32, conversion=16, lanes=32)
ADA_RATES = Rates(float32=128, multiply=64, integer=64, special=16, float64=2, conversion=2, lanes=16)
HOPPER_RATES = Rates(float32=128, multiply=64, integer=64, special=16, float64=64, conversion=16, lanes=32)

DEVICES = (
    # Jetson AGX Orin Series Technical Brief: 64 GB module, 2,048 CUDA cores of 128 a multiprocessor; its 5.3 TFLOPS of
    # float32 give this clock. Microbenchmarks of an Orin give 128 results of float32, 64 of int32 and 2 of float64.
    Device("Jetson AGX Orin", 87, 16, 1.3e9, 204.8e9, ADA_RATES),
    # Jetson Thor Series data sheet: T5000, 2,560 CUDA cores; a developer kit reports 20 multiprocessors (forum of
    # NVIDIA, 356355). The clock has one source alone, and no float64 rate is published: the lowest is assumed.
    Device("Jetson Thor", 110, 20, 1.575e9, 273e9, ADA_RATES),
    # NVIDIA Ada GPU Architecture, appendix A.
    Device("RTX 4090", 89, 128, 2.52e9, 1008e9, ADA_RATES),
    # NVIDIA A100 data sheet (80 GB SXM) and NVIDIA A100 Tensor Core GPU Architecture.
    Device("A100", 80, 108, 1.41e9, 2039e9, A100_RATES),
    # NVIDIA H100 and H200 data sheets (SXM): 67 TFLOPS of float32 and 34 of float64 on 132 multiprocessors give this
    # clock; 3.35 and 4.8 TB/s. The database of hmc-tech.com has the same numbers.
    Device("H100 SXM", 90, 132, 1.98e9, 3350e9, HOPPER_RATES),
    Device("H200 SXM", 90, 132, 1.98e9, 4800e9, HOPPER_RATES),
    # NVIDIA HGX B200 data sheet: 8 TB/s. hmc-tech.com: 148 multiprocessors at 1.98 GHz, 75.0 TFLOPS of float32, 37.5 of
    # float64, 7.7 TB/s. NVIDIA Blackwell Architecture Technical Brief, by glennklockwood.com: 80 TFLOPS and 40 at 1,000
    # W, which would be 2.1 GHz. The slower clock and the faster memory demand most of a kernel.
    Device("B200", 100, 148, 1.98e9, 8000e9, HOPPER_RATES),
)
