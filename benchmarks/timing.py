"""Interleaved timing: every round times each contender once, so that disturbances affect all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Timing:
    """Time of one call."""

    median_us: float
    spread: float
    """Half the distance between the quartiles, as a fraction of the median."""


def time_interleaved(
    runs: Sequence[Callable[[], object]], *, rounds: int, sample_s: float, synchronize: Callable[[], None] | None = None
) -> list[Timing]:
    """Time each of `runs` in `rounds` rounds; one sample repeats a call for about `sample_s` seconds.

    `synchronize` waits for an asynchronous device at the end of a sample.
    """
    wait = synchronize or (lambda: None)
    repeats = [_repeats(run, sample_s, wait) for run in runs]
    return _interleaved([partial(_sample, *pair, wait) for pair in zip(runs, repeats, strict=True)], rounds)


def clock_interleaved(clocks: Sequence[Callable[[], float]], *, rounds: int) -> list[Timing]:
    """Sample each of `clocks`, which return seconds measured by themselves, in `rounds` rounds, once in each."""
    return _interleaved([lambda clock=clock: clock() * 1e6 for clock in clocks], rounds)


def _interleaved(samplers: Sequence[Callable[[], float]], rounds: int) -> list[Timing]:
    """Samplers return microseconds."""
    samples: list[list[float]] = [[] for _ in samplers]
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            for place in range(len(samplers)):
                i = (place + round_) % len(samplers)  # so that no contender always follows the same other one
                samples[i].append(samplers[i]())
    finally:
        if was_enabled:
            gc.enable()
    return [_summary(values) for values in samples]


def _sample(run: Callable[[], object], repeats: int, wait: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    wait()
    return (time.perf_counter() - start) / repeats * 1e6


def _repeats(run: Callable[[], object], sample_s: float, wait: Callable[[], None]) -> int:
    """How often a call fits into one sample; also warms it up."""
    fastest = min(_sample(run, 1, wait) for _ in range(5)) / 1e6
    return max(1, int(sample_s / max(fastest, 1e-9)))


def _summary(samples: list[float]) -> Timing:
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4)
    return Timing(median, (high - low) / 2 / median)
