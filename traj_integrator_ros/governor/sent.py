"""The controller's motion from now on, and the motions it was sent. Knows no ROS."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from .reference import PlannedMotion

_PASSES_NS, _MOST_PASSED = 50_000_000, 40
"""Time between places that were passed, between which no motion goes far; and their number."""


class NotYet(Exception):
    """A trajectory can be made only later, because the controller's motion is not known yet.

    Args:
        until_ns: when that will be known; 0: nobody knows.

    """

    def __init__(self, until_ns: int = 0) -> None:
        super().__init__()
        self.until_ns = until_ns


class Present(NamedTuple):
    """The controller's motion from now on, until it gets another one."""

    planned: PlannedMotion
    follows: bool
    """True if it executes a motion of this node; otherwise it rests."""
    known_from_ns: int
    """The planned motion is certain from here on: later than now while the controller bridges to its first point."""

    def require_known(self, now_ns: int) -> None:
        """Let nothing begin while the controller bridges to the first point of a motion. Raises NotYet."""
        if self.follows and self.known_from_ns > now_ns:
            raise NotYet(self.known_from_ns)


class SentMotion(NamedTuple):
    """A published motion."""

    sent_ns: int
    planned: PlannedMotion
    """The command from its start on."""
    known_from_ns: int
    """Time from which on it is certain."""
    plan: PlannedMotion | None = None
    """The planned motion that it leads to."""
    continues: bool = True
    """True if it continues a motion that was in execution."""
    is_known: bool = True
    """True if it was executed until the next one began."""
    is_lost: bool = False
    """True if a report showed an earlier one in execution when this one was due: it is late, or was refused."""

    def shifted(self, by_ns: int) -> SentMotion:
        """The same motion, executed that much later."""
        planned = self.planned._replace(start_ns=self.planned.start_ns + by_ns)
        plan = self.plan and self.plan._replace(start_ns=self.plan.start_ns + by_ns)
        return self._replace(planned=planned, plan=plan, known_from_ns=self.known_from_ns + by_ns)


def passed_since(sent: deque[SentMotion], since_ns: int, until_ns: int) -> list[np.ndarray]:
    """Positions `[dof]`, by times in motions, that the command has passed since the motion in execution began."""
    step_ns = max((until_ns - since_ns) // _MOST_PASSED, _PASSES_NS)
    places: list[np.ndarray] = []
    for one in reversed(sent):
        begin_ns = max(since_ns, one.planned.start_ns)
        times_ns = [*range(begin_ns, until_ns, step_ns), max(until_ns, begin_ns)]
        places += [one.planned.state_at(time_ns).position for time_ns in times_ns]
        until_ns = min(until_ns, begin_ns)
        if not one.continues or until_ns <= since_ns:
            break
    return places
