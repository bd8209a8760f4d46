"""The queue of plans to be executed: the newest one counts, and a stop waits for none. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as Threads
from concurrent.futures import Future
from dataclasses import dataclass

from ..execution.tolerances import NANOSECOND_S
from ..requests.plan import GOALS, Plan
from ..requests.rejection import Rejected, RejectionReason
from .command import Command, NotYet
from .executable import ExecutableTrajectory
from .planned_motion import Found, Task
from .reference import stops_of
from .trajectories import TrajectoryMaker

Refuse = Callable[[Rejected, Plan], None]
"""Called with plans that were accepted, had to wait, and were then refused."""
THREADS = 4
"""Number of threads: two plans may be in work, while two that were dropped come to their end."""
_MAKING = 2.0
"""Time allowed for planning again, as a multiple of the time that it took."""
_LONG = 256
"""Largest number of rows of a chunk that is planned on arrival: a stop then waits some milliseconds at most."""


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
    """Decides when the motion to a plan is made: a chunk's on arrival; in another thread, what may take long.

    Args:
        published: the motion in execution.
        refuse: see `Refuse`.
        threads: for plans that may take long; None: the caller's own thread makes every motion at once.
        wake: is called, in any thread, at the end of such work.

    """

    def __init__(
        self,
        published: Command,
        refuse: Refuse,
        threads: Threads | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._published, self._refuse, self._threads, self._wake = published, refuse, threads, wake
        self._first: _Waiting | None = None
        self._next: _Waiting | None = None
        """The newest plan, which waits for the end of the work on the first one."""
        self._refused: deque[tuple[Rejected, Plan]] = deque()

    def reconfigure(self, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters: work in progress begins again."""
        self._trajectories = trajectories
        if self._first is not None:
            self._first.drop()

    @property
    def waits(self) -> bool:
        """Return whether a plan still waits to be sent to the controller."""
        return self._first is not None

    def execute(self, plan: Plan, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """Return the trajectory of a plan; None if it has to wait, in place of an older one that waits.

        A chunk waits while a chunk like it is being slowed. Otherwise no chunk of a stream that is faster than slowing
        would ever be executed.

        Args:
            plan: as it was sent.
            now_ns: the node's clock.
            clock: returns it again: a trajectory that is already due when it has been made is made once more.

        Raises:
            Rejected: with the reason.

        """
        self._published.guard.require_following()
        newest = _Waiting(plan)
        if self._comes_after(plan):
            before, self._next = self._next, newest
            if before is not None:
                self._refuse(_superseded(), before.plan)
            return None
        made = self._made(newest, now_ns)
        if made is not None and clock is not None:
            later_ns = clock()
            if made.due_ns < self._published.motion_clock.at(later_ns):
                made = self._made(newest, later_ns, _MAKING * (later_ns - now_ns) * NANOSECOND_S)
        self.refuse(_superseded())
        self.tell_refused()
        if made is None:
            self._first = newest
        return made

    def go_on(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the trajectory of the plan that waited, if it can begin now."""
        first = self._first
        if first is None or first.is_in_work:
            return None
        self._first, self._next = self._next, None
        try:
            self._published.guard.require_following()
            made = self._made(first, now_ns)
        except Rejected as rejected:
            self._refuse(rejected, first.plan)
            return None
        if made is None:
            self._first, self._next = first, self._first
        return made

    def possible(self, plan: Plan, now_ns: int) -> Future[Found]:
        """Return what tells, once it is done, whether a plan could be executed now; nothing is changed.

        Raises:
            Rejected: it could not; the result raises that, too.

        """
        self.require_newer(plan, now_ns, count=False)
        self._published.guard.require_following()
        asked = _Waiting(plan)
        self._made(asked, now_ns)
        return asked.work or _at_once(lambda: None)

    def refuse(self, rejected: Rejected) -> None:
        """Refuse waiting plans; `tell_refused` informs their senders later."""
        waiting, self._first, self._next = (self._first, self._next), None, None
        for one in filter(None, waiting):
            one.drop()
            self._refused.append((rejected, one.plan))

    def tell_refused(self) -> None:
        """Report refused plans to their senders: after the brake, since that takes some milliseconds."""
        while self._refused:
            self._refuse(*self._refused.popleft())

    def withdraw(self) -> None:
        """Forget a waiting plan, because its sender does not want it any more."""
        if self._first is not None:
            self._first.drop()
        self._first, self._next = self._next, None

    def require_newer(self, plan: Plan, now_ns: int, *, count: bool = True) -> None:
        """Refuse a sequence that is older than the plan in execution. Raises Rejected: stale_sequence."""
        if plan.origin_ns and plan.origin_ns < self._published.newest_origin_ns:
            self._published.executed.counts["out_of_order"] += count
            ago = (now_ns - plan.origin_ns) * NANOSECOND_S
            raise Rejected(
                RejectionReason.STALE_SEQUENCE,
                f"header.stamp: began {ago:.3f} s ago, before the sequence in execution",
            )

    def _comes_after(self, plan: Plan) -> bool:
        """Return whether a plan waits for the work on a plan like it; goals and stops do not."""
        if self._first is None or not self._first.is_in_work:
            return False
        first = self._first.plan
        alike = first.is_complete == plan.is_complete and not first.untimed and len(plan.steps) > len(first.steps) / 2
        return alike and GOALS not in (first.topic, plan.topic) and not stops_of(plan).all()

    def _made(self, waiting: _Waiting, now_ns: int, making: float = 0.0) -> ExecutableTrajectory | None:
        """Return the trajectory of a plan, which may take `making` s; None while it cannot begin.

        Raises:
            Rejected: with the reason.

        """
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
        return maker.executable(task, waiting.work.result(), present, now_ns, waiting.plan)

    def _begun(self, task: Task) -> Future[Found]:
        """Begin the work on a motion; it is over at once if it takes no time."""
        maker = self._trajectories
        if self._threads is None:
            return _at_once(maker.motion_to, task, slows=True)
        if not task.plan.is_complete and len(task.plan.steps) <= _LONG:
            work = _at_once(maker.motion_to, task, slows=False)
            refused = work.exception()
            if refused is None or refused.reason is not RejectionReason.LIMITS or not maker.slows:
                return work
        work = self._threads.submit(maker.motion_to, task, slows=True)
        work.add_done_callback(lambda _: self._wake())
        return work


def _at_once(function: Callable[..., Found], *arguments: object, **named: object) -> Future[Found]:
    """Call a function; return its result in the form that threads give."""
    work: Future[Found] = Future()
    try:
        work.set_result(function(*arguments, **named))
    except Rejected as rejected:
        work.set_exception(rejected)
    return work


def _superseded() -> Rejected:
    """Return the refusal of a plan that a newer one replaces before it begins."""
    return Rejected(RejectionReason.SUPERSEDED, "sequence: a newer one came before it was begun")
