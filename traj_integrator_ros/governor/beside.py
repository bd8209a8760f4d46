"""Motions to plans, searched beside their caller: long work holds up nothing, least of all a stop. No ROS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait

from ..requests.plan import Plan
from .candidates import Candidate, Candidates, JoinPoint, Read
from .reference import PlannedMotion, Reading, stops_of

THREADS = 4
"""Threads for two searches that are wanted, and two that were dropped and end soon."""
PATIENCE_S = 8e-3
"""Longest wait of a caller, s: nearly all plans are joined within that."""
MAKING = 2.0
"""Ratio to the last search that a trajectory or a candidate may take."""
_SHORT = 64
"""Rows of a plan whose most exact planned motion takes a few milliseconds to be joined."""
_FORGETTING = 0.8
"""Share of the longest time so far that is expected again after a shorter one."""


class Finding:
    """The search for the motion to a plan from where it is taken up, which can be dropped.

    Args:
        plan: for which it is.
        point: where that is.
        dropped: number of its steps that are over then.

    """

    def __init__(self, plan: Plan, point: JoinPoint, dropped: int) -> None:
        self.plan, self.point, self.dropped = plan, point, dropped
        self.took_s = 0.0
        self._is_wanted = True
        self._found: Future[tuple[Candidate | None, str]] = Future()

    @staticmethod
    def of(candidate: Candidate, plan: Plan, point: JoinPoint, dropped: int) -> Finding:
        """The search for a candidate that is known."""
        finding = Finding(plan, point, dropped)
        finding._found.set_result((candidate, ""))
        return finding

    def run(self, candidates: Candidates, read: Read) -> None:
        """Search, in any thread."""
        began = time.monotonic()

        def wanted(reading: Reading) -> Iterator[PlannedMotion]:
            for planned in read(reading):
                if not self._is_wanted:
                    raise _NotWanted
                yield planned

        try:
            found = candidates.first(wanted, self.point)
        except BaseException as error:  # any error belongs to the caller who asks for the result
            self.took_s = time.monotonic() - began
            self._found.set_exception(error)
        else:
            self.took_s = time.monotonic() - began
            self._found.set_result(found)

    def drop(self) -> None:
        """Drop the search: nobody wants the result."""
        self._is_wanted = False

    def is_done(self, within_s: float = 0.0) -> bool:
        """Return whether the search is over, or will be within a time, s."""
        return self._found.done() or (within_s > 0 and bool(wait([self._found], within_s).done))

    def result(self) -> tuple[Candidate | None, str]:
        """The candidate, and what is wrong with it. Raises Rejected."""
        return self._found.result()

    @property
    def succeeded(self) -> bool:
        """Return whether a candidate without a fault was found."""
        return self._found.exception() is None and not self._found.result()[1]

    def later(self, join_ns: int) -> Finding:
        """The same candidate, begun later, since it begins at rest."""
        candidate, _ = self.result()
        begun_ns = candidate.planned.start_ns + join_ns - self.point.join_ns
        candidate = candidate._replace(planned=candidate.planned._replace(start_ns=begun_ns))
        finding = Finding.of(candidate, self.plan, self.point._replace(join_ns=join_ns), self.dropped)
        finding.took_s = self.took_s
        return finding

    def tell(self, over: Callable[[], None]) -> None:
        """Have a function called when the search is over, in its thread."""
        self._found.add_done_callback(lambda _: over())


class Findings:
    """The searches that go on, by their plans.

    Args:
        threads: where; None: in the caller's own, at once.
        wake: called, in any thread, when one is over for which nobody waits.

    """

    def __init__(self, threads: Executor | None = None, wake: Callable[[], None] = lambda: None) -> None:
        self._threads, self._wake = threads, wake
        self._kept: dict[Plan, Finding] = {}
        self._usual_s, self._rows = 0.0, 0
        """Expected time of the search for the motion to a plan of so many rows; 0: the last one was found at once."""

    def begin(self, finding: Finding, candidates: Candidates, read: Read) -> Finding:
        """Begin a search, and end it at once where a short plan needs none: threads have their turn later."""
        if self._threads is not None and len(finding.plan.steps) <= _SHORT and not finding.plan.untimed:
            if (candidate := candidates.at_once(read, finding.point)) is not None:
                return Finding.of(candidate, finding.plan, finding.point, finding.dropped)
        if self._threads is None:
            finding.run(candidates, read)
        else:
            self._threads.submit(finding.run, candidates, read)
        return finding

    def expected_s(self, plan: Plan) -> float:
        """Expected time of the search for a plan like the last long one, s; 0: the plan is different."""
        return self._usual_s if is_like(plan, self._rows) else 0.0

    def keep(self, plan: Plan, finding: Finding) -> None:
        """Remember a search that goes on."""
        if self.of(plan) is not finding:
            self._kept[plan] = finding
            finding.tell(self._wake)

    def of(self, plan: Plan) -> Finding | None:
        """The search for a plan that was kept."""
        return self._kept.get(plan)

    def is_sought(self, plan: Plan) -> bool:
        """Return whether the motion to a plan is being searched for."""
        return (finding := self.of(plan)) is not None and not finding.is_done()

    def take(self, plan: Plan, finding: Finding) -> None:
        """Forget a search that is over."""
        if self._kept.pop(plan, None) is not None:
            took_long = finding.took_s > PATIENCE_S
            self._usual_s = max(MAKING * finding.took_s, _FORGETTING * self._usual_s) if took_long else 0.0
            self._rows = len(plan.steps)

    def drop(self, plan: Plan) -> None:
        """Drop the search for a plan, if there is one."""
        if (finding := self._kept.pop(plan, None)) is not None:
            finding.drop()

    def drop_all(self) -> None:
        """Drop all searches: they began from a state that is no longer true."""
        for finding in self._kept.values():
            finding.drop()
        self._kept.clear()


def is_like(plan: Plan, rows: int) -> bool:
    """Return whether a plan has about as many rows as another, and is no stop, whose motion is found at once."""
    return len(plan.steps) > rows / 2 and not stops_of(plan).all()


class _NotWanted(Exception):
    """Raised in a dropped search, so that it ends."""
