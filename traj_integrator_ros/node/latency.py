"""Percentiles of the last latencies."""

from __future__ import annotations

import numpy as np

_KEPT = 1000


class LatencyRing:
    """Keeps the last 1000 latencies and gives their percentiles."""

    def __init__(self) -> None:
        self._seconds = np.zeros(_KEPT)
        self._count = 0

    def add(self, seconds: float) -> None:
        """Add one latency, s."""
        self._seconds[self._count % _KEPT] = seconds
        self._count += 1

    def percentile_ms(self, percent: float) -> float | None:
        """Return a percentile of the stored latencies, ms; None if there are none."""
        if self._count == 0:
            return None
        return 1e3 * float(np.percentile(self._seconds[: min(self._count, _KEPT)], percent))
