"""The controller's commands in time: plans, waiting plans, brakes and stops. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite

import numpy as np

from ..execution.tolerances import NANOSECOND_S, whole_ns
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ENSEMBLE_WEIGHTED, HEAVIEST_NEWEST
from ..requests.plan import GOALS, Plan, turned
from ..requests.rejection import Rejected, RejectionReason
from .beside import MAKING, is_like
from .executable import ExecutableTrajectory
from .measured import JointStates, MeasuredState
from .published import PublishedMotion
from .sent import NotYet
from .supervision import NEAR, REST_S, Finding, Yields
from .trajectories import SPARE_NS, TrajectoryMaker

Refuse = Callable[[Rejected, Plan], None]
"""Called with plans that were accepted, had to wait, and were then refused."""
_RESTARTS_S = 0.16
"""An arm stands while its controller restarts, which takes less: a brake then would be executed from its middle."""
_OFF = "controller_state"
"""The input that ended, if the robot is braked because of that."""
_MOST_YIELDS = 5
"""Number of motions to the robot's place that are allowed while it rests."""
_TRIES = 3
"""Most times that a slowed trajectory is made again."""


class Commands:
    """Brings plans to the controller, and stops the robot when it, its states or a caller demand that."""

    def __init__(self, joint_states: JointStates, published: PublishedMotion, refuse: Refuse) -> None:
        self._joint_states, self._published, self._refuse = joint_states, published, refuse
        self._waiting: Plan | None = None
        self._next: Plan | None = None
        """The newest plan after one that waits until its motion is found."""
        self._trajectories: TrajectoryMaker | None = None
        self._revisions = 0
        """Versions of the present command that the comparison has seen."""
        self._kept: JointLimits | None = None
        """Limits before a change, until it is known whether the motion in execution keeps the present ones."""

    def reconfigure(self, parameters: NodeParameters, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters; `tick` brings the motion in execution within their limits."""
        if self._trajectories is not None and self._kept is None:
            self._kept = self._trajectories.limits
        self._parameters, self._trajectories = parameters, trajectories

    def require_newer(self, plan: Plan, now_ns: int, *, count: bool = True) -> None:
        """Refuse a plan that is older than the one in execution. Raises Rejected: stale_sequence."""
        if plan.origin_ns and plan.origin_ns < self._published.newest_origin_ns:
            self._published.executed.counts["out_of_order"] += count
            ago = (now_ns - plan.origin_ns) * NANOSECOND_S
            raise Rejected(
                RejectionReason.STALE_SEQUENCE,
                f"header.stamp: began {ago:.3f} s ago, before the sequence in execution",
            )

    def in_time(self, plan: Plan, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """The trajectory of a plan, or None if it has to wait; then it replaces another waiting plan.

        But one that is like another whose motion is being sought comes after that: in a stream of plans whose ways take
        longer than it takes the next one to come, none would ever be found otherwise.

        If it is due when it has been made, it is made once more; one that is slowed takes as long then, or longer.
        """
        self.require_following(now_ns)
        if self._comes_after(plan):
            following, self._next = self._next, plan
            self._refuse_one(following, _superseded())
            return None
        try:
            trajectory = self._executable(plan, now_ns)
            tries = _TRIES
            while tries and clock is not None:
                later_ns = clock()
                spare_ns = SPARE_NS if trajectory.delay else 0
                if trajectory.due_ns >= self._published.motion_clock.at(later_ns) + spare_ns:
                    break
                plan = replace(plan, making=MAKING * (later_ns - now_ns) * NANOSECOND_S if trajectory.delay else 0.0)
                trajectory = self._executable(plan, later_ns)
                now_ns, tries = later_ns, tries - 1 if trajectory.delay else 0
        except NotYet:
            self._refuse_waiting(_superseded())
            self._waiting = plan
            return None
        self._refuse_waiting(_superseded())
        return trajectory

    def is_possible(self, plan: Plan, now_ns: int) -> bool:
        """Return whether it is known that a plan could be executed now; if not, ask again. Nothing is changed.

        Raises:
            Rejected: it could not, as `in_time` and `require_newer`.

        """
        if (is_possible := self._trajectories.is_possible(plan)) is not None:
            return is_possible
        self.require_newer(plan, now_ns, count=False)
        self.require_following(now_ns)
        guard = self._published.guard
        stood = guard.stood
        try:
            self._executable(plan, now_ns)
        except NotYet as later:
            return not later.is_sought
        finally:
            guard.stood = stood  # nothing has begun yet
        return True

    def require_following(self, now_ns: int) -> None:
        """Refuse sequences, and the motion in execution, while the robot is, or was, braked.

        Raises:
            Rejected: deviation or stopped.

        """
        guard = self._published.guard
        if guard.held or guard.stopped_until_rest:
            held = "and holds until it is released (~/stop with hold: false)" if guard.held else "and is not over"
            raise Rejected(RejectionReason.STOPPED, f"node: a stop was requested {held}")
        if guard.reason:
            raise self._braked()

    def tick(self, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """Supervise: return a trajectory to publish at once, a brake or one that had to wait, or None.

        Called every few milliseconds, also while nothing arrives; `clock` as in `in_time`.
        """
        published, guard = self._published, self._published.guard
        self.check_clock(now_ns)
        moving = published.is_moving(now_ns)
        if guard.stopped_until_rest and not moving:
            guard.stopped_until_rest = False
        if published.present.is_doubtful and not moving and guard.rests(now_ns):
            published.drop()
        if (yielding := self._yielding(now_ns, moving)) is not None:
            return yielding
        away = guard.is_away(self._trajectories.allowance)
        if guard.reason and not moving and guard.rests(now_ns, away):
            guard.recover()
            if away:  # whatever the controller holds: the next motion begins where the robot is
                published.drop()
        if not guard.reason and (found := self._why_brake(now_ns, moving)) is not None:
            guard.brake(found, self._trajectories.allowance)
            self._refuse_waiting(self._braked())
            return self._stopped(now_ns) if moving else None
        if guard.stop_waits:
            return self._stopped(now_ns)
        if self._kept is not None and (within := self._within_limits(now_ns)) is not None:
            return within
        if published.present.is_off(now_ns):
            self._refuse_waiting(published.present.unavailable(now_ns))
        if self._waiting is None or published.present.is_silent(now_ns):
            return None  # a motion now would be executed from its middle when the controller is back
        if self._trajectories.findings.is_sought(self._waiting):
            return None
        (plan, self._waiting), (following, self._next) = (self._waiting, None), (self._next, None)
        try:
            return self.in_time(plan, now_ns, clock)
        except Rejected as rejected:
            self._refuse_one(plan, rejected)
            return None
        finally:
            if self._waiting is None:
                self._waiting = following
            else:
                self._next = following

    def _yielding(self, now_ns: int, moving: bool) -> ExecutableTrajectory | None:
        """The command's way back to a robot that was braked because it did not follow; None: the command is there.

        What the robot presses on is released, and nothing draws it back when its drives are on again. Only where the
        controller reports: otherwise nobody knows whether it still holds the command.
        """
        guard, present = self._published.guard, self._published.present
        yields, rests = guard.yields, guard.rests(now_ns)
        if not guard.reason or not guard.stood or guard.stopped_until_rest or guard.held or guard.stop_waits:
            return None
        waits = (now_ns - yields.last_ns) * NANOSECOND_S < REST_S or (moving and not yields.count)  # it brakes yet
        unsure = present.report is None or present.is_overdue(now_ns) or present.is_unsure
        if waits or unsure or yields.resting >= _MOST_YIELDS or (own := present.own(now_ns)) is None:
            return None
        near = NEAR * self._trajectories.allowance.distance
        there = guard.monitor.held_by + (0.0 if guard.contact is None else near * guard.contact.push)
        if not (np.abs(there - own.planned.motion.end.position) > near).any():
            return None
        if self._joint_states.known(now_ns, self._parameters.state_timeout) is None:
            return None
        try:
            way = self._trajectories.stop(now_ns, there)
        except (NotYet, Rejected):
            return None
        guard.yields = Yields(yields.count + 1, yields.resting + rests, now_ns)
        return way

    def stop(self, now_ns: int, hold: bool = False) -> ExecutableTrajectory | None:
        """Return the fastest stop from the present command; None if nothing moves, or if `tick` will return it.

        Sequences are rejected until the robot rests, or with `hold` until `release`.
        """
        guard = self._published.guard
        if guard.held and not hold:
            guard.contact = None  # the caller who releases it knows what it touched
        guard.held = hold
        guard.yields = guard.yields._replace(resting=_MOST_YIELDS)  # the caller who stops it wants it to stand
        self._refuse_waiting(Rejected(RejectionReason.STOPPED, "node: stopped before the sequence was begun"))
        if not self._published.is_moving(now_ns) and not self._published.present.may_move():
            return None
        guard.stopped_until_rest = True
        return self._stopped(now_ns)

    def awaited_stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the stop that `tick` will return once the controller is at the first point of a motion; or None."""
        if not self._published.guard.stop_waits:
            return None
        try:
            return self._trajectories.stop(now_ns)
        except NotYet as later:
            if not later.until_ns:
                return None
            left_s = (later.until_ns - self._published.motion_clock.at(now_ns)) * NANOSECOND_S
            lasts_s = self._published.motion_clock.lasts_s(left_s)
            return self._trajectories.stop(now_ns + whole_ns(lasts_s)) if isfinite(lasts_s) else None

    @property
    def waits(self) -> bool:
        """Return whether a plan, or other limits, have yet to be brought to the controller."""
        return self._waiting is not None or self._kept is not None

    def withdraw(self) -> None:
        """Forget a waiting plan, because its sender does not want it any more."""
        if self._waiting is not None:
            self._trajectories.findings.drop(self._waiting)
        self._waiting, self._next = self._next, None

    def deactivate(self) -> None:
        """Refuse waiting plans: they must not begin when the node is active again."""
        self._refuse_waiting(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated before the sequence was begun"))

    def supervise(self, now_ns: int) -> None:
        """Compare the latest joint state with the command of its time, where that is due."""
        state = self._comparable(now_ns)
        clock, present, guard = self._published.clock, self._published.present, self._published.guard
        # While nobody knows where the controller is in its motion, a brake could begin away from the command.
        unsure = present.is_unsure or present.is_doubtful
        if unsure or clock.states.is_alone or not guard.monitor.is_due(state.stamp_ns):
            return
        position, turning = state.position, self._parameters.continuous
        commanded = self._published.present.commanded
        if turning.any() and (then := commanded(state.stamp_ns)) is not None:
            position = turned(position, then.position, turning)
        allowance = self._trajectories.allowance
        if self._revisions != present.revisions:
            self._revisions = present.revisions
            guard.monitor.forget_line()
        guard.monitor.take(position, state.stamps_ns, commanded, allowance, clock.slack(), free=not guard.reason)
        guard.measured(position, allowance, state.stamp_ns)

    def _comparable(self, now_ns: int) -> MeasuredState:
        """The latest joint state whose command is known: for scaled motions, up to the last report."""
        latest, present = self._joint_states.latest(now_ns, 0.0), self._published.present
        if present.report is None or present.motion_clock.is_settled(now_ns):
            return latest
        known = (one for one in reversed(self._joint_states.recent) if one.stamp_ns <= present.report.stamp_ns)
        return next(known, latest)

    def set_clock(self, by_ns: int) -> None:
        """The clock was set: waiting plans begin at another time of it."""
        for plan in filter(None, (self._waiting, self._next)):
            self._trajectories.findings.drop(plan)  # its motion was searched for from an earlier time of the clock
        self._waiting, self._next = (
            plan
            and replace(plan, origin_ns=plan.origin_ns and plan.origin_ns + by_ns, received_ns=plan.received_ns + by_ns)
            for plan in (self._waiting, self._next)
        )

    def check_clock(self, now_ns: int) -> None:
        """Forget states that were measured, and motions that were published, later than now."""
        self._joint_states.check_clock(now_ns)
        if self._published.check_clock(now_ns):
            self._joint_states.drop_for_jump()

    def _braked(self) -> Rejected:
        guard = self._published.guard
        if guard.reason.startswith(_OFF):
            return Rejected(RejectionReason.CONTROLLER_UNAVAILABLE, f"{guard.reason}; rejecting until it is back")
        reason = RejectionReason.DEVIATION if guard.joint >= 0 else RejectionReason.STATE_TOO_OLD
        return Rejected(reason, f"node: {guard.reason}; rejecting until the robot rests")

    def _why_brake(self, now_ns: int, moving: bool) -> Finding | None:
        """The reason to brake the robot; None: there is none."""
        unsure, timeout = self._published.clock.is_unsure, self._parameters.state_timeout
        age = self._joint_states.age_s(now_ns, arrived=unsure)
        if moving and timeout > 0 and age is not None and age > timeout:
            told = f"joint states ended {age:.3f} s ago, expected at most {timeout:g} s (parameter state_timeout)"
            return Finding(told)
        present = self._published.present
        if moving and present.is_off(now_ns):
            quiet = present.quiet_s(now_ns)
            return Finding(f"{_OFF}: expected reports of the controller, got none for {quiet:.3f} s")
        restart_s = _RESTARTS_S + present.period_s  # until a report says that it is over
        if present.report and present.is_overdue(now_ns) and (not moving or present.quiet_s(now_ns) < restart_s):
            return None
        return self._published.guard.exceeded(self._trajectories.allowance, self._parameters.joint_names)

    def _stopped(self, now_ns: int) -> ExecutableTrajectory | None:
        guard = self._published.guard
        try:
            stop = self._trajectories.stop(now_ns)
        except NotYet:
            guard.stop_waits = True
            return None
        guard.stop_waits = False
        return stop

    def _comes_after(self, plan: Plan) -> bool:
        """Whether a plan is to come after the one that waits, whose motion is sought: not where either is a goal."""
        first = self._waiting
        if first is None or GOALS in (first.topic, plan.topic) or not self._trajectories.findings.is_sought(first):
            return False
        return not first.untimed and is_like(plan, len(first.steps))

    def _within_limits(self, now_ns: int) -> ExecutableTrajectory | None:
        """The motion in execution, brought within changed limits; None: it keeps them, or the change waits."""
        try:
            within = self._trajectories.kept(now_ns, self._kept)
        except NotYet:
            return None
        self._kept = None
        return within

    def _refuse_waiting(self, rejected: Rejected) -> None:
        waiting, self._waiting, self._next = (self._waiting, self._next), None, None
        for plan in waiting:
            self._refuse_one(plan, rejected)

    def _refuse_one(self, plan: Plan | None, rejected: Rejected) -> None:
        if plan is not None:
            self._trajectories.findings.drop(plan)
            self._refuse(rejected, plan)

    def _executable(self, plan: Plan, now_ns: int) -> ExecutableTrajectory:
        parameters = self._parameters
        if parameters.chunks_ensemble != ENSEMBLE_WEIGHTED or not plan.is_chunk:
            return self._trajectories.trajectory(plan, now_ns)
        newest = parameters.chunks_heaviest == HEAVIEST_NEWEST
        averaged = self._published.chunks.averaged(plan, parameters.chunks_decay, newest_first=newest)
        return replace(self._trajectories.trajectory(averaged, now_ns, plan), chunk=plan)


def _superseded() -> Rejected:
    return Rejected(RejectionReason.SUPERSEDED, "sequence: a newer one came before it was begun")
