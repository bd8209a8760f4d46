"""The controller's motion from now on, and the motions it was sent. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

from .reference import PlannedMotion


class NotYet(Exception):
    """A trajectory can be made only later, because the controller's motion is not known yet.

    Args:
        until_ns: when that will be known; 0: nobody knows.
        is_sought: it is known, and the motion to the plan is being sought.

    """

    def __init__(self, until_ns: int = 0, *, is_sought: bool = False) -> None:
        super().__init__()
        self.until_ns, self.is_sought = until_ns, is_sought


class Present(NamedTuple):
    """The controller's motion from now on, until it gets another one."""

    planned: PlannedMotion
    follows: bool
    """Whether it executes a motion of this node; otherwise it rests."""
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
    """Whether it continues a motion that was in execution."""
    is_known: bool = True
    """Whether it was executed until the next one began."""

    def shifted(self, by_ns: int) -> SentMotion:
        """The same motion, executed that much later."""
        planned = self.planned._replace(start_ns=self.planned.start_ns + by_ns)
        plan = self.plan and self.plan._replace(start_ns=self.plan.start_ns + by_ns)
        return self._replace(planned=planned, plan=plan, known_from_ns=self.known_from_ns + by_ns)
