"""The motion published last, the plans behind it, and its state. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable

from ..execution.tolerances import NANOSECOND_S
from .executable import ExecutableTrajectory
from .executed import Executed, ExecutionReport
from .motion_clock import MotionClock
from .present import PresentCommand
from .reference import PlannedMotion
from .robot_clock import STEP_NS
from .supervision import Guard

_AT_ONCE_NS = 1_000_000
"""Longest time, ns, of writing a message without an interruption by other processes."""
_TRIES = 3
"""Number of times that an interrupted message is written: interruptions last milliseconds, and seldom come twice."""


class PublishedMotion:
    """The motion published last, the plans behind it, and statistics of their replacements."""

    def __init__(self) -> None:
        self.present = PresentCommand()
        self.clock = self.present.clock
        """The clocks of robot and node, and the time of motions, to which everything but stamps refers."""
        self.guard = Guard()
        self.executed = Executed()
        self.last: ExecutableTrajectory | None = None
        """The motion published last; None once it is unknown whether the controller executes it."""
        self.newest_origin_ns = 0
        """When the first step of the newest published plan began, ns; 0 if unknown."""

    @property
    def motion_clock(self) -> MotionClock:
        """The clock by which motions are executed."""
        return self.present.motion_clock

    def written(
        self, trajectory: ExecutableTrajectory, write: Callable[[ExecutableTrajectory], bytes], clock: Callable[[], int]
    ) -> tuple[ExecutableTrajectory, bytes]:
        """Return a trajectory and its message, which is written again if the command has moved meanwhile."""
        for _ in range(_TRIES):
            made_ns = clock()
            trajectory = self.timed(trajectory, made_ns)
            message = write(trajectory)
            if trajectory.stamp_ns or clock() - made_ns < _AT_ONCE_NS:
                break
        return trajectory, message

    def timed(self, trajectory: ExecutableTrajectory, now_ns: int) -> ExecutableTrajectory:
        """Return a trajectory that begins on arrival, cut to where the command will be then."""
        clock = self.motion_clock
        if trajectory.stamp_ns or not clock.is_scaled:
            return trajectory
        start_ns = min(clock.begins_ns(now_ns), trajectory.due_ns)
        return trajectory.begun_at(start_ns, now_ns) if start_ns > trajectory.start_ns else trajectory

    def record(self, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        """Record a trajectory that has just been published."""
        self.executed.take(trajectory, self.motion_clock.at(now_ns))
        if not trajectory.stamp_ns:
            self.motion_clock.begins(trajectory.made_ns, trajectory.start_ns)
        self.newest_origin_ns = max(self.newest_origin_ns, trajectory.origin_ns)
        commanded = PlannedMotion(trajectory.start_ns, trajectory.motion)
        self.present.published(commanded, trajectory.start_ns, now_ns, trajectory.planned)
        self.last = trajectory

    def report(self) -> ExecutionReport:
        """Return the statistics, and reset the values that refer to the time since the previous report."""
        return self.executed.report()

    def check_clock(self, now_ns: int) -> bool:
        """Return whether the last motion was published later than now: the clock has jumped back; then forget it."""
        if self.last is None or now_ns + STEP_NS >= self.present.sent[-1].sent_ns:
            return False
        self.clear()
        return True

    @property
    def is_delayed(self) -> bool:
        """Return whether the published motion was slowed, so that it is behind its plan."""
        return self.last is not None and self.last.delay > 0

    def is_moving(self, now_ns: int) -> bool:
        """Return whether the motion in execution is not over."""
        own = self.present.own(now_ns) if self.last is not None else None
        into_ns = 0 if own is None else self.motion_clock.at(now_ns) - own.planned.start_ns
        return own is not None and into_ns * NANOSECOND_S < own.planned.motion.duration

    def drop(self) -> None:
        """Forget the motion and its plans, because the controller does not execute them any more."""
        self.last = None
        self.newest_origin_ns = 0
        self.present.drop()
        self.guard.forget_command()
        self.executed.drop()

    def clear(self) -> None:
        """Forget everything about the robot."""
        self.drop()
        self.present.clear()
        self.guard = Guard(self.guard.held)  # Only a release ends a hold.
