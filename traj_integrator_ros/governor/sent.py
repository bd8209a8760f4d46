"""The controller's motion from now on, and the motions that were sent to it. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from .reference import PlannedMotion

_PASSES_NS = 50_000_000
"""Time between two positions that the command has passed, ns: no motion goes far in between."""
_MOST_PASSED = 40
"""Largest number of such positions."""


class NotYet(Exception):
    """No trajectory can be made yet, because the controller's motion is unknown.

    Args:
        until_ns: when the motion will be known, ns; 0 if that is unknown, too.

    """

    def __init__(self, until_ns: int = 0) -> None:
        super().__init__()
        self.until_ns = until_ns


class Present(NamedTuple):
    """The controller's motion from now on, as long as it gets no other one."""

    planned: PlannedMotion
    follows: bool
    """True if the controller executes a motion of this node; otherwise it rests."""
    known_from_ns: int
    """When the motion becomes certain, ns: later than now while the controller is on its way to the first point."""

    def require_known(self, now_ns: int) -> None:
        """Let nothing begin while the controller is on its way to the first point of a motion. Raises NotYet."""
        if self.follows and self.known_from_ns > now_ns:
            raise NotYet(self.known_from_ns)


class SentMotion(NamedTuple):
    """A published motion."""

    sent_ns: int
    planned: PlannedMotion
    """The command from the start of the motion on."""
    known_from_ns: int
    """When the command becomes certain, ns."""
    plan: PlannedMotion | None = None
    """The planned motion to which it leads; None if it is a stop."""
    is_known: bool = True
    """True if it was in execution until the next one began."""
    is_lost: bool = False
    """True if a report showed an earlier motion when this one was due: it is late, or was refused."""
    is_over: bool = False
    """True if only what was executed is left of it."""

    def until(self, following: SentMotion) -> SentMotion:
        """Return the part that was executed before the following motion began; whole motions would fill the memory."""
        plan, later = self.plan, following.plan
        if plan is not None and later is not None:
            plan = plan.ending(later.valid_from_ns)
        return self._replace(planned=self.planned.ending(following.planned.start_ns), plan=plan, is_over=True)

    def shifted(self, by_ns: int) -> SentMotion:
        """Return the same motion, executed later by a time, ns."""
        planned = self.planned._replace(start_ns=self.planned.start_ns + by_ns)
        plan = self.plan and self.plan._replace(start_ns=self.plan.start_ns + by_ns)
        return self._replace(planned=planned, plan=plan, known_from_ns=self.known_from_ns + by_ns)


def in_execution(sent: Iterable[SentMotion]) -> Callable[[int], PlannedMotion | None]:
    """Return a function, for any thread, of a time of motions, ns: the motion in execution then; None if unknown."""
    newest_first = tuple(reversed(tuple(sent)))

    def at(time_ns: int) -> PlannedMotion | None:
        for one in newest_first:
            if time_ns >= one.planned.start_ns and not one.is_lost:
                return one.planned if one.is_known else None
        return None

    return at


def passed_since(sent: Iterable[SentMotion], since_ns: int, until_ns: int) -> list[np.ndarray]:
    """Return positions, rad, `[dof]`, that the command passed between two times of its motions, ns."""
    step_ns, at = max((until_ns - since_ns) // _MOST_PASSED, _PASSES_NS), in_execution(sent)
    times_ns = [*range(since_ns, until_ns, step_ns), until_ns]
    return [one.state_at(time_ns).position for time_ns in times_ns if (one := at(time_ns)) is not None]
