"""From plans to trajectories for the controller: one motion from its command on, checked as a whole. No ROS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from ..execution.limits import find_motion_violation
from ..execution.motion import SHORTEST_GAP, Motion, State
from ..execution.rows import Reference, continued, points_of
from ..execution.steps import steps_of, with_steps, without_steps
from ..execution.stopping import fastest_stop
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, SAME, SAME_END_RAD, whole_ns
from ..limits.joint_limits import JointLimits, assumed_limits, find_violation, limits_lacking
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_WARN, GRIPPER, START_FROM_PREVIOUS
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason
from .beginning import Beginning
from .command import Command
from .executable import ExecutableTrajectory, require_written, schedule
from .monitor import allowance_of
from .planned_motion import Found, Task
from .reference import reference, steps_of_rows, stops_of, with_standing
from .slow import fastest, gently, slow

_OF_LEAD = 0.3
"""Share of the lead time that a message needs to arrive: a trajectory must be made by then before its plan begins."""
_MOST_APART = 0.03
"""Largest distance at which a chunk that exceeds limits is followed within them instead of being slowed: rad or m, or
that share of a joint's range below 1 rad or m. Grippers go as fast as they can.
"""
_BACK = 0.1
"""Speed with which the command goes back after a brake: 0.1 rad/s, or that share of a joint's range below 1 rad."""
_LEADS = 0.1
"""Distance over which a motion is slow where a joint was stopped: 0.1 rad, or that share of a range below 1 rad."""
_MOST_SLOWED_AT_ONCE = 128
"""Largest number of segments of a motion in execution that is slowed at once, in some 10 ms; longer ones are stopped.
"""


class TrajectoryMaker:
    """Makes the trajectories that are published; warns of violations that are executed nevertheless.

    Methods raise Rejected with the reason for which there is no trajectory, and NotYet while the command is unknown.
    """

    def __init__(self, parameters: NodeParameters, published: Command, warn: Callable[[Rejected], None]) -> None:
        self._parameters, self._published, self._warn = parameters, published, warn
        self.limits = parameters.joint_limits
        self._on_schedule = parameters.start_from == START_FROM_PREVIOUS
        self._lead_ns = whole_ns(parameters.publish_lead_time)
        self._arrives_ns = round(_OF_LEAD * self._lead_ns)
        self.assumed = assumed_limits(
            parameters.rate_limits,
            parameters.publish_brake_time,
            parameters.limits_assumed_velocity,
            exceeded=parameters.limits_action == ACTION_WARN,
        )
        self.allowance = allowance_of(parameters)
        """Allowed distances of joints from their command."""
        most_apart = _MOST_APART * np.minimum(self.assumed.bounds.position_max - self.assumed.bounds.position_min, 1.0)
        self._most_apart = np.where(parameters.of_kind(GRIPPER), np.inf, most_apart)
        self._switched = parameters.switched
        self.beginning = Beginning(parameters, published, self.assumed.bounds, self.allowance)

    # When a plan begins, by the motion's clock

    def _at(self, now_ns: int) -> int:
        """Return the present time of the motion's clock, ns, by which plans begin."""
        return self._published.motion_clock.at(now_ns)

    def _blend_ns(self, present: ExecutableTrajectory, now_ns: int) -> int:
        """Return when a new plan begins after the present motion, ns, unless its stamp is later."""
        at_ns = self._at(now_ns)
        return present.start_ns if present.start_ns > at_ns else at_ns + self._lead_ns

    def _origin_ns(self, plan: Plan, blend_ns: int) -> int:
        """Return when the first step of a plan begins, ns."""
        return plan.origin_ns if self._on_schedule and plan.origin_ns else blend_ns

    def predicted(self, now_ns: int) -> State | None:
        """Return the state that is commanded at the earliest start of a plan; None if the command is unknown."""
        own = self._published.own if self._on_schedule else None
        return own and own.motion.at(self._blend_ns(own, now_ns))

    def present(self, plan: Plan, now_ns: int) -> ExecutableTrajectory:
        """Return the motion that is commanded from now on, from which a plan is blended in."""
        self._require_limits(plan)
        return self.beginning.of(plan, now_ns)

    # The motion to a plan

    def task(self, plan: Plan, present: ExecutableTrajectory, now_ns: int, making: float) -> Task:
        """Return what has to be known of plan and command for the motion between them, found within `making` s."""
        behind_ns = self._published.motion_clock.behind_ns(now_ns)
        if plan.origin_ns and behind_ns:  # The plan's times are the robot's, and rows that are over stay so.
            plan = replace(plan, origin_ns=plan.origin_ns - behind_ns)
        if not plan.untimed:
            plan = plan.completed(present.motion, self._parameters.continuous)
        begin_ns, at_ns = self._blend_ns(present, now_ns) + whole_ns(making), self._at(now_ns)
        state, states = present.motion.at(begin_ns), self._published.joint_states
        measured = states.known(now_ns, self._parameters.state_timeout)
        away = self.beginning.mismatch(plan, present, state.position, measured, at_ns)
        self.refuse_or_warn(away, RejectionReason.START_MISMATCH)
        earliest_ns, soonest_ns = begin_ns, begin_ns if present.start_ns <= at_ns else at_ns + self._lead_ns
        begin_ns, dropped = schedule(plan, earliest_ns, at_ns, soonest_ns)
        state = state if begin_ns == earliest_ns else present.motion.at(begin_ns)
        if 0 < dropped == len(plan.steps):  # The controller goes to its beginning for the sequences that follow.
            read = partial(Reference, present.motion, np.empty(0))
        elif plan.untimed:
            stop = present.motion.rest_from(begin_ns)
            stop = self._fastest_stop(present.motion, begin_ns) if stop.duration > MOMENT_S else stop
            plan = plan.completed(stop, self._parameters.continuous)
            read = partial(self._along, self._standing(plan, stop.end), stop, begin_ns)
        else:
            read = self._reader(plan, present, begin_ns, state)
        if np.count_nonzero(stopped := stops_of(plan)):
            stopped = stopped & (np.abs(state[1:]).max(axis=0) > 0)  # the others rest in the plan
        last, by_speed = self._published.last, plan.is_velocities and plan.start is None
        is_delayed = last is not None and last.delay > 0  # The motion sent last is behind its plan.
        floating = ~stopped & (by_speed and (not plan.origin_ns or is_delayed))
        least = most = state.position
        if measured is not None:  # The robot may stand a little outside of a limit, and may come back.
            least, most = np.minimum(least, measured.position), np.maximum(most, measured.position)
        limits = self.limits.containing(least, most)
        given = self._most_apart, dropped, self._parameters, self.assumed.bounds
        return Task(plan, read, begin_ns, state, stopped, floating, limits, *given)

    def _reader(
        self, plan: Plan, present: ExecutableTrajectory, begin_ns: int, begin: State
    ) -> Callable[[], Reference]:
        """Return a function, for any thread, that interpolates a plan, which begins in a state."""
        origin_ns = self._origin_ns(plan, begin_ns)
        # Errors of what is commanded must not come back as plans: actions continue the plan before.
        continues = present.follows and not plan.is_complete and origin_ns < begin_ns
        before = (continues and self._published.meant_at(origin_ns)) or present.motion.at(origin_ns)
        if len(switched := self._switched):
            before, begin = (state.held(switched, begin.position[switched]) for state in (before, begin))
        given = self._standing(plan, begin), origin_ns, begin_ns, before, begin
        return partial(reference, *given, self._parameters, self.assumed.bounds)

    def _standing(self, plan: Plan, state: State) -> Plan:
        """Return a plan in which switched joints stand where they are, in place of their steps."""
        return with_standing(plan, self._switched, state.position[self._switched]) if len(self._switched) else plan

    def _along(self, path: Plan, stop: Motion, begin_ns: int) -> Reference:
        """Return the motion that stops the present one, and then passes a path as fast as limits allow."""
        begins = stop.duration if stop.duration > MOMENT_S else 0.0
        rows = np.vstack([stop.end.position, path.actions])
        found = fastest(rows, self.assumed.bounds.rates, self._parameters.joint_names)
        motion = stop.then(found.motion) if begins else found.motion
        return Reference(motion._replace(start_ns=begin_ns), begins + found.passes[1:], why_slow=found.why_slow)

    def begun(self, task: Task, present: ExecutableTrajectory, now_ns: int) -> Task | None:
        """Return the task of a motion that was found, begun when it can; None if the command is elsewhere by then.

        A motion that begins at rest, to a plan without a time, may begin whenever the command rests there. From a
        measured state, a bridge leads only to the first point of a complete plan; a blend has to begin exactly.
        """
        at_ns, known_ns = self._at(now_ns), present.start_ns
        if task.begin_ns < (known_ns if known_ns > at_ns else at_ns + self._arrives_ns):
            if (task.plan.origin_ns and not task.plan.untimed) or np.count_nonzero(task.state[1:]):
                return None
            task = task._replace(begin_ns=self._blend_ns(present, now_ns))
        bridged = task.plan.is_complete and not present.follows
        most = np.array([[SAME_END_RAD], *SAME[1:]]) if bridged else SAME
        away = np.abs(present.motion.at(task.begin_ns).beyond(task.state))
        return None if (away > most).any() else task

    def executable(
        self, task: Task, found: Found, present: ExecutableTrajectory, now_ns: int, sent: Plan
    ) -> ExecutableTrajectory:
        """Return the trajectory with the motion that was found for a plan as it was sent. Raises Rejected."""
        plan = task.plan
        if by_ns := task.begin_ns - found.motion.start_ns:  # It begins later than it was found for.
            motion, meant = (one._replace(start_ns=one.start_ns + by_ns) for one in (found.motion, found.meant))
            found = found._replace(motion=motion, meant=meant)
        for warning in found.warnings:
            self._warn(warning)
        if np.count_nonzero(self._published.guard.stopped):
            found = self._gently(found)
        if len(self._switched):
            steps = steps_of_rows(plan, self._switched, found.passes)
            found = found._replace(motion=with_steps(found.motion, steps))
            rows = np.pad(steps.values[None, None], [(0, 3), (0, 0), (0, 0), (0, 0)])
            limits = self.limits.of_joints([self._parameters.joint_names[joint] for joint in self._switched])
            self.refuse_or_warn(find_violation(rows, limits, start_row=-1))
        if plan.is_complete and not plan.untimed and task.dropped < len(plan.steps):
            began_ns = found.meant.start_ns - self._origin_ns(plan, task.begin_ns)
            late = began_ns * NANOSECOND_S + found.meant.duration - plan.duration
            found = found._replace(delay=late if late > SHORTEST_GAP else 0.0)
        return self._executable(present, found, now_ns, sent, task.dropped)

    def _gently(self, found: Found) -> Found:
        """Slow the beginning of a motion in directions in which joints were stopped."""
        motion, stopped = found.motion, self._published.guard.stopped
        rates = self.assumed.bounds.raised_to(motion).rates
        try:
            slowed = gently(motion, stopped, _LEADS * self.allowance.full_speed, rates, found.passes)
        except Rejected as refused:
            why = f"motion: expected it to lead on slowly where the robot was stopped, but {refused.message}"
            raise Rejected(RejectionReason.DEVIATION, why) from None
        if slowed.motion is motion:
            return found
        delay = slowed.motion.duration - motion.duration
        return Found(slowed.motion, slowed.motion, delay=delay, passes=slowed.passes)

    # Motions without a plan

    def stop(self, now_ns: int, *, waits: bool = True) -> ExecutableTrajectory | None:
        """Return the fastest stop from the present command, or from where it `waits` to be known; None without one."""
        present = self._published.to_stop(now_ns, waits=waits)
        if present is None:
            return None
        blend_ns = max(present.start_ns, self._at(now_ns)) + self._lead_ns
        stop = self._fastest_stop(present.motion, blend_ns)
        return self._executable(present, Found(stop, stop), now_ns)

    def _fastest_stop(self, motion: Motion, blend_ns: int) -> Motion:
        """Return the fastest stop of a motion, which may be as fast as the motion itself."""
        braking = self.assumed.bounds.raised_to(motion.rest_from(blend_ns).soon)
        return fastest_stop(motion.at(blend_ns), braking)._replace(start_ns=blend_ns)

    def back(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the slow motion by which the command goes back, once after a brake; None if it stands where it is.

        It requires reports of the controller: without them, nobody knows whether it still holds the command.
        """
        command, heard, bounds = self._published, self._published.heard, self.assumed.bounds
        present = None if heard.report is None or heard.is_silent(now_ns) else command.own
        way = command.guard.way_back(present and present.motion.end.position, self.allowance)
        if way is None:
            return None
        blend_ns = self._blend_ns(present, now_ns)
        rates = np.vstack([np.minimum(bounds.rates[0], _BACK * self.allowance.full_speed), bounds.rates[1:]])
        begin = present.motion.at(blend_ns).position
        end = np.clip(begin + way, bounds.position_min, bounds.position_max)
        motion = fastest(np.stack([begin, end]), rates, self._parameters.joint_names).motion
        motion = motion._replace(start_ns=blend_ns)
        return self._executable(present, Found(motion, motion), now_ns)

    def kept(self, now_ns: int, before: JointLimits) -> ExecutableTrajectory | None:
        """Return the motion in execution within lowered limits: slowed along its path or, failing that, stopped.

        `before` are the earlier limits. Returns None if the motion keeps the new limits, too, if it did not keep the
        earlier ones either, or if nothing is in execution.
        """
        present = self._published.to_stop(now_ns)
        if present is None or not present.follows or self._parameters.limits_action == ACTION_WARN:
            return None
        blend_ns = self._blend_ns(present, now_ns)
        rest, state = present.motion.rest_from(blend_ns), present.motion.at(blend_ns)

        def beyond(motion: Motion, limits: JointLimits) -> str:
            return find_motion_violation(motion, limits.containing(state.position, state.position), steps=False)

        if not beyond(rest, self.limits) or beyond(rest, before):
            return None
        steps = steps_of(rest, self._switched) if len(self._switched) else None
        rest = rest if steps is None else without_steps(rest, self._switched)
        rates = self.assumed.bounds.raised_to(rest).rates
        marks, found = () if steps is None else steps.times, None
        if len(rest.coefficients) <= _MOST_SLOWED_AT_ONCE and (np.abs(state.velocity) <= rates[0]).all():
            with suppress(Rejected):
                found = slow(rest, rates, self._parameters.joint_names, from_state=True, marks=marks)
        if found is None or beyond(found.motion, self.limits):
            return self.stop(now_ns)
        motion = found.motion if steps is None else with_steps(found.motion, steps._replace(times=found.passes))
        within = Found(motion, found.motion, delay=found.motion.duration - rest.duration)
        return self._executable(present, within, now_ns)

    # Refusals, and the message

    def refuse_or_warn(self, finding: str, reason: RejectionReason = RejectionReason.LIMITS) -> None:
        """Refuse a motion with a finding, or warn of it, as limits.action says; an empty finding is none."""
        if finding and self._parameters.limits_action != ACTION_WARN:
            raise Rejected(reason, finding)
        if finding:
            self._warn(Rejected(reason, finding))

    def _require_limits(self, plan: Plan) -> None:
        limits, lacking = self._parameters.rate_limits, {"velocity": ", ".join(self.assumed.lacking)}
        needed, permit = "", ", or permit an assumed one (parameter limits.assumed_velocity)"
        if plan.untimed:
            each = {name: getattr(limits, name) for name in ("velocity", "acceleration")}
            lacking = {name: limits_lacking(limits.joint_names, limit) for name, limit in each.items()}
            needed, permit = ", by which points without times are timed", ""
        for name in filter(lacking.get, lacking):
            raise Rejected(
                RejectionReason.NO_LIMITS,
                f"limits.{name}: expected a limit of each joint{needed}, got none for {lacking[name]}; give limits "
                f"(parameters or a URDF){permit}",
            )

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _executable(
        self, present: ExecutableTrajectory, found: Found, now_ns: int, plan: Plan | None = None, dropped: int = 0
    ) -> ExecutableTrajectory:
        """Return the trajectory from the controller's present command on; without a plan, that of a stop."""
        motion, blend_ns, clock = found.motion, found.motion.start_ns, self._published.motion_clock
        # A clock that is behind has not reached the present yet.
        begins_ns = max(present.start_ns, self._at(now_ns) - self._published.clock.unsure_ns)
        if blend_ns > begins_ns and (self._parameters.publish_lead_in or not present.follows):
            before = present.motion.between(begins_ns, blend_ns)
            if before.moves or plan is None or not plan.is_complete:
                motion = continued(before, motion)
        motion = motion.without_slivers()
        points, begins_ns = points_of(motion), motion.start_ns + clock.behind_ns(now_ns)
        require_written(points)
        seam = present.motion.at(blend_ns).beyond(found.meant.at(blend_ns)) if present.follows else None
        return ExecutableTrajectory(
            motion=motion,
            stamp_ns=0 if clock.is_scaled else self._published.clock.set_ns + begins_ns,
            points=points,
            due_ns=blend_ns,
            meant=found.meant,
            plan=plan,
            delay=found.delay,
            dropped=dropped,
            seam_offset=seam,
        )
