"""What joints may do where no plan says it: limits that were given, or are assumed, and raised to what a plan does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .extremes import extremes, forward, surely_keeps
from .motion import Motion
from .profiles import JointBounds

INSIDE = 1e-9
"""Share, or rad, by which bounds of stops are exceeded by rounding."""


@dataclass(frozen=True)
class Bounds:
    """What joints may do while they join a plan, `[D]`: rad, rad/s, rad/s^2, rad/s^3; positions may be infinite."""

    position_min: np.ndarray
    position_max: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    most: np.ndarray | float = np.inf
    """Velocity, acceleration and jerk above which they are never raised, `[3, D]`: limits that somebody gave."""
    deceleration: np.ndarray | None = None
    """Instead of `acceleration` for joints that slow down, never raised; None or infinite: the same."""

    @property
    def stopping(self) -> np.ndarray:
        """Largest acceleration of a stop, `[D]`."""
        if self.deceleration is None:
            return self.acceleration
        return np.where(np.isfinite(self.deceleration), self.deceleration, self.acceleration)

    @property
    def either(self) -> np.ndarray:
        """Largest acceleration that is allowed whether a joint speeds up or slows down, `[D]`."""
        return self.acceleration if self.deceleration is None else np.minimum(self.acceleration, self.deceleration)

    def steers(self, motion: Motion, joints: np.ndarray | slice = slice(None)) -> np.ndarray:
        """By how much the accelerations of some joints use what is allowed as they speed up or slow down, `[M]`."""
        least, most = extremes(forward(motion, self.either[joints]))[:, 2]
        return np.maximum(most / self.acceleration[joints], -least / self.stopping[joints])

    def of_joint(self, joint: int) -> JointBounds:
        """Those of one joint."""
        return JointBounds(
            float(self.position_min[joint]),
            float(self.position_max[joint]),
            float(self.velocity[joint]),
            float(self.either[joint]),
            float(self.jerk[joint]),
        )

    def most_of(self, order: int) -> np.ndarray:
        """The largest velocity (0), acceleration (1) or jerk (2) to which they are raised, `[D]`."""
        return np.full(len(self.jerk), np.inf) if np.isscalar(self.most) else self.most[order]

    def with_positions_of(self, other: Bounds) -> Bounds:
        """The same, with the positions of others."""
        if self is other:
            return self
        return replace(self, position_min=other.position_min, position_max=other.position_max)

    @cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest value of each derivative, whether joints speed up or slow down, `[4, D]`."""
        largest = np.stack([self.velocity, self.either, self.jerk])
        return np.vstack([self.position_min, -largest]), np.vstack([self.position_max, largest])

    @cached_property
    def of_stops(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest position and velocity of a stop; accelerations and jerks are infinite, `[4, D]`."""
        largest = np.full((3, len(self.jerk)), np.inf)
        largest[0] = np.maximum(self.velocity, self.most_of(0)) * (1 + INSIDE)
        return np.vstack([self.position_min - INSIDE, -largest]), np.vstack([self.position_max + INSIDE, largest])

    def demand_of(self, motion: Motion) -> float:
        """The largest velocity, acceleration or jerk of a motion, relative to these; 1 where it is surely no more."""
        return float(self.demands_of(motion).max())

    def demands_of(self, motion: Motion) -> np.ndarray:
        """The same of each joint, `[D]`."""
        if surely_keeps(motion, *self.sides):
            return np.ones(motion.dof)
        least, most = extremes(motion)
        largest = np.maximum(most[1:], -least[1:])
        demand = largest / np.stack([self.velocity, self.acceleration, self.jerk])
        if self.deceleration is not None:
            demand[1] = self.steers(motion)
        return demand.max(axis=0)

    def raised_to(self, motion: Motion, jerk_share: float = 1.0) -> Bounds:
        """Bounds that a motion keeps, up to a share of its jerk: raised where assumed ones are exceeded.

        Positions are widened.
        """
        if surely_keeps(motion, *self.sides):
            return self
        least, most = extremes(motion)
        own = np.stack([self.velocity, self.acceleration, self.jerk])
        largest = np.maximum(most[1:], -least[1:])
        largest[2] *= jerk_share
        velocity, acceleration, jerk = np.maximum(own, np.minimum(largest, self.most))
        low, high = np.minimum(self.position_min, least[0]), np.maximum(self.position_max, most[0])
        return Bounds(low, high, velocity, acceleration, jerk, self.most, self.deceleration)
