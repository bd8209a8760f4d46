"""Action goals: plans that are watched until the robot has reached their end, or missed it. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, SECOND_NS, whole_ns
from ..requests.goal_results import Ended, Feedback, GoalFields, Result, ResultCode, refused
from ..requests.goal_tolerances import GoalTolerances, Tolerance, goal_tolerances
from ..requests.plan import GOALS, Plan, turned
from ..requests.rejection import Rejected, RejectionReason, shown_names
from .executable import ExecutableTrajectory
from .executor import Executor
from .measured import commanded_to_each

_FEEDBACK_NS = SECOND_NS // 20
"""Period of feedback, ns: the same as joint_trajectory_controller's."""
_LATE_S = 1.0
"""Longest time, s, after the end of a goal's motion in which a joint state of that end arrives."""
_MISSED_S = 2.0
"""Time, s, after the end of a goal's motion at which the log says that the robot has not reached the goal."""


@dataclass
class _Goal:
    """A goal that waits or is in execution."""

    handle: object
    tolerances: GoalTolerances
    target: np.ndarray
    """End of its plan, rad, `[dof]`; NaN for joints that it leaves out."""
    trajectory: ExecutableTrajectory | None = None
    """Trajectory that executes it; None while the goal waits."""
    is_canceled: bool = False
    told_ns: int = 0
    is_missed: bool = False
    """True once the log has said that the robot does not reach it."""


class Goals:
    """The goal in execution, and a newer one that waits to replace it.

    A goal is in execution as long as its trajectory is the one that was published last.

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

    def begin(
        self, handle: object, fields: GoalFields, planned: Callable[[], Plan], clock: Callable[[], int]
    ) -> ExecutableTrajectory | None:
        """Check a goal and return its trajectory to publish; None if it has to wait, while an older goal goes on.

        Args:
            handle: of the goal.
            fields: the goal.
            planned: returns the goal's plan, whose topic is GOALS and whose end is the goal.
            clock: reads the node's clock.

        Raises:
            Rejected: with the reason.

        """
        parameters = self._pipeline.parameters
        if fields.has_multi_dof:
            raise Rejected(
                RejectionReason.JOINT_COUNT,
                "multi_dof_trajectory: expected none, and no component tolerances, since the node's joints have one "
                "degree of freedom each, got some",
            )
        tolerances = goal_tolerances(fields.path_tolerance, fields.goal_tolerance, fields.goal_time, parameters)
        self._require_states(clock())
        plan = planned()
        trajectory = self._pipeline.follow(plan, clock())
        self._end_withdrawn()
        self._waiting = _Goal(handle, tolerances, plan.actions[-1])
        return trajectory

    def published(self, trajectory: ExecutableTrajectory) -> None:
        """Record that the trajectory of the waiting goal has been published."""
        self.abort(_superseded(GOALS))
        self._executed, self._waiting = self._waiting, None
        self._executed.trajectory = trajectory

    def refuse_waiting(self, rejected: Rejected) -> None:
        """End the waiting goal, which was refused."""
        if self._waiting is not None:
            handle, self._waiting = self._waiting.handle, None
            self._finish(handle, refused(str(rejected)))

    def forget(self, handle: object) -> None:
        """Forget a waiting goal without a result."""
        if self._waiting is not None and self._waiting.handle == handle:
            self._waiting = None

    def abort(self, rejected: Rejected) -> None:
        """Abort the goal in execution for a reason, without stopping the robot."""
        self._end_withdrawn()
        if self._executed is None:
            return
        if self._executed.is_canceled:
            self._end(_CANCELED)
            return
        deviates = rejected.reason is RejectionReason.DEVIATION
        code = ResultCode.PATH_TOLERANCE_VIOLATED if deviates else ResultCode.INVALID_GOAL
        self._end(Result(Ended.ABORTED, code, str(rejected)))

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
        return self._stop(now_ns)

    def look(self, now_ns: int) -> ExecutableTrajectory | None:
        """Check whether the goal is over; returns the stop to publish if the robot has left the goal's path.

        Called every few milliseconds.
        """
        self._end_withdrawn()
        goal = self._executed
        if goal is None:
            return None
        guard = self._published.guard
        if goal.is_canceled:
            if not guard.stopped_until_rest and not guard.stop_waits:
                self._end(_CANCELED)
            else:
                self._feed_back(goal, now_ns)
            return None
        try:
            self._require_executed(goal, now_ns)
        except Rejected as rejected:
            self.abort(rejected)
            return None
        self._feed_back(goal, now_ns)
        return self._judge(goal, now_ns)

    def stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the fastest stop of the goal in execution; None if there is no such goal, or nothing moves."""
        return None if self._executed is None else self._stop(now_ns)

    # Measurements decide

    def _judge(self, goal: _Goal, now_ns: int) -> ExecutableTrajectory | None:
        """End a goal that the joints have reached, missed or left, as measured last; returns the stop if they left."""
        actual, stamps_ns = self._measured(now_ns)
        at = self._published.motion_clock.at
        measured_ns = self._published.motion_clock.at_times(stamps_ns)
        executed = self._published.present.own(now_ns)  # The clock may have been set meanwhile.
        start_ns = goal.trajectory.start_ns if executed is None else executed.planned.start_ns
        end_ns = start_ns + whole_ns(goal.trajectory.motion.duration)
        under_way = measured_ns < end_ns
        if under_way.any():
            found = self._left(goal, actual, np.where(under_way, stamps_ns, 0))
            if found:
                self._end(Result(Ended.ABORTED, ResultCode.PATH_TOLERANCE_VIOLATED, f"path_tolerance: {found}"))
                return self._stop(now_ns)
            names = [self._pipeline.parameters.joint_names[joint] for joint in np.flatnonzero(under_way)]
            found = f"expected joint states after the end of the trajectory, got none of {shown_names(names)}"
        else:
            place = goal.trajectory.motion.end.position
            desired = State(np.where(np.isnan(goal.target), place, goal.target), np.zeros_like(place))
            found = self._exceeded(goal.tolerances.goal, desired, actual, "the goal")
            if not found:
                self._end(Result(Ended.SUCCEEDED, ResultCode.SUCCESSFUL, "the goal is reached"))
                return None
        late = (max(int(measured_ns.min()), at(now_ns) - whole_ns(_LATE_S)) - end_ns) * NANOSECOND_S
        if late > goal.tolerances.goal_time:
            text = f"goal_tolerance: {found}, {goal.tolerances.goal_time:g} s after the end (goal_time_tolerance)"
            self._end(Result(Ended.ABORTED, ResultCode.GOAL_TOLERANCE_VIOLATED, text))
        elif late > _MISSED_S and not goal.is_missed:
            goal.is_missed = True
            text = f"goal: {found}, {late:.1f} s after the end; it stays in execution (constraints.goal_time)"
            self._pipeline.warn(Rejected(RejectionReason.DEVIATION, text))
        return None

    def _left(self, goal: _Goal, actual: State, measured_ns: np.ndarray) -> str:
        """Describe a joint that was off the path when it was measured, with its distance; empty if none was."""
        desired = commanded_to_each(self._published.present.commanded, measured_ns)
        if desired is None:
            return ""
        unknown = np.isnan(desired.position)  # Measurements before or after the motion do not belong to its path.
        desired = State(*(np.where(unknown, *parts) for parts in zip(actual, desired, strict=False)))
        return self._exceeded(goal.tolerances.path, desired, actual, "its command")

    def _exceeded(self, tolerance: Tolerance, desired: State, actual: State, what: str) -> str:
        near = actual._replace(position=self._turned(actual.position, desired.position))
        return tolerance.exceeded(desired, near, self._pipeline.parameters, what)

    def _measured(self, now_ns: int) -> tuple[State, np.ndarray]:
        """Return the last measured state, and when each joint was measured: by its arrival if the stamp is ahead."""
        state = self._pipeline.joint_states.latest(now_ns, 0.0)
        return State(state.position, state.velocity), np.minimum(state.stamps_ns, state.received_ns)

    def _turned(self, position: np.ndarray, near: np.ndarray) -> np.ndarray:
        return turned(position, near, self._pipeline.parameters.continuous)

    def _feed_back(self, goal: _Goal, now_ns: int) -> None:
        due = now_ns - goal.told_ns >= _FEEDBACK_NS
        if not due or self._pipeline.joint_states.known(now_ns, 0.0) is None:
            return
        goal.told_ns = now_ns
        actual, measured_ns = self._measured(now_ns)
        begin = goal.trajectory.motion.begin.known
        desired = commanded_to_each(self._published.present.commanded, measured_ns) or begin
        desired = State(*(np.where(np.isnan(part), first, part) for first, part in zip(begin, desired, strict=True)))
        near = self._turned(actual.position, desired.position)
        error = State(desired.position - near, desired.velocity - actual.velocity)
        newest_ns = int(measured_ns.max())
        clock, trajectory = self._published.motion_clock, goal.trajectory
        into_s = max((clock.at(newest_ns) - trajectory.start_ns) * NANOSECOND_S, 0.0)
        left_s = clock.lasts_s(max(trajectory.motion.duration - into_s, 0.0))
        stamp_ns = self._published.clock.to_robot(newest_ns)
        self._tell(goal.handle, Feedback(stamp_ns, into_s, left_s, desired, actual, error))

    # Checks that it is still executed

    def _require_executed(self, goal: _Goal, now_ns: int) -> None:
        """Raise Rejected with the reason if the goal is not executed any more, or cannot be judged."""
        self._published.guard.require_following()
        last, present = self._published.last, self._published.present
        if last is None and self._pipeline.joint_states.jumped_back:
            raise Rejected(RejectionReason.CLOCK_JUMPED_BACK, "node: the clock jumped back")
        if last is None:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller does not execute the trajectory any more "
                f"({present.status(now_ns).value})",
            )
        if last is not goal.trajectory:
            raise _superseded(last.topic)
        if present.is_off(now_ns):
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                f"controller_state: expected reports of the controller, got none for {present.quiet_s(now_ns):.3f} s",
            )
        self._require_states(now_ns)

    def _require_states(self, now_ns: int) -> None:
        """Refuse goals while the robot's state is unknown or too old. Raises Rejected."""
        self._pipeline.joint_states.believed.require_agreement(now_ns)
        age, timeout = self._pipeline.joint_states.age_s(now_ns), self._pipeline.parameters.state_timeout
        if age is None:
            raise Rejected(
                RejectionReason.NO_JOINT_STATE, "joint_states: expected one, by which the goal is judged, got none"
            )
        if 0 < timeout < age:
            raise Rejected(
                RejectionReason.STATE_TOO_OLD,
                f"joint_states: ended {age:.3f} s ago, expected at most {timeout:g} s (parameter state_timeout)",
            )

    def _stop(self, now_ns: int) -> ExecutableTrajectory | None:
        return self._pipeline.commands.stop(now_ns, self._published.guard.held)

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
