"""The queue of plans that are to be executed: the newest counts, and a stop needs none of it. Knows no ROS."""

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
from .executable import ExecutableTrajectory
from .published import PublishedMotion
from .reference import stops_of
from .search import PATIENCE_S, Search
from .sent import NotYet, Present
from .trajectories import SPARE_NS, TrajectoryMaker

Refuse = Callable[[Rejected, Plan], None]
"""Called with plans that were accepted, had to wait, and were then refused."""
THREADS = 4
"""Threads for two searches that are wanted, and two that were dropped and end soon."""
MAKING = 2.0
"""Time that the next search is given, as a multiple of the last one's."""
_SHORT = 64
"""Rows of a plan whose most exact planned motion takes a few milliseconds to be joined."""
_LONG = 256
"""Most rows of a plan whose search the caller waits for: a stop that comes meanwhile waits, too."""
_FORGETTING = 0.8
"""Share of the longest time so far that is expected again after a shorter one."""


class Sought:
    """A plan as its sender sent it, and the search for the motion to it while that goes on."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.search: Search | None = None

    @property
    def is_going_on(self) -> bool:
        """Return whether the motion is being searched for."""
        return self.search is not None and not self.search.is_done()

    def drop(self) -> None:
        """Drop the search, if there is one."""
        if self.search is not None:
            self.search.drop()
        self.search = None


class Planner:
    """Finds motions to plans, and keeps two that wait: one whose motion is searched for, and the newest after it.

    Args:
        published: the motion in execution.
        refuse: see `Refuse`.
        threads: search for motions; None: the caller's own thread does, at once.
        wake: is called, in any thread, at the end of a search that nobody waits for.

    """

    def __init__(
        self,
        published: PublishedMotion,
        refuse: Refuse,
        threads: Threads | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._published, self._refuse, self._threads, self._wake = published, refuse, threads, wake
        self._first: Sought | None = None
        self._next: Sought | None = None
        """The newest plan after the first one, whose motion is searched for."""
        self._searched: WeakSet[Sought] = WeakSet()
        self._refused: deque[tuple[Rejected, Plan]] = deque()
        self._usual_s, self._rows = 0.0, 0
        """Expected time of the search for the motion to a plan of so many rows; 0: the last one was found at once."""

    def reconfigure(self, parameters: NodeParameters, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters: motions that are searched for are searched for anew."""
        self._parameters, self._trajectories = parameters, trajectories
        for sought in self._searched:
            sought.drop()

    @property
    def waits(self) -> bool:
        """Return whether a plan has yet to be brought to the controller."""
        return self._first is not None

    def execute(self, plan: Plan, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """The trajectory of a plan, or None if it has to wait; then it replaces another waiting plan.

        A plan like another one, whose motion is being searched for, comes after that: in a stream of plans that come
        faster than motions to them are found, none would ever be found otherwise.

        Args:
            plan: as it was sent.
            now_ns: the node's clock.
            clock: reads it again: a trajectory that is due when it has been made is made once more.

        Raises:
            Rejected: with the reason.

        """
        return self._execute(Sought(plan), now_ns, clock)

    def go_on(self, now_ns: int, clock: Callable[[], int] | None = None) -> ExecutableTrajectory | None:
        """The trajectory of the plan that waited, if that can be begun now; `clock` as in `execute`."""
        if self._first is None or self._first.is_going_on:
            return None
        (first, self._first), (following, self._next) = (self._first, None), (self._next, None)
        try:
            return self._execute(first, now_ns, clock)
        except Rejected as rejected:
            self._refuse(rejected, first.plan)
            return None
        finally:
            if self._first is None:
                self._first = following
            else:
                self._next = following

    def is_possible(self, sought: Sought, now_ns: int) -> bool:
        """Return whether it is known that a sequence could be executed now; if not, ask again. Nothing is changed.

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
        """Refuse waiting plans; `tell_refused` tells their senders."""
        waiting, self._first, self._next = (self._first, self._next), None, None
        for sought in filter(None, waiting):
            sought.drop()
            self._refused.append((rejected, sought.plan))

    def tell_refused(self) -> None:
        """Tell of refused plans, after the brake for which they were refused: telling takes some milliseconds."""
        while self._refused:
            self._refuse(*self._refused.popleft())

    def withdraw(self) -> None:
        """Forget a waiting plan, because its sender does not want it any more."""
        if self._first is not None:
            self._first.drop()
        self._first, self._next = self._next, None

    def set_clock(self, by_ns: int) -> None:
        """Let waiting plans begin at another time, and search for their motions again, because the clock was set."""
        for sought in filter(None, (self._first, self._next)):
            sought.drop()
            plan, origin_ns = sought.plan, sought.plan.origin_ns
            sought.plan = replace(plan, origin_ns=origin_ns and origin_ns + by_ns, received_ns=plan.received_ns + by_ns)

    def _execute(self, sought: Sought, now_ns: int, clock: Callable[[], int] | None) -> ExecutableTrajectory | None:
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
                spare_ns, again_s = 0, 0.0
                if made.delay:  # slowing it takes as long again, or longer
                    spare_ns, again_s = SPARE_NS, MAKING * (later_ns - now_ns) * NANOSECOND_S
                if made.due_ns < self._published.motion_clock.at(later_ns) + spare_ns:
                    made = self._made(sought, later_ns, again_s)
        except NotYet:
            made = None
        self.refuse(_superseded())
        self.tell_refused()
        if made is None:
            self._first = sought
        return made

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
        """Return whether a plan comes after the waiting one, whose motion is searched for; goals do not."""
        if self._first is None or not self._first.is_going_on:
            return False
        first = self._first.plan
        return GOALS not in (first.topic, plan.topic) and not first.untimed and _is_like(plan, len(first.steps))

    def _made(self, sought: Sought, now_ns: int, making: float = 0.0) -> ExecutableTrajectory | None:
        """The trajectory of a plan, which may take `making` s to be made; None: the motion to it is being searched for.

        Raises:
            Rejected: with the reason.
            NotYet: it is not known what is commanded.

        """
        maker, plan = self._trajectories, sought.plan
        present = maker.present(plan, now_ns)
        plan, search, patience_s = maker.placed(plan, now_ns), sought.search, 0.0
        if search is None:
            usual_s = self._usual_s if _is_like(plan, self._rows) else 0.0
            search = self._begun(plan, present, now_ns, making, usual_s)
            patience_s = 0.0 if usual_s or len(plan.actions) > _LONG else PATIENCE_S
        elif search.is_done():
            begun = maker.begun_now(search, plan, present, now_ns)
            if begun is None and not maker.fits(search, present, now_ns):
                begun = self._begun(plan, present, now_ns, MAKING * search.took_s)
            search = begun or search
        if not search.is_done(patience_s):
            if search is not sought.search:
                sought.search = search
                self._searched.add(sought)
                search.tell(self._wake)
            return None
        sought.search = None
        self._learn(search)
        made = maker.executable(search, present, now_ns)
        origin_ns = sought.plan.origin_ns if self._parameters.start_from == START_FROM_PREVIOUS else 0
        return replace(made, origin_ns=origin_ns)

    def _begun(self, plan: Plan, present: Present, now_ns: int, making: float, usual_s: float = 0.0) -> Search:
        """Begin a search. A short plan's result is found here, because threads would get their turn later."""
        maker = self._trajectories
        search = maker.search(plan, present, now_ns, making)
        if search.is_done():
            return search
        if self._threads is None:
            search.run(maker.candidates)
            return search
        if len(plan.steps) <= _SHORT and not plan.untimed:
            candidate, finding = maker.candidates.at_once(search.read, search.point)
            if not finding:
                return Search.over(candidate, search.plan, search.point, search.dropped)
        if usual_s:
            search = maker.search(plan, present, now_ns, making + usual_s)
        self._threads.submit(search.run, maker.candidates)
        return search

    def _learn(self, search: Search) -> None:
        """Expect that the next search for the motion to a plan like that takes as long."""
        if self._threads is not None:
            took_long = search.took_s > PATIENCE_S
            self._usual_s = max(MAKING * search.took_s, _FORGETTING * self._usual_s) if took_long else 0.0
            self._rows = len(search.plan.steps)


def _superseded() -> Rejected:
    """The refusal of a plan that a newer one replaces before it begins."""
    return Rejected(RejectionReason.SUPERSEDED, "sequence: a newer one came before it was begun")


def _is_like(plan: Plan, rows: int) -> bool:
    """Return whether a plan has about as many rows as another, and is no stop, whose motion is found at once."""
    return len(plan.steps) > rows / 2 and not stops_of(plan).all()
