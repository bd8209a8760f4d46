"""Interleaved timing: every round times each contender once, so that disturbances affect all of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

Sampler = Callable[[], float]
"""Does the work and returns the time of one call, s."""


class Timing(NamedTuple):
    """Time of one call."""

    median_us: float
    spread: float
    """Half the distance between the quartiles, as a fraction of the median."""
    p99_us: float
    worst_us: float


def interleaved(samplers: Sequence[Sampler], rounds: int) -> list[Timing]:
    """Take a sample of each contender in every round."""
    samples: list[list[float]] = [[] for _ in samplers]
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            for place in range(len(samplers)):
                i = (place + round_) % len(samplers)  # so that no contender always follows the same other one
                samples[i].append(samplers[i]())
    finally:
        gc.enable()
    return [_summary(values) for values in samples]


def repeated(run: Callable[[], object], sample_s: float, wait: Callable[[], None] = lambda: None) -> Sampler:
    """A sampler that repeats a call for about `sample_s` seconds; warms it up.

    `wait` waits for an asynchronous device at the end of a sample.
    """

    def sample(repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        wait()
        return (time.perf_counter() - start) / repeats

    fastest = min(sample(1) for _ in range(5))
    repeats = max(1, int(sample_s / max(fastest, 1e-9)))
    return lambda: sample(repeats)


def _summary(samples: list[float]) -> Timing:
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4)
    p99 = sorted(samples)[math.ceil(0.99 * len(samples)) - 1]
    return Timing(1e6 * median, (high - low) / 2 / median, 1e6 * p99, 1e6 * max(samples))
