"""Overlapping chunks of positions, averaged. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..execution.motion import SHORTEST_GAP, Motion, resting
from ..execution.rows import cubic_spline
from ..execution.tolerances import NANOSECOND_S, SECOND_NS, whole_ns
from ..requests.plan import Plan

_MOST_CHUNKS = 128
"""Most chunks that are remembered; ACT needs fewer: chunks of 100 actions, one with each action."""
_SAME_TIME_NS = whole_ns(SHORTEST_GAP)


@dataclass(frozen=True)
class _Remembered:
    """A chunk of positions with the times of its rows, in ns of the node's clock."""

    origin_ns: int
    first_ns: int
    last_ns: int
    positions: Motion
    """The spline through the rows, from the first one on, for times between them."""

    def at(self, times_ns: np.ndarray) -> np.ndarray:
        """Positions `[N, dof]` at times `[N]`; NaN before its first row and after its last."""
        found = self.positions.states_at((times_ns - self.first_ns) * NANOSECOND_S)[0]
        found[(times_ns < self.first_ns - _SAME_TIME_NS) | (times_ns > self.last_ns + _SAME_TIME_NS)] = np.nan
        return found


class ChunkMemory:
    """Published chunks of positions that are not over, in the order of their observations."""

    def __init__(self) -> None:
        self.held: list[_Remembered] = []
        """Remembered chunks."""
        self._most_averaged = 0
        self.forgotten = 0
        """Number of chunks that were not over when another motion replaced them, or when there were too many."""

    def averaged(self, chunk: Plan, decay: float, *, newest_first: bool) -> Plan:
        """Return the chunk with each position averaged with remembered chunks' for the same time.

        Steps may differ: between the rows of a chunk its spline is evaluated. A remembered chunk with the same origin
        is left out, because `chunk` replaces it. Chunks are ranked by origin, not by arrival. The start of a chunk is
        where that chunk begins, not where the average was, so an average has no start.

        Args:
            chunk: positions with an origin.
            decay: see `ensemble`, as for `newest_first`.
            newest_first: whether weights count from the newest observation; otherwise from the oldest.

        """
        times_ns = _row_times(chunk)
        others = [other for other in self.held if other.origin_ns != chunk.origin_ns]
        older = sum(other.origin_ns < chunk.origin_ns for other in others)
        positions = [other.at(times_ns) for other in others]
        positions.insert(older, chunk.actions)
        covering = (~np.isnan([rows[:, 0] for rows in positions])).sum(axis=0)
        self._most_averaged = max(self._most_averaged, int(covering.max()))
        if covering.max() == 1:
            return chunk
        averaged = ensemble(positions, decay, newest_first=newest_first)
        return replace(chunk, actions=averaged, start=None)

    def take(self, chunk: Plan | None, now_ns: int) -> None:
        """Remember a published chunk as the policy sent it; None: another motion was published, so forget all."""
        running = [other for other in self.held if other.last_ns > now_ns]
        if chunk is None:
            self.held = []
            self.forgotten += len(running)
            return
        running = [other for other in running if other.origin_ns != chunk.origin_ns] + [_remembered(chunk)]
        running.sort(key=lambda other: other.origin_ns)
        self.forgotten += max(0, len(running) - _MOST_CHUNKS)
        self.held = running[-_MOST_CHUNKS:]

    def most_averaged(self) -> int:
        """Return the largest number of chunks averaged for one time since the last call."""
        most, self._most_averaged = self._most_averaged, 0
        return most

    def clear(self) -> None:
        """Forget all chunks, because the robot no longer executes any."""
        self.held = []


def _row_times(chunk: Plan) -> np.ndarray:
    return chunk.origin_ns + np.rint(chunk.ends * SECOND_NS).astype(np.int64)


def _remembered(chunk: Plan) -> _Remembered:
    times_ns = _row_times(chunk)
    several = len(chunk.steps) > 1
    positions = cubic_spline(chunk.steps[1:], chunk.actions) if several else resting(chunk.actions[0], SHORTEST_GAP)
    return _Remembered(chunk.origin_ns, int(times_ns[0]), int(times_ns[-1]), positions)


def ensemble(chunks: Sequence[np.ndarray], decay: float, *, newest_first: bool = False) -> np.ndarray:
    """Average positions of chunks at the same times, with weights exp(-decay i).

    Args:
        chunks: from the oldest to the newest, `[N, D]` each, NaN where a chunk does not cover the time; the newest
            covers all times.
        decay: m of ACT, where i counts the chunks that cover the time from the oldest; 0: equal weights.
        newest_first: whether i counts from the newest instead.

    Returns:
        `[N, D]`.

    """
    stacked = np.stack(chunks)
    covers = ~np.isnan(stacked[:, :, 0])
    order = np.flip(covers, 0).cumsum(0) if newest_first else covers.cumsum(0)
    rank = (np.flip(order, 0) if newest_first else order) - 1
    weights = np.where(covers, np.exp(-decay * rank), 0.0)
    weights /= weights.sum(axis=0)
    return np.einsum("cn,cnd->nd", weights, np.where(covers[:, :, None], stacked, 0.0))
