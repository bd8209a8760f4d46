"""The runner of `device: auto` on a machine with a GPU: small calls on the CPU, large ones on the GPU, as measured.

A call on a device takes the time of the launch and the copies, however small it is; in that time the CPU computes some
hundred trajectories. The size from which on the device is faster depends on both, so it is measured once, forward and
backward, with calls like the first one.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from .call import Call, Ends, Runner
from .runners import is_out_of_memory

# Sizes that are measured, in numbers of trajectories, and calls of each: the first two prepare the device (`graphs`).
BATCHES = tuple(4**power for power in range(9))
PREPARED, TIMED = 2, 5
# Larger calls are not measured: results of 64 MB in float32.
MOST_NUMBERS = 1 << 24

Allocate = Callable[[tuple[int, ...]], Tensor]


class Crossover(NamedTuple):
    """Count of numbers in a call's trajectories from which the device is faster; 0: always, infinite: never."""

    forward: float
    vjp: float


class AutoRunner:
    """Computes each call on the CPU or on the device, whichever was faster at this size.

    Args:
        cpu: the CPU's runner.
        device: the device's.
        allocate: allocates memory for results on the host, to which both write.
        clock: s.

    """

    def __init__(
        self, cpu: Runner, device: Runner, allocate: Allocate, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.cpu = cpu
        self.device = device
        self.crossover: Crossover | None = None
        """None until it has been measured."""
        self._allocate = allocate
        self._clock = clock

    def run(self, call: Call) -> None:
        """Compute a call."""
        forward, vjp = self._measured(call)
        most = forward if call.upstream is None else vjp
        (self.cpu if numbers_of(call) < most else self.device).run(call)

    def is_for_cpu(self, numbers: int) -> bool:
        """Return whether trajectories of so many numbers, and their vjp, go to the CPU; False before measuring."""
        return self.crossover is not None and numbers < min(self.crossover)

    def release(self) -> None:
        """Free all memory on the device."""
        self.cpu.release()
        self.device.release()

    def _measured(self, call: Call) -> Crossover:
        if self.crossover is None:
            self.crossover = Crossover(*(self._first_won(call, is_forward=forward) for forward in (True, False)))
            self.device.release()  # memory that the trials write to
        return self.crossover

    def _first_won(self, like: Call, *, is_forward: bool) -> float:
        """Size from which on the device is faster: between its last loss and its first win."""
        lost = 0
        for batch in BATCHES:
            numbers = batch * numbers_of(like) // like.shape[0]
            if lost and numbers > MOST_NUMBERS:
                break
            try:
                call = self._trial(like, batch, is_forward=is_forward)
                wins = self._time(self.device, call) < self._time(self.cpu, call)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                break
            if wins:
                return math.sqrt(lost * numbers)
            lost = numbers
        return math.inf

    def _time(self, runner: Runner, call: Call) -> float:
        for _ in range(PREPARED):
            runner.run(call)
        times = []
        for _ in range(TIMED):
            begin = self._clock()
            runner.run(call)
            times.append(self._clock() - begin)
        return statistics.median(times)

    def _trial(self, like: Call, batch: int, *, is_forward: bool) -> Call:
        """Return a call like another one, but of `batch` trajectories that all begin in one row."""
        shape, row = (batch, *like.shape[1:]), (1, like.shape[2])
        trial = Call(like.kernel, shape, like.dt[:1], Ends((), None, 1))
        if is_forward:
            inputs = {"actions": self._zeros(shape), "start": Ends((self._zeros(row), None, None), None, 1)}
            results = [(4, *trial.output_shape)]
        else:
            inputs = {"upstream": (self._zeros(trial.output_shape),) * 4}
            results = [shape, row, row, row]
        return trial._replace(**inputs, results=tuple(map(self._allocate, results)))

    def _zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """Input in the dtype of the results, as callers usually give it."""
        return self._allocate(shape).zero_().numpy()


def numbers_of(call: Call) -> int:
    """Count the numbers in the trajectories of a call: the measure of its size."""
    return 4 * math.prod(call.output_shape)
