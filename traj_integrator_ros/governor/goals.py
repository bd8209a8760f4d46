"""Action goals: plans that are watched until the robot has reached their end, or missed it. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, SECOND_NS, whole_ns
from ..requests.goals import (
    Ended,
    Feedback,
    GoalFields,
    GoalTolerances,
    Result,
    ResultCode,
    exceeded,
    goal_tolerances,
    refused,
)
from ..requests.plan import GOALS, Plan, turned
from ..requests.rejection import Rejected, RejectionReason, shown_names
from .executable import ExecutableTrajectory
from .executor import Executor

_FEEDBACK_NS = SECOND_NS // 20
"""Period of feedback, ns: the same as joint_trajectory_controller's."""
_LATE_S = 1.0
"""Longest time, s, after the end of a goal's motion in which a joint state of that end arrives."""
_MISSED_S = 2.0
"""Time, s, after the end of a goal's motion at which the log says that the robot has not reached the goal."""


@dataclass
class _Goal:
    """A goal that waits or is in execution: a plan with tolerances."""

    handle: object
    tolerances: GoalTolerances
    plan: Plan | None = None
    """Its plan, once that is in execution."""
    is_canceled: bool = False
    told_ns: int = 0
    is_missed: bool = False
    """True once the log has said that the robot does not reach it."""


class Goals:
    """The goal in execution, and a newer one that waits to replace it.

    A goal is in execution as long as its plan is the one that was published last.

    Args:
        pipeline: makes trajectories, and knows what is executed and measured.
        finish: called with the handle of a goal and its result, once.
        tell: called with the handle of the goal in execution and its feedback.

    """

    def __init__(
        self,
        pipeline: Executor,
        finish: Callable[[object, Result], None],
        tell: Callable[[object, Feedback], None],
    ) -> None:
        self._pipeline, self._published = pipeline, pipeline.published
        self._finish, self._tell = finish, tell
        self._executed: _Goal | None = None
        self._waiting: _Goal | None = None

    @property
    def state(self) -> str:
        """Return the state: idle, waiting, executing or canceling."""
        if self._executed is None:
            return "idle" if self._waiting is None else "waiting"
        return "canceling" if self._executed.is_canceled else "executing"

    def begin(self, handle: object, fields: GoalFields, plan: Plan, now_ns: int) -> ExecutableTrajectory | None:
        """Check a goal and return the trajectory of its plan to publish; None if it waits, while an older one goes on.

        The plan's topic is GOALS, and its end the goal. Raises Rejected with the reason.
        """
        pipeline = self._pipeline
        tolerances = goal_tolerances(fields, pipeline.parameters)
        pipeline.joint_states.latest(now_ns, pipeline.parameters.state_timeout)  # The goal is judged by it.
        trajectory = pipeline.follow(plan, now_ns)
        self._end_withdrawn()
        self._waiting = _Goal(handle, tolerances)
        return trajectory

    def published(self, trajectory: ExecutableTrajectory) -> None:
        """Record that the trajectory of the waiting goal has been published."""
        self.abort(_superseded(GOALS))
        self._executed, self._waiting = self._waiting, None
        self._executed.plan = trajectory.plan

    def refuse(self, line: str, handle: object = None) -> None:
        """End the waiting goal, or the one with a handle if it was not even taken, for the reason in a line."""
        if self._waiting is not None and handle in (None, self._waiting.handle):
            handle, self._waiting = self._waiting.handle, None
        if handle is not None:
            self._finish(handle, refused(line))

    def abort(self, rejected: Rejected) -> None:
        """Abort the goal in execution for a reason, without stopping the robot."""
        self._end_withdrawn()
        if self._executed is None:
            return
        deviates = rejected.reason is RejectionReason.DEVIATION
        code = ResultCode.PATH_TOLERANCE_VIOLATED if deviates else ResultCode.INVALID_GOAL
        self._end(_CANCELED if self._executed.is_canceled else Result(Ended.ABORTED, code, str(rejected)))

    def has(self, handle: object) -> bool:
        """Return whether this goal waits or is in execution."""
        return any(goal is not None and goal.handle == handle for goal in (self._executed, self._waiting))

    def cancel(self, handle: object, now_ns: int) -> ExecutableTrajectory | None:
        """Cancel a goal; returns the fastest stop to publish if it is in execution."""
        if self._waiting is not None and self._waiting.handle == handle:
            self._pipeline.planner.withdraw()
            self._waiting.is_canceled = True
            return None
        self._executed.is_canceled = True
        return self.stop(now_ns)

    def stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the fastest stop of the goal in execution; None if there is no such goal, or nothing moves."""
        held = self._published.guard.held
        return None if self._executed is None else self._pipeline.planner.stop(now_ns, held)

    def look(self, now_ns: int) -> ExecutableTrajectory | None:
        """Check whether the goal is over; returns the stop to publish if the robot has left the goal's path.

        Called every few milliseconds.
        """
        self._end_withdrawn()
        goal, command, parameters = self._executed, self._published, self._pipeline.parameters
        if goal is None:
            return None
        if goal.is_canceled:
            if not command.guard.stopped_until_rest and not command.guard.stop_waits:
                self._end(_CANCELED)
            return None
        try:
            state = self._pipeline.joint_states.latest(now_ns, parameters.state_timeout)
            trajectory = self._trajectory(goal, now_ns)
        except Rejected as rejected:
            self.abort(rejected)
            return None
        # Each joint is compared with its command at its own time; with itself, where no command is known.
        actual, times_ns = State(state.position, state.velocity), np.minimum(state.stamps_ns, state.received_ns)
        known = {one: np.array((command.commanded(one) or actual).known) for one in set(times_ns.tolist())}
        desired = State(*np.stack([known[one][:, joint] for joint, one in enumerate(times_ns.tolist())], axis=1))
        error = self._error(desired, actual)
        at = command.motion_clock.at
        if now_ns - goal.told_ns >= _FEEDBACK_NS:
            goal.told_ns, newest_ns = now_ns, int(times_ns.max())
            into_s = max((at(newest_ns) - trajectory.start_ns) * NANOSECOND_S, 0.0)
            left_s = command.motion_clock.lasts_s(max(trajectory.motion.duration - into_s, 0.0))
            stamp_ns = command.clock.set_ns + newest_ns
            self._tell(goal.handle, Feedback(stamp_ns, into_s, left_s, desired, actual, error))
        end_ns = trajectory.start_ns + whole_ns(trajectory.motion.duration)
        since_end_ns = np.array([at(one) - end_ns for one in times_ns.tolist()])
        under_way = since_end_ns < 0
        path = State(*(under_way * part for part in error[:2]))
        if found := exceeded(path, goal.tolerances.path, parameters.joint_names, "its command"):
            stop = self.stop(now_ns)
            self._end(Result(Ended.ABORTED, ResultCode.PATH_TOLERANCE_VIOLATED, f"path_tolerance: {found}"))
            return stop
        if under_way.any():
            lacking = [parameters.joint_names[joint] for joint in np.flatnonzero(under_way)]
            found = f"expected joint states after the end of the trajectory, got none of {shown_names(lacking)}"
        else:
            missing = self._error(State(trajectory.motion.end.position, np.zeros_like(state.velocity)), actual)
            found = exceeded(missing, goal.tolerances.goal, parameters.joint_names, "the goal")
        late_s = max(int(since_end_ns.min()), at(now_ns) - end_ns - whole_ns(_LATE_S)) * NANOSECOND_S
        if not found:
            self._end(Result(Ended.SUCCEEDED, ResultCode.SUCCESSFUL, "the goal is reached"))
        elif late_s > goal.tolerances.goal_time:
            text = f"goal_tolerance: {found}, {goal.tolerances.goal_time:g} s after the end (goal_time_tolerance)"
            self._end(Result(Ended.ABORTED, ResultCode.GOAL_TOLERANCE_VIOLATED, text))
        elif late_s > _MISSED_S and not goal.is_missed:
            goal.is_missed = True
            text = f"goal: {found}, {late_s:.1f} s after the end; it stays in execution (constraints.goal_time)"
            self._pipeline.warn(Rejected(RejectionReason.DEVIATION, text))
        return None

    def _error(self, desired: State, actual: State) -> State:
        near = turned(actual.position, desired.position, self._pipeline.parameters.continuous)
        return State(desired.position - near, desired.velocity - actual.velocity)

    def _trajectory(self, goal: _Goal, now_ns: int) -> ExecutableTrajectory:
        """Return the trajectory that executes a goal. Raises Rejected with the reason if none does any more."""
        command, last = self._published, self._published.last
        command.guard.require_following()
        if last is None:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller does not execute the trajectory any more "
                f"({command.status(now_ns).value})",
            )
        if last.plan is not goal.plan:
            raise _superseded(last.topic)
        if command.heard.is_off(now_ns):
            raise command.heard.unavailable(now_ns)
        return last

    def _end_withdrawn(self) -> None:
        """End the goal that was canceled while it waited: later, because the request to cancel is answered first."""
        if self._waiting is not None and self._waiting.is_canceled:
            handle, self._waiting = self._waiting.handle, None
            self._finish(handle, _CANCELED)

    def _end(self, result: Result) -> None:
        goal, self._executed = self._executed, None
        self._finish(goal.handle, result)


def _superseded(topic: str) -> Rejected:
    came = {GOALS: "a newer goal came", "": "the robot was stopped for a newer one, or for lower limits"}
    return Rejected(RejectionReason.SUPERSEDED, f"goal: {came.get(topic, f'a newer trajectory came on ~/{topic}')}")


_CANCELED = Result(Ended.CANCELED, ResultCode.SUCCESSFUL, "canceled: the robot was stopped")
