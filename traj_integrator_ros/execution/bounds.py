"""Bounds of blends and stops: the limits of joints, or assumed values where there are none."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from .limits import Limits, extremes, forward, keeps
from .motion import Motion
from .tolerances import ROUNDING


@dataclass(frozen=True)
class Bounds:
    """Bounds of blends and stops, `[D]`: rad, rad/s, rad/s^2, rad/s^3; those of positions may be infinite."""

    position_min: np.ndarray
    position_max: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    most: np.ndarray | float = np.inf
    """Limits that were given, `[3, D]`: velocity, acceleration and jerk are never raised above them."""
    deceleration: np.ndarray | None = None
    """Bound in place of `acceleration` for joints that slow down, never raised. None or infinite: `acceleration`."""

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

    def steers(self, motion: Motion, joints: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the share of the allowed acceleration that the chosen joints use, `[M]`."""
        least, most = extremes(forward(motion, self.either[joints]))[:, 2]
        return np.maximum(most / self.acceleration[joints], -least / self.stopping[joints])

    def of(self, joint: int) -> Bounds:
        """Return the bounds of one joint, `[1]`."""
        parts = (getattr(self, field.name) for field in fields(self))
        return Bounds(*(part[..., joint : joint + 1] if isinstance(part, np.ndarray) else part for part in parts))

    @cached_property
    def sides(self) -> np.ndarray:
        """Least and greatest value of each derivative, for speeding up and slowing down alike, `[2, 4, D]`."""
        return _ranges(self.position_min, self.position_max, self.rates)

    @cached_property
    def of_stops(self) -> np.ndarray:
        """Least and greatest position and velocity of a stop; accelerations and jerks are infinite, `[2, 4, D]`."""
        largest = np.full((3, len(self.jerk)), np.inf)
        largest[0] = np.maximum(self.velocity, np.broadcast_to(self.most, largest.shape)[0]) * (1 + ROUNDING)
        return _ranges(self.position_min - ROUNDING, self.position_max + ROUNDING, largest)

    def stop_durations(self, velocity: np.ndarray) -> np.ndarray:
        """Return the time that each joint takes to stop from a constant velocity, s, `[D]`."""
        v, a, j = np.abs(velocity), self.stopping, self.jerk
        full, rise = v / a, a / j
        return np.where(full > rise, full + rise, 2 * np.sqrt(v / j))

    def demands_of(self, motion: Motion) -> np.ndarray:
        """Return the largest ratio of velocity, acceleration or jerk to its bound, `[D]`, but at least 1."""
        if keeps(motion, self.sides):
            return np.ones(motion.dof)
        least, most = extremes(motion)
        largest = np.maximum(most[1:], -least[1:])
        demand = largest / np.stack([self.velocity, self.acceleration, self.jerk])
        if self.deceleration is not None:
            demand[1] = self.steers(motion)
        return demand.max(axis=0)

    def raised_to(self, motion: Motion, jerk_share: float = 1.0) -> Bounds:
        """Return bounds that are raised to what a motion uses (a share of its jerk), where they are only assumed."""
        shares = np.array([[1.0], [1.0], [1.0], [jerk_share]])
        if keeps(motion, self.sides if jerk_share == 1.0 else self.sides / shares):
            return self
        least, most = extremes(motion)[:, 1:]
        largest = np.maximum(most, -least) * shares[1:]
        own = np.stack([self.velocity, self.acceleration, self.jerk])
        velocity, acceleration, jerk = np.maximum(own, np.minimum(largest, self.most))
        return replace(self, velocity=velocity, acceleration=acceleration, jerk=jerk)

    def within(self, limits: Limits) -> Bounds:
        """Return the same bounds with positions widened to those that limits allow."""
        low, high = limits.position_min, limits.position_max
        same = (low is None or (low >= self.position_min).all()) and (high is None or (high <= self.position_max).all())
        if same:
            return self
        return replace(
            self,
            position_min=self.position_min if low is None else np.minimum(self.position_min, low),
            position_max=self.position_max if high is None else np.maximum(self.position_max, high),
        )

    def containing(self, motion: Motion) -> Bounds:
        """Return the same bounds with positions widened to those of a motion."""
        if keeps(motion, _ranges(self.position_min, self.position_max, np.full((3, motion.dof), np.inf))):
            return self
        least, most = extremes(motion)[:, 0]
        low, high = np.minimum(self.position_min, least), np.maximum(self.position_max, most)
        return replace(self, position_min=low, position_max=high)


def _ranges(position_min: np.ndarray, position_max: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return least and greatest values, `[2, 4, D]`, from those of positions and the largest rates, `[3, D]`."""
    ranges = np.empty((2, 4, len(position_min)))
    ranges[0, 0], ranges[0, 1:] = position_min, -largest
    ranges[1, 0], ranges[1, 1:] = position_max, largest
    return ranges
