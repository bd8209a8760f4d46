"""What is commanded when: the newest plan counts, and brakes and stops wait for none. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as Threads
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from ..execution.tolerances import NANOSECOND_S
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME
from ..requests.plan import GOALS, SEQUENCES, Plan, turned
from ..requests.rejection import Rejected, RejectionReason
from .command import CUT_OFF_S, Command, NotYet
from .executable import ExecutableTrajectory
from .measured import MeasuredState
from .planned_motion import Found, Task
from .reference import stops_of
from .trajectories import TrajectoryMaker

_SUPERSEDED = Rejected(RejectionReason.SUPERSEDED, "sequence: a newer one came before it was begun")
Clock = Callable[[], int]
"""Returns the present time, ns."""
Refuse = Callable[[Rejected, Plan], None]
"""Called with plans that were accepted, had to wait, and were then refused."""
Arrives = Callable[[ExecutableTrajectory | None], bool]
"""Sends the motion in execution, if any, once more, but not twice, and returns whether all that was sent arrived."""
THREADS = 4
"""Number of threads: two plans may be in work, while two that were dropped come to their end."""
_MAKING = 2.0
"""Time allowed for planning again, as a multiple of the time that it took."""
_LONG = 256
"""Largest number of rows of a chunk that is planned on arrival: a stop then waits some milliseconds at most."""
_RESTARTS_S = 0.16
"""Time, s, within which a controller restarts: the arm stands, and would execute a brake from its middle."""
_STOP_WAITS_S = 0.45
"""Silence, s, in which brakes and stops wait; then the node tries whether its messages arrive. 0.5 s of it brake."""


@dataclass(eq=False)
class _Waiting:
    """A plan as it was sent, perhaps with the work on the motion to it."""

    plan: Plan
    task: Task | None = None
    work: Future[Found] | None = None
    begun_ns: int = 0
    """When the work was begun, ns of the node's clock."""

    @property
    def is_in_work(self) -> bool:
        """Return whether a thread works on the motion."""
        return self.work is not None and not self.work.done()

    def drop(self) -> None:
        """Drop the work, whose result is not wanted any more."""
        if self.work is not None:
            self.work.cancel()
        self.task = self.work = None


class Planner:
    """Brings plans to the controller, and stops the robot when it, its states or a caller demand that.

    The motion to a chunk is made on arrival; in another thread, what may take long.

    Args:
        published: the motion in execution.
        refuse: see `Refuse`.
        threads: for plans that may take long; None: the caller's own thread makes every motion at once.
        wake: is called, in any thread, at the end of such work.

    """

    def __init__(self, published: Command, refuse: Refuse, threads: Threads | None, wake: Callable[[], None]) -> None:
        self._published, self._refuse, self._threads, self._wake = published, refuse, threads, wake
        self._waiting: list[_Waiting] = []
        """A plan that waits or is in work, and perhaps the newest one, which waits for the end of that work."""
        self._refused: deque[tuple[Rejected, Plan]] = deque()
        self.arrives: Arrives = lambda _: True
        self._trajectories: TrajectoryMaker | None = None
        self._kept: JointLimits | None = None
        """The limits before a change, until the motion in execution has been compared with the new ones."""

    def reconfigure(self, parameters: NodeParameters, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters; work begins again, and `tick` keeps the motion in execution within limits."""
        if self._trajectories is not None and self._kept is None:
            self._kept = self._trajectories.limits
        self._parameters, self._trajectories = parameters, trajectories
        for one in self._waiting:
            one.drop()

    @property
    def waits(self) -> bool:
        """Return whether a plan, or a change of limits, still waits for its effect on the controller."""
        return bool(self._waiting) or self._kept is not None

    # Supervision

    def tick(self, now_ns: int, clock: Clock | None = None) -> ExecutableTrajectory | None:
        """Supervise the robot: return a trajectory to publish at once (a brake, or a plan that waited), or None.

        Called every few milliseconds, also while nothing arrives. For the `clock`, see `execute`.
        """
        self._published.check_clock(now_ns)
        command, guard, states = self._published, self._published.guard, self._published.joint_states
        allowance, moving = self._trajectories.allowance, command.is_moving(now_ns)
        guard.stopped_until_rest &= moving
        rests = not moving and guard.rests(now_ns, allowance)
        if rests and (command.is_doubtful or states.believed.begins_anew):
            states.believed.begins_anew = False
            command.drop()  # Whatever the controller holds, the next motion begins where the robot is.
        found = self._why_brake(now_ns, moving)
        if guard.reason and rests and found is None:
            if guard.back_to is None:
                if guard.recover(allowance) and command.report is None:
                    command.drop()
            elif not command.heard.is_overdue(now_ns):
                return self._trajectories.back(now_ns)
        if found is not None and (not guard.reason or guard.kind is not found.reason):
            guard.brake(found, states.lately(), allowance)
            self.refuse(guard.refusal())
            return self._stopped(now_ns) if moving else None
        if guard.stop_waits or (guard.is_busy and moving and command.last.is_lost):
            return self._stopped(now_ns)
        if self._kept is not None:
            with suppress(NotYet):
                within, self._kept = self._trajectories.kept(now_ns, self._kept), None
                return within
        if command.heard.is_off(now_ns):
            self.refuse(command.heard.unavailable(now_ns))
        # A silent controller would execute a motion that is sent now from its middle, when it is back.
        return None if command.heard.is_silent(now_ns) else self._go_on(now_ns, clock)

    def supervise(self, state: MeasuredState) -> None:
        """Compare the latest joint state with the command at its time."""
        command, report, turning = self._published, self._published.report, self._parameters.continuous
        # While nobody knows where the controller is in its motion, a brake could begin away from the command.
        if command.is_unclear or command.clock.states.is_alone:
            return
        if report is not None and command.motion_clock.is_scaled:  # The command is known up to the last report.
            known = (one for one in reversed(command.joint_states.recent) if one.stamp_ns <= report.stamp_ns)
            state = next(known, state)
        if turning.any() and (then := command.commanded(state.stamp_ns)) is not None:
            state = state._replace(position=turned(state.position, then.position, turning))
        command.guard.take(state, command.commanded, self._trajectories.allowance)

    def _why_brake(self, now_ns: int, moving: bool) -> Rejected | None:
        """Return the reason to brake the robot, in a brake only that joint states contradict each other; or None."""
        command, heard, timeout = self._published, self._published.heard, self._parameters.state_timeout
        contradictory = command.joint_states.believed.contradiction(now_ns)
        if contradictory is not None or command.guard.reason:
            return contradictory
        if moving and 0 < timeout < (age := command.joint_states.age_s(now_ns) or 0.0):
            text = f"joint states ended {age:.3f} s ago, expected at most {timeout:g} s (parameter state_timeout)"
            return Rejected(RejectionReason.STATE_TOO_OLD, text)
        if moving and heard.is_off(now_ns):
            text = f"expected reports of the controller, got none for {heard.quiet_s(now_ns):.3f} s"
            return Rejected(RejectionReason.CONTROLLER_UNAVAILABLE, text)
        if moving and command.is_doubtful and command.report and not command.clock.is_doubted:
            return Rejected(RejectionReason.CLOCK_JUMPED_BACK, "a clock was set during a motion")
        restart_s = _RESTARTS_S + heard.period_s  # Until a report shows that the motion is over.
        if heard.is_overdue(now_ns) and (not moving or heard.quiet_s(now_ns) < restart_s):
            return None
        return command.guard.exceeded(self._trajectories.allowance, self._parameters.joint_names)

    # Stops

    def stop(self, now_ns: int, hold: bool = False) -> ExecutableTrajectory | None:
        """Return the fastest stop from the present command; None if nothing moves, or if `tick` will return it.

        Sequences are rejected until the robot rests, or with `hold` until `release`.
        """
        guard = self._published.guard
        guard.held, guard.back_to = hold, None  # Whoever stops the robot wants it to stand: it does not go back.
        self.refuse(Rejected(RejectionReason.STOPPED, "node: stopped before the sequence was begun"))
        if not self._published.is_moving(now_ns) and not self._published.heard.moves():
            return None
        guard.stopped_until_rest = True
        return self._stopped(now_ns)

    def awaited_stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the stop that `tick` will return once the controller is at the first point of a motion; or None."""
        waits = self._published.guard.stop_waits and self._published.motion_clock.rate > 0
        return self._trajectories.stop(now_ns, waits=False) if waits else None

    def _stopped(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the fastest stop; None as long as it has to wait.

        A stop that a network holds up would be executed from its middle: it is sent as soon as anything comes, or as
        soon as the motion in execution, which changes nothing, arrives once more.
        """
        command, guard = self._published, self._published.guard
        guard.stop_waits, silent_s = True, command.silence_s(now_ns)
        if 0 < silent_s < CUT_OFF_S and (silent_s < _STOP_WAITS_S or not self.arrives(command.again(now_ns))):
            return None
        with suppress(NotYet):
            stop, guard.stop_waits = self._trajectories.stop(now_ns), False
            if command.report is None and silent_s:
                command.doubt()
            return stop
        return None

    # Plans

    def execute(self, plan: Plan, now_ns: int, clock: Clock | None = None) -> ExecutableTrajectory | None:
        """Return the trajectory of a plan; None if it has to wait, in place of an older one that waits.

        A chunk waits while a chunk like it is being slowed: otherwise, no chunk of a stream that is faster than slowing
        would ever be executed. A trajectory that is already due when it has been made, by a `clock` that returns the
        time again, is made once more. Raises Rejected with the reason.
        """
        self._require_possible(plan, now_ns)
        newest = _Waiting(plan)
        if self._comes_after(plan):
            before, self._waiting[1:] = self._waiting[1:], [newest]
            for one in before:
                self._refuse(_SUPERSEDED, one.plan)
            return None
        made = self._made(newest, now_ns, clock)
        self.refuse(_SUPERSEDED)
        self.tell_refused()
        if made is None:
            self._waiting = [newest]
        return made

    def possible(self, plan: Plan, now_ns: int) -> Future[Found]:
        """Return what tells, once it is done, whether a plan could be executed now; nothing is changed.

        Raises Rejected if it could not; the result raises that, too.
        """
        self._require_possible(plan, now_ns, count=False)
        asked = _Waiting(plan)
        self._made(asked, now_ns)
        return asked.work or _at_once(lambda: None)

    def refuse(self, rejected: Rejected) -> None:
        """Refuse waiting plans; `tell_refused` informs their senders later."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.drop()
            self._refused.append((rejected, one.plan))

    def tell_refused(self) -> None:
        """Report refused plans to their senders: after the brake, since that takes some milliseconds."""
        while self._refused:
            self._refuse(*self._refused.popleft())

    def withdraw(self) -> None:
        """Forget a waiting plan, because its sender does not want it any more."""
        for one in self._waiting[:1]:
            one.drop()
        del self._waiting[:1]

    def _require_possible(self, plan: Plan, now_ns: int, *, count: bool = True) -> None:
        """Refuse a sequence older than the plan in execution (stale_sequence), and all plans in a brake or a stop."""
        if plan.topic == SEQUENCES and plan.origin_ns and plan.origin_ns < self._published.newest_origin_ns:
            self._published.executed.counts["out_of_order"] += count
            ago = (now_ns - plan.origin_ns) * NANOSECOND_S
            raise Rejected(
                RejectionReason.STALE_SEQUENCE,
                f"header.stamp: began {ago:.3f} s ago, before the sequence in execution",
            )
        self._published.guard.require_following()

    def _go_on(self, now_ns: int, clock: Clock | None) -> ExecutableTrajectory | None:
        """Return the trajectory of the plan that waited, if it can begin now."""
        if not self._waiting or self._waiting[0].is_in_work:
            return None
        first = self._waiting.pop(0)
        try:
            self._published.guard.require_following()
            made = self._made(first, now_ns, clock)
        except Rejected as rejected:
            self._refuse(rejected, first.plan)
            return None
        if made is None:
            self._waiting.insert(0, first)
        return made

    def _comes_after(self, plan: Plan) -> bool:
        """Return whether a plan waits for the work on a plan like it; goals and stops do not."""
        if not any(one.is_in_work for one in self._waiting):
            return False
        first = self._waiting[0].plan
        alike = first.is_complete == plan.is_complete and not first.untimed and len(plan.steps) > len(first.steps) / 2
        return alike and GOALS not in (first.topic, plan.topic) and not stops_of(plan).all()

    def _made(
        self, waiting: _Waiting, now_ns: int, clock: Clock | None = None, making: float = 0.0
    ) -> ExecutableTrajectory | None:
        """Return the trajectory of a plan, which may take `making` s; None while it cannot begin. Raises Rejected."""
        maker = self._trajectories
        try:
            present = maker.present(waiting.plan, now_ns)
        except NotYet:
            return None
        if waiting.work is not None:
            making = making or _MAKING * (now_ns - waiting.begun_ns) * NANOSECOND_S
        task = waiting.task and maker.begun(waiting.task, present, now_ns)
        if task is None:
            task = waiting.task = maker.task(waiting.plan, present, now_ns, making)
            waiting.work, waiting.begun_ns = self._begun(task), now_ns
        if not waiting.work.done():
            return None
        made = maker.executable(task, waiting.work.result(), present, now_ns, waiting.plan)
        took_ns = 0 if clock is None else clock() - now_ns
        if not took_ns or made.due_ns >= self._published.motion_clock.at(now_ns + took_ns):
            return made
        return self._made(waiting, now_ns + took_ns, making=_MAKING * took_ns * NANOSECOND_S)

    def _begun(self, task: Task) -> Future[Found]:
        """Begin the work on a motion; it is over at once if it takes no time."""
        if self._threads is None:
            return _at_once(task.motion, slows=True)
        if not task.plan.is_complete and len(task.plan.steps) <= _LONG:
            work = _at_once(task.motion, slows=False)
            refused = work.exception()
            is_beyond = refused is not None and refused.reason is RejectionReason.LIMITS
            if not is_beyond or self._parameters.limits_action != ACTION_RETIME:
                return work
        work = self._threads.submit(task.motion, slows=True)
        work.add_done_callback(lambda _: self._wake())
        return work


def _at_once(function: Callable[..., Found], **named: object) -> Future[Found]:
    """Call a function; return its result in the form that threads give."""
    work: Future[Found] = Future()
    try:
        work.set_result(function(**named))
    except Rejected as rejected:
        work.set_exception(rejected)
    return work
