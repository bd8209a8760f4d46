"""The queue of plans to be executed: the newest one counts, and a stop waits for none. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as Threads
from dataclasses import replace
from weakref import WeakSet

from ..execution.tolerances import NANOSECOND_S
from ..parameters.parameters import NodeParameters
from ..parameters.table import START_FROM_PREVIOUS
from ..requests.plan import GOALS, Plan
from ..requests.rejection import Rejected, RejectionReason
from .command import Command, NotYet, Present
from .executable import ExecutableTrajectory
from .reference import stops_of
from .search import Search
from .trajectories import TrajectoryMaker

Refuse = Callable[[Rejected, Plan], None]
"""Called with plans that were accepted, had to wait, and were then refused."""
THREADS = 4
"""Number of threads: two searches may be wanted, while two that were dropped come to their end."""
_MAKING = 2.0
"""Time allowed for repeating a search, as a multiple of the time that it took."""
_LONG = 256
"""Largest number of rows of a chunk that is planned on arrival: a stop then waits some milliseconds at most."""


class Sought:
    """A plan as it was sent, with the search for the motion to it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.search: Search | None = None

    @property
    def is_going_on(self) -> bool:
        """Return whether the motion is being searched for."""
        return self.search is not None and not self.search.is_done

    def drop(self) -> None:
        """Drop the search, if there is one."""
        if self.search is not None:
            self.search.drop()
        self.search = None


class Planner:
    """Finds motions to plans: to a chunk on arrival, and to plans that may take long in another thread.

    Args:
        published: the motion in execution.
        refuse: see `Refuse`.
        threads: search for motions; None: the caller's own thread does so at once.
        wake: is called, in any thread, at the end of a search.

    """

    def __init__(
        self,
        published: Command,
        refuse: Refuse,
        threads: Threads | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._published, self._refuse, self._threads, self._wake = published, refuse, threads, wake
        self._first: Sought | None = None
        self._next: Sought | None = None
        """The newest plan that waits for the end of the first search."""
        self._searched: WeakSet[Sought] = WeakSet()
        self._refused: deque[tuple[Rejected, Plan]] = deque()

    def reconfigure(self, parameters: NodeParameters, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters: searches in progress begin again."""
        self._parameters, self._trajectories = parameters, trajectories
        for sought in self._searched:
            sought.drop()

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
        return self._execute(Sought(plan), now_ns, clock)

    def go_on(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the trajectory of the plan that waited, if it can begin now."""
        if self._first is None or self._first.is_going_on:
            return None
        (first, self._first), (following, self._next) = (self._first, None), (self._next, None)
        try:
            return self._execute(first, now_ns)
        except Rejected as rejected:
            self._refuse(rejected, first.plan)
            return None
        finally:
            if self._first is None:
                self._first = following
            else:
                self._next = following

    def is_possible(self, sought: Sought, now_ns: int) -> bool:
        """Return True once it is certain that a sequence could be executed now; nothing is changed.

        Raises:
            Rejected: it could not.

        """
        if sought.search is not None:
            if sought.is_going_on:
                return False
            search, sought.search = sought.search, None
            self._trajectories.found(search)
            return True
        self.require_newer(sought.plan, now_ns, count=False)
        self._published.guard.require_following()
        try:
            return self._made(sought, now_ns) is not None
        except NotYet:
            return True

    def refuse(self, rejected: Rejected) -> None:
        """Refuse waiting plans; `tell_refused` informs their senders later."""
        waiting, self._first, self._next = (self._first, self._next), None, None
        for sought in filter(None, waiting):
            sought.drop()
            self._refused.append((rejected, sought.plan))

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

    def _execute(
        self, sought: Sought, now_ns: int, clock: Callable[[], int] | None = None
    ) -> ExecutableTrajectory | None:
        self._published.guard.require_following()
        if self._comes_after(sought.plan):
            before, self._next = self._next, sought
            if before is not None:
                self._refuse(_superseded(), before.plan)
            return None
        try:
            made = self._made(sought, now_ns)
            if made is not None and clock is not None:
                later_ns = clock()
                if made.due_ns < self._published.motion_clock.at(later_ns):
                    made = self._made(sought, later_ns, _MAKING * (later_ns - now_ns) * NANOSECOND_S)
        except NotYet:
            made = None
        self.refuse(_superseded())
        self.tell_refused()
        if made is None:
            self._first = sought
        return made

    def _comes_after(self, plan: Plan) -> bool:
        """Return whether a plan waits for the search for a plan like it; goals and stops do not."""
        if self._first is None or not self._first.is_going_on:
            return False
        first = self._first.plan
        alike = first.is_complete == plan.is_complete and not first.untimed and len(plan.steps) > len(first.steps) / 2
        return alike and GOALS not in (first.topic, plan.topic) and not stops_of(plan).all()

    def _made(self, sought: Sought, now_ns: int, making: float = 0.0) -> ExecutableTrajectory | None:
        """Return the trajectory of a plan, which may take `making` s; None while the motion to it is searched for.

        Raises:
            Rejected: with the reason.
            NotYet: the command is not known yet.

        """
        maker = self._trajectories
        present = maker.present(sought.plan, now_ns)
        plan, search = maker.placed(sought.plan, now_ns), sought.search
        if search is None:
            search = self._begun(plan, present, now_ns, making)
        elif search.is_done:
            begun = maker.begun_now(search, plan, present, now_ns)
            if begun is None and not maker.fits(search, present, now_ns):
                begun = self._begun(plan, present, now_ns, _MAKING * search.took_s)
            search = begun or search
        if not search.is_done:
            if search is not sought.search:
                sought.search = search
                self._searched.add(sought)
                self._threads.submit(search.run, maker.candidates, self._wake)
            return None
        sought.search = None
        made = maker.executable(search, present, now_ns)
        return replace(made, origin_ns=sought.plan.origin_ns if self._keeps_times else 0)

    @property
    def _keeps_times(self) -> bool:
        return self._parameters.start_from == START_FROM_PREVIOUS

    def _begun(self, plan: Plan, present: Present, now_ns: int, making: float = 0.0) -> Search:
        """Return the search for a motion that begins `making` s later; it is over at once if it takes no time."""
        maker = self._trajectories
        search = maker.search(plan, present, now_ns, making)
        if search.is_done:
            return search
        if self._threads is None:
            search.run(maker.candidates)
        elif not plan.is_complete and len(plan.steps) <= _LONG:
            search.run_at_once(maker.candidates)
        return search


def _superseded() -> Rejected:
    """Return the refusal of a plan that a newer one replaces before it begins."""
    return Rejected(RejectionReason.SUPERSEDED, "sequence: a newer one came before it was begun")
