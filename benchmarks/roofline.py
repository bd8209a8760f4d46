"""Predict the speed of the Triton kernels without a GPU: `python -m benchmarks.roofline [--json] [PATTERN ...]`.

For float32, a horizon of 32 and 7 joints. Each unit of a multiprocessor, and the memory, would take some time for a
launch if it were the only one; the longest is the prediction, and the share that of the memory: 1 means that
nothing but the memory limits. No latency is in it, every program counts whole, idle lanes and both ways of each branch
included, and every input is read and every output written once. Kernels of a launcher follow one another. Needs
TRITON_INTERPRET to be unset while triton is imported.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from itertools import groupby
from typing import NamedTuple

from torch import Tensor
from triton.backends.compiler import GPUTarget

from .devices import DEVICES, Device
from .machine_code import Counts, counted
from .offline import Launch, cubin_of, launches, record

HORIZON, DOF = 32, 7
PREDICTED = re.compile(
    rf"(clique|velocity|acceleration_zoh|jerk|clique_central) \w+ float32 D{DOF}$|bspline \w+ float32 degree 3 to a"
)
WARP = 32


class Prediction(NamedTuple):
    """Prediction for a launcher on a device. All numbers except the share are per element of one output trajectory."""

    launch: str
    device: str
    share: float
    """Share of the time that the memory alone would take."""
    limit: str
    """The unit that takes longest in the slowest kernel."""
    bytes: float
    lanes: dict[str, float]
    """Instructions of each unit, summed over the lanes of all warps."""
    float64: Counter[str]
    """Instructions at the rate of float64."""


def main() -> None:
    """Compile, count and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one line for each kernel and device")
    parser.add_argument("patterns", nargs="*", help="regular expressions for the names of launches")
    arguments = parser.parse_args()
    found = predictions(re.compile("|".join(arguments.patterns)))
    if arguments.json:
        for prediction in found:
            print(json.dumps(prediction._asdict()), flush=True)
        return
    print(f"{'predicted, not measured':32}" + "".join(f"{device.name:>16}" for device in DEVICES))
    for name, group in groupby(found, key=lambda one: one.launch):
        row = list(group)
        print(f"{name.split(' float32')[0]:25}{row[0].bytes:5.1f} B", end="")
        print("".join(f"{one.share:5.2f} {one.limit:>10}" for one in row), flush=True)


def predictions(pattern: re.Pattern[str]) -> Iterator[Prediction]:
    """Predict every entry of `PREDICTED` that contains a pattern, on every device, kernel by kernel."""
    for name, launch in launches():
        if PREDICTED.match(name) and pattern.search(name):
            recorded = record(name, partial(launch, horizon=HORIZON))
            count = lru_cache(partial(_counts, recorded))
            for device in DEVICES:
                yield predict(recorded, count(device.sm), device)


def predict(recorded: list[Launch], counts: list[Counts], device: Device) -> Prediction:
    """Predict the time of kernels that run one after the other on a device."""
    elements = max(one.numel() for launch in recorded for one in _tensors(launch).values())
    total, longest, limit, lanes, seen = 0.0, 0.0, "", {}, {}
    for launch, count in sorted(zip(recorded, counts, strict=True), key=lambda pair: -math.prod(pair[0].programs)):
        new = {key: one for key, one in _tensors(launch).items() if key not in seen}
        seen |= new
        threads = math.prod(launch.programs) * launch.options["num_warps"] * WARP
        times = {"memory": _bytes(new) / device.bandwidth}
        for unit, instructions in count.by_unit.items():
            lanes[unit] = lanes.get(unit, 0.0) + threads * instructions / elements
            times |= {unit: threads * instructions / (_rate(device, unit) * device.multiprocessors * device.clock)}
        slowest = max(times, key=times.__getitem__)
        total += times[slowest]
        if times[slowest] > longest:
            longest, limit = times[slowest], slowest
    share = _bytes(seen) / device.bandwidth / total
    float64 = sum((count.of_float64 for count in counts), Counter())
    return Prediction(recorded[0].name, device.name, share, limit, _bytes(seen) / elements, lanes, float64)


def _counts(recorded: list[Launch], sm: int) -> list[Counts]:
    target = GPUTarget("cuda", sm, WARP)
    return [counted(cubin_of(launch, target), launch.arguments, launch.programs) for launch in recorded]


def _rate(device: Device, unit: str) -> float:
    """Lanes per clock and multiprocessor; without a known unit, as many as can be issued."""
    return getattr(device.rates, {"load/store": "lanes"}.get(unit, unit), device.rates.issue)


def _tensors(launch: Launch) -> dict[int, Tensor]:
    return {id(value): value for value in launch.arguments.values() if isinstance(value, Tensor)}


def _bytes(tensors: Mapping[int, Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors.values())


if __name__ == "__main__":
    main()
