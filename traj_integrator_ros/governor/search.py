"""The search for the motion to a plan, in any thread, so that no stop waits for it. Knows no ROS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from ..requests.plan import Plan
from .candidates import BlendPoint, Candidate, Candidates, Interpolants
from .reference import Interpolation, PlannedMotion


class Search:
    """A search for the motion to a plan, which can be dropped.

    Args:
        plan: the plan.
        point: the commanded state where the plan begins.
        dropped: number of steps of the plan that are over by then.
        interpolants: yields the interpolants of the plan.

    """

    def __init__(self, plan: Plan, point: BlendPoint, dropped: int, interpolants: Interpolants | None = None) -> None:
        self.plan, self.point, self.dropped, self.interpolants = plan, point, dropped, interpolants
        self.took_s = 0.0
        self._is_wanted = True
        self._found: Future[tuple[Candidate | None, str]] = Future()

    @staticmethod
    def over(candidate: Candidate, plan: Plan, point: BlendPoint, dropped: int, took_s: float = 0.0) -> Search:
        """Return a search that is over because its candidate is known."""
        search = Search(plan, point, dropped)
        search.took_s = took_s
        search._found.set_result((candidate, ""))
        return search

    def run_at_once(self, candidates: Candidates) -> None:
        """Find the motion, unless the plan has to be slowed, which takes longer: then the search is not over."""
        candidate, finding = candidates.at_once(self.interpolants, self.point)
        if not finding or not candidates.slows:
            self._found.set_result((candidate, finding))

    def run(self, candidates: Candidates) -> None:
        """Search, in any thread."""
        began = time.monotonic()

        def wanted(interpolation: Interpolation) -> Iterator[PlannedMotion]:
            for planned in self.interpolants(interpolation):
                if not self._is_wanted:
                    raise _NotWanted
                yield planned

        try:
            found = candidates.first(wanted, self.point)
        except BaseException as error:  # Any error belongs to the caller who asks for the result.
            self.took_s = time.monotonic() - began
            self._found.set_exception(error)
        else:
            self.took_s = time.monotonic() - began
            self._found.set_result(found)

    def drop(self) -> None:
        """Drop the search, because its result is not wanted any more."""
        self._is_wanted = False

    def is_done(self) -> bool:
        """Return whether the search is over."""
        return self._found.done()

    def result(self) -> tuple[Candidate | None, str]:
        """Return the candidate and its fault, which is empty if it has none. Raises Rejected."""
        return self._found.result()

    @property
    def succeeded(self) -> bool:
        """Return whether a candidate without a fault was found."""
        return self._found.exception() is None and not self._found.result()[1]

    def begun_at(self, blend_ns: int) -> Search:
        """Return the same search with its candidate, which begins at rest, begun at another time."""
        candidate, _ = self.result()
        begun_ns = candidate.planned.start_ns + blend_ns - self.point.blend_ns
        candidate = candidate._replace(planned=candidate.planned._replace(start_ns=begun_ns))
        return Search.over(candidate, self.plan, self.point._replace(blend_ns=blend_ns), self.dropped, self.took_s)

    def tell(self, over: Callable[[], None]) -> None:
        """Have a function called in the search's thread when the search is over."""
        self._found.add_done_callback(lambda _: over())


class _NotWanted(Exception):
    """Ends a search that was dropped."""
