"""The search for the motion to a plan, in any thread: long work holds up no stop. Knows no ROS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from ..requests.plan import Plan
from .candidates import Candidate, Candidates, JoinPoint, Read
from .reference import PlannedMotion, Reading


class Search:
    """The search for the motion to a plan from where it is taken up, which can be dropped.

    Args:
        plan: for which it is.
        point: where that is.
        dropped: number of its steps that are over then.
        read: how the plan is read.

    """

    def __init__(self, plan: Plan, point: JoinPoint, dropped: int, read: Read | None = None) -> None:
        self.plan, self.point, self.dropped, self.read = plan, point, dropped, read
        self.took_s = 0.0
        self._is_wanted = True
        self._found: Future[tuple[Candidate | None, str]] = Future()

    @staticmethod
    def over(candidate: Candidate, plan: Plan, point: JoinPoint, dropped: int, took_s: float = 0.0) -> Search:
        """A search that is over because its candidate is known."""
        search = Search(plan, point, dropped)
        search.took_s = took_s
        search._found.set_result((candidate, ""))
        return search

    def run_at_once(self, candidates: Candidates) -> None:
        """Find the motion, unless the plan has to be slowed: that takes longer, and the search is not over then."""
        candidate, finding = candidates.at_once(self.read, self.point)
        if not finding or not candidates.slows:
            self._found.set_result((candidate, finding))

    def run(self, candidates: Candidates) -> None:
        """Search, in any thread."""
        began = time.monotonic()

        def wanted(reading: Reading) -> Iterator[PlannedMotion]:
            for planned in self.read(reading):
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

    def is_done(self) -> bool:
        """Return whether the search is over."""
        return self._found.done()

    def result(self) -> tuple[Candidate | None, str]:
        """The candidate, and what is wrong with it. Raises Rejected."""
        return self._found.result()

    @property
    def succeeded(self) -> bool:
        """Return whether a candidate without a fault was found."""
        return self._found.exception() is None and not self._found.result()[1]

    def begun_at(self, join_ns: int) -> Search:
        """The same candidate, begun at another time, since it begins at rest."""
        candidate, _ = self.result()
        begun_ns = candidate.planned.start_ns + join_ns - self.point.join_ns
        candidate = candidate._replace(planned=candidate.planned._replace(start_ns=begun_ns))
        return Search.over(candidate, self.plan, self.point._replace(join_ns=join_ns), self.dropped, self.took_s)

    def tell(self, over: Callable[[], None]) -> None:
        """Have a function called when the search is over, in its thread."""
        self._found.add_done_callback(lambda _: over())


class _NotWanted(Exception):
    """A search that was dropped ends."""
