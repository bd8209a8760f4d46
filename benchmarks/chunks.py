"""Chunks of policies that are late, noisy and disagree, the motion that they mean, and how near to it a command is.

A policy means a smooth motion and sends chunks of it. Whatever executes them commands positions at 1 kHz on a simulated
clock, and knows neither the motion nor what comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

DOF, SECONDS = 7, 6.0
JUDGED_S = 1.5, 5.5
"""Begin and end, s, of the time that is judged: the robot moves, and the policy still sends."""
CYCLE_S = 1e-3
"""Time between commands, s."""
LIMITS = {"velocity": [2.5] * DOF, "acceleration": [15.0] * DOF, "jerk": [500.0] * DOF}
"""Limits, rad and s, of ways that keep some: at least three times what the motion needs."""


class Kind(NamedTuple):
    """A kind of policy."""

    period: float
    """Time between chunks, s."""
    delay: float
    """Time from observation to arrival, s."""
    jitter: float
    """Standard deviation of the arrival, s."""
    dt: float
    """Time between rows, s."""
    horizon: int
    """Number of rows of a chunk."""
    apart: float = 0.0
    """Standard deviation, rad, of the error that grows along a chunk; half as much is added to the whole chunk."""
    noise: float = 0.0
    """Standard deviation of a row, rad."""


KINDS = {
    "exact": Kind(0.2, 0.1, 0.01, 0.02, 50),
    "quiet": Kind(0.2, 0.1, 0.01, 0.02, 50, noise=5e-4),
    "rtc": Kind(0.2, 0.1, 0.01, 0.02, 50, apart=0.01),
    "noisy": Kind(0.2, 0.1, 0.01, 0.02, 50, apart=0.01, noise=2e-3),
    "act": Kind(0.5, 0.15, 0.02, 0.02, 50, apart=0.02, noise=1e-3),
    "diffusion": Kind(0.8, 0.3, 0.03, 0.1, 16, apart=0.02, noise=3e-3),
    "mpc": Kind(1 / 30, 0.02, 3e-3, 1 / 30, 20, apart=4e-3, noise=1e-3),
}
"""Kinds of policies: late chunks that are exact, noisy, disagree, or both; those of today's policies; and others."""


class Chunk(NamedTuple):
    """Rows `[horizon, DOF]` from one step after the time at which they were observed, s, and when they arrive, s."""

    observed: float
    arrives: float
    rows: np.ndarray

    def times(self, dt: float) -> np.ndarray:
        """Times that the rows are meant for, s, `[horizon]`."""
        return self.observed + dt * np.arange(1, len(self.rows) + 1)


class Stream(NamedTuple):
    """Everything that a way to command a robot is given."""

    dt: float
    """Time between rows, s."""
    chunks: list[Chunk]
    """Chunks in the order of their arrival."""
    start: np.ndarray
    """Position at which the robot rests at first, rad, `[DOF]`."""
    seconds: float = SECONDS
    limits: dict[str, list[float]] = LIMITS
    lag: float = 0.0
    """Time by which the joints are behind their commands, s."""

    def arrivals(self, step: float) -> Iterator[tuple[float, list[Chunk]]]:
        """Yield the times of a grid, s, with the chunks that have arrived since the time before."""
        waiting = list(reversed(self.chunks))
        for now in step * np.arange(np.ceil(round(self.seconds / step, 6))):
            arrived = []
            while waiting and waiting[-1].arrives <= now:
                arrived.append(waiting.pop())
            yield float(now), arrived


class Meant:
    """The motion that a policy means, a sum of sines."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._rates, self._phases = random.uniform(0.6, 2.5, (4, DOF)), random.uniform(0, 2 * np.pi, (4, DOF))
        self._sizes = random.uniform(0.05, 0.25, (4, DOF))

    def at(self, times: np.ndarray | float, order: int = 0) -> np.ndarray:
        """Return positions, or a derivative, at times, s: `[..., DOF]`."""
        angles = self._rates * np.asarray(times, float)[..., None, None] + self._phases
        return (self._sizes * self._rates**order * np.sin(angles + order * np.pi / 2)).sum(axis=-2)


def stream_of(kind: Kind, motion: Meant, seed: int) -> Stream:
    """Return the chunks of a policy of a kind."""
    random, share = np.random.default_rng([seed, 1]), np.linspace(0, 1, kind.horizon)[:, None]
    chunks = []
    for observed in np.arange(0.0, SECONDS, kind.period):
        rows = motion.at(observed + kind.dt * np.arange(1, kind.horizon + 1))
        rows = rows + kind.apart * (random.normal(size=DOF) / 2 + share * random.normal(size=DOF))
        rows += kind.noise * random.normal(size=rows.shape)
        chunks.append(Chunk(observed, observed + kind.delay + abs(random.normal()) * kind.jitter, rows))
    return Stream(kind.dt, sorted(chunks, key=lambda chunk: chunk.arrives), motion.at(0.0))


class Figures(NamedTuple):
    """Figures of commands relative to the meant motion; the last three are ratios to its own values."""

    distance: float
    """Root mean square of the distance at the same time, rad."""
    lag: float
    """Delay of the meant motion at which it is nearest to the command, s."""
    acceleration: float
    """Ratio of root mean squares."""
    peak: float
    """Ratio of the largest accelerations."""
    jerk: float
    """Ratio of root mean squares."""


def figures(commands: Sequence[np.ndarray], motions: Sequence[Meant]) -> Figures:
    """Return the figures of all commands, `[cycles, DOF]` for each motion, together."""
    positions, late = np.stack(commands), 0.0
    judged = slice(*(round(time / CYCLE_S) for time in JUDGED_S))
    times = CYCLE_S * np.arange(positions.shape[1])[judged]
    bends, jerks = (np.diff(positions, order, axis=1)[:, judged] / CYCLE_S**order for order in (2, 3))

    def meant(order: int, late: float = 0.0) -> np.ndarray:
        return np.stack([motion.at(times - late, order) for motion in motions])

    for _ in range(5):  # Gauss and Newton
        rates = meant(1, late)
        late -= float(((positions[:, judged] - meant(0, late)) * rates).sum() / (rates**2).sum())
    distance = _rms(positions[:, judged] - meant(0))
    largest = float(np.abs(bends).max() / np.abs(meant(2)).max())
    return Figures(distance, late, _rms(bends) / _rms(meant(2)), largest, _rms(jerks) / _rms(meant(3)))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
