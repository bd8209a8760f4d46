"""What grippers do: follow their command, hold an object, or not move at all. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import SECOND_NS

_STANDS_NS = 3 * SECOND_NS // 10
"""Time, ns, for which a gripper stands before it counts as held back: longer than any lag."""
_STOOD_NS = SECOND_NS // 2
"""Time, ns, for which the command of a gripper stands before it counts as resting."""
_MOVES = 0.2
"""Distance, as a share of the distance from which on a gripper counts as held back, that counts as motion: 1 % of its
range. Encoders, play and the noise of actions stay below it.
"""


class Grip(NamedTuple):
    """A gripper that something holds back, or that does not move."""

    joint: int
    position: float
    """Where it stands, rad or m."""
    commanded: float
    """Where its command is, rad or m."""
    moves: bool
    """Whether it has moved with its command until it was held back: it has grasped something. Otherwise it is dead, or
    its fingers were at an object before.
    """

    def told(self, joint_names: Sequence[str]) -> str:
        """Return the joint, where it stands, and where it is commanded to be."""
        position, commanded = (round(place, 4) + 0.0 for place in (self.position, self.commanded))
        return f"{joint_names[self.joint]} at {position:g}, commanded to {commanded:g}"


class Grips:
    """Compares grippers with their commands. Nothing that it finds stops the robot.

    A gripper that stands away from its command is held back. An object does that on one side only, in the direction in
    which the gripper moved last. A gripper counts as one that does not move if it stands still although its command has
    left a place of rest beside it in the other direction, or has been on both of its sides.
    """

    def __init__(self) -> None:
        self.held: tuple[Grip, ...] = ()
        """The grippers that are held back, or do not move."""
        self._place = np.zeros(0)

    def take(self, position: np.ndarray, commanded: np.ndarray, stamp_ns: int, grip: np.ndarray) -> None:
        """Compare positions with commands `[dof]`, rad or m; `grip` is the distance of `Allowance`."""
        if not np.isfinite(grip).any():
            self.held = ()
            return
        if len(self._place) != len(position):
            self._place, self._led = position, commanded
            self._stands_ns, self._led_ns = np.full((2, len(position)), stamp_ns)
            self._way, self._held_at = np.zeros(len(position)), np.full(len(position), np.nan)
            self._rested, self._above, self._below = np.array([[True], [False], [False]]) & np.isfinite(grip)
        moved = np.abs(position - self._place) > _MOVES * grip
        led = np.abs(commanded - self._led) > _MOVES * grip
        stood = (np.abs(self._led - self._place) <= grip) & (stamp_ns - self._led_ns >= _STOOD_NS)
        self._way = np.where(moved, np.sign(position - self._place), self._way)
        self._place, self._led = np.where(moved, position, self._place), np.where(led, commanded, self._led)
        self._stands_ns, self._led_ns = (
            np.where(changed, stamp_ns, since) for changed, since in ((moved, self._stands_ns), (led, self._led_ns))
        )
        ahead = commanded - self._place
        self._rested = (self._rested | stood) & ~moved
        self._above, self._below = (self._above | (ahead > grip)) & ~moved, (self._below | (ahead < -grip)) & ~moved
        # An object gives way a little under the press: a gripper that is held back may creep on.
        stands = (stamp_ns - self._stands_ns >= _STANDS_NS) | (np.abs(position - self._held_at) <= grip)
        is_held = (np.abs(ahead) > grip) & stands
        self._held_at = np.where(is_held, np.where(np.isnan(self._held_at), position, self._held_at), np.nan)
        dead = (self._rested & (self._way * ahead <= 0)) | (self._above & self._below)
        self.held = tuple(
            Grip(joint, float(position[joint]), float(commanded[joint]), moves=not dead[joint])
            for joint in np.flatnonzero(is_held).tolist()
        )
