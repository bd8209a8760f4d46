"""Overlapping chunks of a policy, averaged where several of them say where the robot should be. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..execution.ensemble import ensemble
from ..execution.motion import Motion, resting
from ..execution.spline import cubic_spline
from .plan import Plan

_MOST_CHUNKS = 128
"""More than ACT's largest: chunks of 100 actions, one with each action."""
_SAME_TIME_NS = 1_000
_MOMENT_S = 1e-6


@dataclass(frozen=True)
class Weighing:
    """How chunks that cover the same time are weighed: the i-th by exp(-decay i)."""

    decay: float
    """m of ACT."""
    newest_first: bool
    """Whether i counts from the newest observation; else from the oldest."""


@dataclass(frozen=True)
class _Remembered:
    """A chunk of positions by the times, ns of the node's clock, that its rows are for."""

    origin_ns: int
    first_ns: int
    last_ns: int
    positions: Motion
    """Through the rows, from the first of them on: what it says between them."""

    def at(self, times_ns: np.ndarray) -> np.ndarray:
        """Positions `[N, dof]` at times `[N]`; NaN before its first row and after its last."""
        found = self.positions.states_at((times_ns - self.first_ns) * 1e-9)[0]
        found[(times_ns < self.first_ns - _SAME_TIME_NS) | (times_ns > self.last_ns + _SAME_TIME_NS)] = np.nan
        return found


class ChunkMemory:
    """The chunks of positions that were published and are not over, by the time of their observation."""

    def __init__(self) -> None:
        self._chunks: list[_Remembered] = []
        self._most_averaged = 0
        self.forgotten = 0
        """Chunks that were not over when something else took over from them, or when there were too many."""

    def averaged(self, chunk: Plan, weighing: Weighing) -> Plan:
        """The chunk with each position averaged with those that chunks in memory have for the same time.

        Steps may differ: between the rows of a chunk its spline counts. A chunk with the same origin is left out, for
        `chunk` takes its place. Ranks go by origin, not by arrival. A start that the chunk brings is its own and not
        where the average was, so an average has none.

        Args:
            chunk: positions with an origin.
            weighing: of those that cover a time.

        """
        times_ns = _row_times(chunk)
        others = [other for other in self._chunks if other.origin_ns != chunk.origin_ns]
        older = sum(other.origin_ns < chunk.origin_ns for other in others)
        positions = [other.at(times_ns) for other in others]
        positions.insert(older, chunk.actions)
        covering = (~np.isnan([rows[:, 0] for rows in positions])).sum(axis=0)
        self._most_averaged = max(self._most_averaged, int(covering.max()))
        if covering.max() == 1:
            return chunk
        averaged = ensemble(positions, weighing.decay, newest_first=weighing.newest_first)
        return replace(chunk, actions=averaged, start=None)

    def take(self, chunk: Plan | None, now_ns: int) -> None:
        """Remember a chunk that was published, as the policy sent it; None: something else was, so forget them all."""
        running = [other for other in self._chunks if other.last_ns > now_ns]
        if chunk is None:
            self._chunks = []
            self.forgotten += len(running)
            return
        running = [other for other in running if other.origin_ns != chunk.origin_ns] + [_remembered(chunk)]
        running.sort(key=lambda other: other.origin_ns)
        self.forgotten += max(0, len(running) - _MOST_CHUNKS)
        self._chunks = running[-_MOST_CHUNKS:]

    def most_averaged(self) -> int:
        """Most chunks that were averaged for one time since this was asked last."""
        most, self._most_averaged = self._most_averaged, 0
        return most

    def clear(self) -> None:
        """Forget all chunks, because the robot no longer executes any."""
        self._chunks = []


def _row_times(chunk: Plan) -> np.ndarray:
    return chunk.origin_ns + np.rint(chunk.ends * 1e9).astype(np.int64)


def _remembered(chunk: Plan) -> _Remembered:
    times_ns = _row_times(chunk)
    several = len(chunk.steps) > 1
    positions = cubic_spline(chunk.steps[1:], chunk.actions) if several else resting(chunk.actions[0], _MOMENT_S)
    return _Remembered(chunk.origin_ns, int(times_ns[0]), int(times_ns[-1]), positions)
