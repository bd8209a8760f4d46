"""The search for the motion to a plan, in any thread, so that no stop waits for it. Knows no ROS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..requests.plan import Plan
from .candidates import BlendPoint, Candidate, Candidates, Interpolants
from .reference import Interpolation, PlannedMotion


class Search:
    """A search for the motion to a plan, which can be dropped.

    Args:
        plan: the plan.
        point: the commanded state where the plan begins.
        dropped: number of steps of the plan that are over by then.
        interpolants: yields the interpolants of the plan; None: its candidate is `found`.
        found: the candidate of a search that is over.

    """

    def __init__(
        self,
        plan: Plan,
        point: BlendPoint,
        dropped: int,
        interpolants: Interpolants | None = None,
        found: Candidate | None = None,
    ) -> None:
        self.plan, self.point, self.dropped, self.interpolants = plan, point, dropped, interpolants
        self.is_done, self.took_s = interpolants is None, 0.0
        self._found: tuple[Candidate | None, str] = found, ""
        self._error: BaseException | None = None
        self._is_wanted = True

    def run_at_once(self, candidates: Candidates) -> None:
        """Find the motion, unless the plan has to be slowed, which takes longer: then the search is not over."""
        found = candidates.at_once(self.interpolants, self.point)
        if not found[1] or not candidates.slows:
            self._found, self.is_done = found, True

    def run(self, candidates: Candidates, wake: Callable[[], None] = lambda: None) -> None:
        """Search, in any thread, and call `wake` at the end."""
        began = time.monotonic()
        try:
            self._found = candidates.first(self._wanted, self.point)
        except BaseException as error:  # Any error belongs to the caller who asks for the result.
            self._error = error
        self.took_s = time.monotonic() - began
        self.is_done = True
        wake()

    def _wanted(self, interpolation: Interpolation) -> Iterator[PlannedMotion]:
        for planned in self.interpolants(interpolation):
            if not self._is_wanted:
                raise _NotWanted
            yield planned

    def drop(self) -> None:
        """Drop the search, because its result is not wanted any more."""
        self._is_wanted = False

    def result(self) -> tuple[Candidate | None, str]:
        """Return the candidate and its fault, which is empty if it has none. Raises Rejected."""
        if self._error is not None:
            raise self._error
        return self._found

    @property
    def succeeded(self) -> bool:
        """Return whether a candidate without a fault was found."""
        return self._error is None and not self._found[1]

    def begun_at(self, blend_ns: int) -> Search:
        """Return the same search with its candidate, which begins at rest, begun at another time."""
        candidate, point = self._found[0], self.point._replace(blend_ns=blend_ns)
        begun_ns = candidate.planned.start_ns + blend_ns - self.point.blend_ns
        candidate = candidate._replace(planned=candidate.planned._replace(start_ns=begun_ns))
        return Search(self.plan, point, self.dropped, found=candidate)


class _NotWanted(Exception):
    """Ends a search that was dropped."""
