"""The runner of `device: auto` on a machine with a GPU: small calls on the CPU, large ones on the GPU, as measured.

A call on a device takes the time of the launch and the copies, however small it is; in that time the CPU computes some
hundred trajectories. The size from which on the device is faster depends on both, so it is measured once, forward and
backward, with calls like the first one.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..kernels import ControlMap
from .types import is_out_of_memory
from .work import ForwardWork, Runner, VjpWork

# Numbers of trajectories that are measured, and calls of each size: the first two prepare the device (`graphs`).
BATCHES = tuple(4**power for power in range(9))
PREPARED, TIMED = 2, 5
# Larger calls are not measured: results of 64 MB in float32.
MOST_NUMBERS = 1 << 24

Allocate = Callable[[tuple[int, ...]], Tensor]
Work = ForwardWork | VjpWork


class Crossover(NamedTuple):
    """Numbers in a batch of trajectories from which on the device is faster; 0: always, infinite: never."""

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

    def forward(self, work: ForwardWork) -> None:
        """Integrate."""
        crossover = self._measured(work.kernel, work.actions.shape, work.dt)
        runner = self.cpu if numbers_of(work.kernel, work.actions.shape) < crossover.forward else self.device
        runner.forward(work)

    def vjp(self, work: VjpWork) -> None:
        """Pull back."""
        crossover = self._measured(work.kernel, work.action.shape, work.dt)
        runner = self.cpu if numbers_of(work.kernel, work.action.shape) < crossover.vjp else self.device
        runner.vjp(work)

    def is_for_cpu(self, numbers: int) -> bool:
        """Whether trajectories of so many numbers, and their vjp, go to the CPU; False before it is measured."""
        return self.crossover is not None and numbers < min(self.crossover)

    def release(self) -> None:
        """Free all memory on the device."""
        self.cpu.release()
        self.device.release()

    def _measured(self, kernel: ControlMap, shape: Sequence[int], dt: np.ndarray) -> Crossover:
        if self.crossover is None:
            _, horizon, dof = shape
            each = numbers_of(kernel, (1, horizon, dof))
            trials = _Trials(kernel, horizon, dof, dt[:1], self._allocate)
            self.crossover = Crossover(
                self._first_won(each, trials.forward, lambda runner: runner.forward),
                self._first_won(each, trials.vjp, lambda runner: runner.vjp),
            )
            self.device.release()  # memory of the trials
        return self.crossover

    def _first_won(
        self, each: int, make: Callable[[int], Work], method: Callable[[Runner], Callable[[Work], None]]
    ) -> float:
        """Size from which on the device is faster: between the last it loses at and the first that it wins at."""
        lost = 0
        for batch in BATCHES:
            numbers = batch * each
            if lost and numbers > MOST_NUMBERS:
                break
            try:
                work = make(batch)
                wins = self._time(method(self.device), work) < self._time(method(self.cpu), work)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                break
            if wins:
                return math.sqrt(lost * numbers)
            lost = numbers
        return math.inf

    def _time(self, run: Callable[[Work], None], work: Work) -> float:
        for _ in range(PREPARED):
            run(work)
        times = []
        for _ in range(TIMED):
            begin = self._clock()
            run(work)
            times.append(self._clock() - begin)
        return statistics.median(times)


class _Trials(NamedTuple):
    """The calls that are measured."""

    kernel: ControlMap
    horizon: int
    dof: int
    dt: np.ndarray
    allocate: Allocate

    def forward(self, batch: int) -> ForwardWork:
        start, actions = self._zeros(1, self.dof), self._zeros(batch, self.horizon, self.dof)
        out = self.allocate((4, batch, self.kernel.output_horizon(self.horizon), self.dof))
        return ForwardWork(self.kernel, actions, (start, None, None), None, self.dt, out)

    def vjp(self, batch: int) -> VjpWork:
        upstream = self._zeros(batch, self.kernel.output_horizon(self.horizon), self.dof)
        start = tuple(self.allocate((1, self.dof)) for _ in range(3))
        action = self.allocate((batch, self.horizon, self.dof))
        return VjpWork(self.kernel, (upstream,) * 4, None, self.dt, action, start)

    def _zeros(self, *shape: int) -> np.ndarray:
        """Input in the dtype of the results, as it usually is."""
        return np.zeros(shape, self.allocate((1,)).numpy().dtype)


def numbers_of(kernel: ControlMap, action_shape: Sequence[int]) -> int:
    """Numbers in the trajectories of actions `[B, Ha, dof]`, as the measure of a call's size."""
    batch, horizon, dof = action_shape
    return 4 * batch * kernel.output_horizon(horizon) * dof
