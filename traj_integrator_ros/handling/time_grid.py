"""The times of a trajectory's points, in the forms that messages need. Knows no ROS."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from .rejection import Rejected, RejectionReason

DT_MIN_S, DT_MAX_S = 1e-6, 1e4
"""Bounds of one time step: trajectories count whole nanoseconds, up to 2^31 seconds."""
LONGEST_NS = (2**31 - 1) * 1_000_000_000
"""Limit of a Duration message, whose seconds are int32."""
_NANOSECONDS = 1e9
_SINGLE_STEP_NS = 1_000_000  # after a single point, which has no step before it


class WholeTimes(NamedTuple):
    """Times of the points from the start on, in whole nanoseconds."""

    first: int
    """Index of the point at the start; with central differences there is a point before it."""
    time_ns: np.ndarray
    """ns, int64, increasing."""


class TimeGrid:
    """Times of the points of one trajectory, `[H]`, or of a batch of them, `[B, H]`.

    Derived values are computed once, because many trajectories share them; the arrays must not be changed.

    Args:
        time_s: s from the start state, float64.

    """

    def __init__(self, time_s: np.ndarray) -> None:
        self.time_s = time_s

    def row(self, index: int) -> TimeGrid:
        """Times of one trajectory."""
        return self if self.time_s.ndim == 1 else TimeGrid(self.time_s[index])

    @cached_property
    def float32(self) -> np.ndarray:
        """The times in float32, s."""
        return self.time_s.astype(np.float32)

    @cached_property
    def whole(self) -> WholeTimes:
        """The times of one trajectory in whole nanoseconds.

        Raises:
            Rejected: invalid_times, for steps shorter than a nanosecond or an end beyond 2^31 s.

        """
        first = int(np.argmax(self.time_s >= 0))
        seconds = self.time_s[first:]
        if not seconds[-1] * _NANOSECONDS < LONGEST_NS:
            raise Rejected(
                RejectionReason.INVALID_TIMES, f"dt: the trajectory ends after {seconds[-1]:g} s, beyond 2^31 s"
            )
        time_ns = np.rint(seconds * _NANOSECONDS).astype(np.int64)
        if (np.diff(time_ns) <= 0).any():
            raise Rejected(RejectionReason.INVALID_TIMES, "dt: expected steps of at least one nanosecond")
        time_ns.flags.writeable = False
        return WholeTimes(first, time_ns)

    @cached_property
    def whole_with_rest(self) -> np.ndarray:
        """`whole.time_ns` with one more step, as long as the last, for a point at rest.

        Raises:
            Rejected: as for `whole`.

        """
        time_ns = self.whole.time_ns
        step_ns = int(time_ns[-1] - time_ns[-2]) if len(time_ns) > 1 else _SINGLE_STEP_NS
        end_ns = int(time_ns[-1]) + step_ns
        if end_ns >= LONGEST_NS:
            raise Rejected(
                RejectionReason.INVALID_TIMES,
                f"dt: the trajectory comes to rest after {end_ns / _NANOSECONDS:g} s, beyond 2^31 s",
            )
        later = np.append(time_ns, end_ns)
        later.flags.writeable = False
        return later
