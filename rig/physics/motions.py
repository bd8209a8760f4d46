"""What a physical arm is meant to do: motions within its limits, and what sends them.

Programs beside this repository that play scenes of their own import this module and `loop`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from soak.streams.plans import Bounds

from .. import senders
from ..senders import Motion, plan_to, policy, share_of_way
from .loop import Loop

__all__ = ["bounds_of", "course", "plan_to", "policy", "ramp", "share_of_way", "warm", "within"]


def bounds_of(loop: Loop, share: float) -> Bounds:
    """Return a share of the limits of an arm."""
    arm = loop.robot.arm
    return Bounds(*(share * np.array(part, float) for part in (arm.velocity, arm.acceleration, arm.jerk)))


def within(loop: Loop, reach: float, margin: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest positions of a range around home, rad."""
    home, low, high = loop.robot.home, np.array(loop.robot.arm.low), np.array(loop.robot.arm.high)
    margin = np.minimum(margin, (high - low) / 4)
    return np.maximum(home - reach, low + margin), np.minimum(home + reach, high - margin)


def course(loop: Loop, seed: int, seconds: float, begin: float, share: float, reach: float = 0.6) -> Motion:
    """Return jerk-limited motions from place to place around home, with pauses."""
    return senders.course(seed, loop.place, *within(loop, reach), bounds_of(loop, share), begin, seconds)


def ramp(
    loop: Loop, joint: int, speed: float, goal: float, *, dt: float = 0.04, rows: int = 24, finger: float | None = None
) -> Callable[[], None]:
    """Return a function that sends rows of a joint, which accelerates within 0.4 s and goes on to a goal."""
    return senders.ramping(loop, speed, joint=joint, goal=goal, seconds=0.4, dt=dt, rows=rows, finger=finger)


def warm(loop: Loop) -> None:
    """Move slowly by 2 degrees and back, as people do first."""
    arm, x = loop.robot.arm, 0.05 * np.arange(1, 41)
    inward = np.where(loop.robot.start > (np.array(arm.high) + np.array(arm.low)) / 2, -0.03, 0.03)
    loop.sequence(loop.place + (share_of_way(x) - share_of_way(x - 1.0))[:, None] * inward, 0.05)
    loop.go(3.0)
