"""The rest of a planned motion when it is taken up. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..execution.limits import extremes
from ..execution.motion import Motion
from ..execution.tolerances import MOMENT_S, NANOSECOND_S
from .reference import PlannedMotion

_RINGS, _RINGS_AT_KNOTS = 5e-3, 2e-4
"""Shares of a joint's range by which a spline may ring beyond a limit, between rows and where its end fades."""
_SWINGS = 3
"""Pieces in which a spline swings that does not know what was before its first row, or comes after its last."""


@dataclass(frozen=True)
class Remainder:
    """A planned motion from a time on; times are s from then."""

    planned: PlannedMotion
    join_ns: int

    @property
    def into(self) -> float:
        """How much of the planned motion is over; below 0: it begins later."""
        return (self.join_ns - self.planned.start_ns) * NANOSECOND_S

    @property
    def earliest(self) -> float:
        """From when on the motion is the plan's."""
        return max(self.planned.valid_from_ns - self.join_ns, 0) * NANOSECOND_S

    @cached_property
    def motion(self) -> Motion:
        """The rest; if the planned motion begins later, that is continued backwards until then."""
        rest = self.planned.rest_from(self.join_ns)
        return rest.begun_earlier(-self.into) if self.into < 0 else rest

    @cached_property
    def valid(self) -> Motion:
        """What of that is the plan's."""
        return rest_of(self.motion, self.earliest)

    @property
    def planned_until(self) -> float:
        """Until when it shows what the plan asks for itself, and not what its end makes of it."""
        knots = self.planned.motion.knots
        if self.motion.ends_at_rest:
            return self.motion.duration
        return knots[max(len(knots) - 1 - _SWINGS, 0)] - self.into

    @cached_property
    def own(self) -> Motion:
        """The part that shows how much the plan itself asks for; all that is the plan's, where there is none."""
        begin, end, knots = self.earliest, self.planned_until, self.planned.motion.knots
        if self.planned.valid_from_ns or self.planned.continues:
            begin = max(begin, knots[min(_SWINGS, len(knots) - 2)] - self.into)
        return rest_of(self.motion.until(end), begin) if end > begin + MOMENT_S else self.valid

    def moved(self, by: np.ndarray) -> Remainder:
        """The same, shifted by `[dof]`, rad."""
        return self._with(lambda motion: motion.moved(by))

    def inside(self, low: np.ndarray, high: np.ndarray) -> Remainder:
        """The same within positions `[dof]`, where its rows are, and what is between them is a little beyond.

        A spline that comes to rest at a limit rings by up to a thousandth of its way there: that joint goes that much
        less far. `low`, `high`: may be infinite.
        """
        least, most = extremes(self.valid)[:, 0]
        beyond = np.maximum(low - least, most - high)
        if not (beyond > 0).any():
            return self
        knots = np.vstack([self.valid.coefficients[:, 0], self.valid.end.position])
        knots_beyond = np.maximum(low - knots, knots - high).max(axis=0)
        size = np.where(np.isfinite(high - low), high - low, most - least)
        joints = (beyond > 0) & (beyond <= _RINGS * size) & (knots_beyond <= _RINGS_AT_KNOTS * size)
        span, lowest = most - least, np.clip(least, low, high)
        share = np.where(span > 0, (np.clip(most, low, high) - lowest) / np.where(span > 0, span, 1.0), 1.0)
        share = np.where(joints, share, 1.0)
        by = np.where(joints, lowest - share * least, 0.0)
        return self._with(lambda motion: motion.scaled(share).moved(by))

    def _with(self, change: Callable[[Motion], Motion]) -> Remainder:
        return Remainder(self.planned._replace(motion=change(self.planned.motion)), self.join_ns)


def rest_of(motion: Motion, time: float) -> Motion:
    """The motion from a time on, or its last moment."""
    last = max(motion.duration - MOMENT_S / 10, 0.9 * motion.duration)
    return motion if time <= 0 else motion.from_time(min(time, last))
