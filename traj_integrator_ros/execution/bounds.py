"""Bounds of blends and stops: the limits of joints, or assumed values where there are none."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from .limits import Limits, extremes, forward, keeps
from .motion import Motion, State
from .tolerances import ROUNDING

SPARE = 1e-4
"""Share by which bounds of rates are widened, so that a plan that uses a limit completely counts as within it."""
_RAMP_S = 0.02
"""Shortest time, s, in which a gentle stop reaches its acceleration: the interval of blends."""
_OF_STOP = 0.98
"""Share of the acceleration that a gentle stop uses: the blend to a plan that ends beyond limits needs some room."""
_ENOUGH = 1.1
"""Factor on the least jerk that keeps a limit of velocity: the jerk of the plan takes some of it."""


@dataclass(frozen=True)
class Bounds(Limits):
    """Bounds of blends and stops: limits of which all are given; those of positions may be infinite."""

    most: np.ndarray | float = np.inf
    """Limits that were given, `[3, D]`: velocity, acceleration and jerk are never raised above them."""

    @property
    def stopping(self) -> np.ndarray:
        """Largest acceleration of a stop, `[D]`."""
        if self.deceleration is None:
            return self.acceleration
        return np.where(np.isfinite(self.deceleration), self.deceleration, self.acceleration)

    @property
    def either(self) -> np.ndarray:
        """Largest acceleration that is allowed both for speeding up and for slowing down, `[D]`."""
        return self.acceleration if self.deceleration is None else np.minimum(self.acceleration, self.deceleration)

    @property
    def rates(self) -> np.ndarray:
        """Largest velocity, acceleration (the value of `either`) and jerk, `[3, D]`."""
        return np.array([self.velocity, self.either, self.jerk])

    def steers(self, motion: Motion) -> np.ndarray:
        """Return the share of the allowed acceleration that joints use, `[D]`."""
        least, most = extremes(forward(motion, self.either))[:, 2]
        return np.maximum(most / self.acceleration, -least / self.stopping)

    def of(self, joint: int) -> Bounds:
        """Return the bounds of one joint, `[1]`."""
        parts = (getattr(self, field.name) for field in fields(self))
        return Bounds(*(part[..., joint : joint + 1] if isinstance(part, np.ndarray) else part for part in parts))

    @cached_property
    def gentle(self) -> Bounds:
        """Bounds of stops where there is room: with time for the jerk, and some acceleration left for a blend."""
        jerk = np.minimum(self.jerk, self.acceleration / _RAMP_S)
        return replace(self, acceleration=_OF_STOP * self.acceleration, jerk=jerk)

    @cached_property
    def wide(self) -> np.ndarray:
        """The bounds, `[2, 4, D]`, with what plans may exceed them."""
        wide = self.sides.copy()
        wide[:, 1:] *= 1 + SPARE
        return wide

    def stop_durations(self, velocity: np.ndarray) -> np.ndarray:
        """Return the time that each joint takes to stop from a constant velocity, s, `[D]`."""
        v, a, j = np.abs(velocity), self.stopping, self.jerk
        full, rise = v / a, a / j
        return np.where(full > rise, full + rise, 2 * np.sqrt(v / j))

    def kept_by(self, motion: Motion) -> np.ndarray:
        """Return which joints of a motion keep the bounds, bool `[D]`."""
        if keeps(motion, self.wide):
            kept = np.ones(motion.dof, bool)
        else:
            (least, most), (low, high) = extremes(motion), self.wide
            kept = ((least >= low) & (most <= high)).all(axis=0)
        if self.deceleration is not None and kept.any():
            kept &= self.steers(motion) <= 1 + SPARE
        return kept

    def raised_to(self, motion: Motion) -> Bounds:
        """Return bounds that are raised to what a motion uses, where they are only assumed."""
        if keeps(motion, self.sides):
            return self
        own = np.stack([self.velocity, self.acceleration, self.jerk])
        largest = np.abs(extremes(motion)).max(axis=0)[1:]
        velocity, acceleration, jerk = np.maximum(own, np.minimum(largest, self.most))
        return replace(self, velocity=velocity, acceleration=acceleration, jerk=jerk)

    def slowing(self, state: State) -> Bounds:
        """Return bounds whose jerk, where it is only assumed, ends an acceleration before the velocity is too large."""
        room, most = self.velocity - np.abs(state.velocity), np.broadcast_to(self.most, (3, len(self.jerk)))[2]
        speeds_up = np.maximum(state.acceleration * np.sign(state.velocity), 0.0)
        needed = np.where(room > 0, _ENOUGH * speeds_up**2 / (2 * np.maximum(room, ROUNDING)), 0.0)
        return replace(self, jerk=np.maximum(self.jerk, np.minimum(needed, most)))
