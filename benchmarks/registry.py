"""Suites of cases that can be measured, each with its peers, its limit and a check of the result.

A suite is a generator of cases, registered under its name:

    @suite("cpu_kernels")
    def cpu_kernels(quick: bool, only: int | None = None) -> Iterator[Case]: ...

`only` is the one size that tests ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Run = Callable[[], object]
Check = Callable[[object], None]
Cases = Callable[..., Iterator["Case"]]

SUITES: dict[str, Cases] = {}


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case, and a check of its result that raises AssertionError if it is wrong."""

    name: str
    run: Run
    check: Check
    clock: Callable[[], float] | None = None
    """Does the work once and returns its time, s, if another process does or measures it."""


@dataclass(frozen=True)
class Case:
    """The same work done by this project and by others."""

    name: str
    batch: int
    horizon: int
    dof: int
    ours: Contender
    peers: tuple[Contender, ...] = ()
    limit: Contender | None = None
    """A limit that no implementation can beat by much, for example a copy of the same bytes."""
    dtype: str = "float32"
    device: str = "cpu"
    targets: dict[str, float] = field(default_factory=dict)
    """Least ratio peer / ours by the peer's name; "limit" stands for the limit."""
    added_targets_us: dict[str, float] = field(default_factory=dict)
    """Largest allowed difference from a peer, us, by the peer's name."""
    rounds: int | None = None
    """Samples of each contender; None leaves it to the run."""
    most_us: float | None = None
    """Largest allowed time of ours."""
    worst_us: float | None = None
    """Largest allowed time of our slowest sample."""

    @property
    def contenders(self) -> list[Contender]:
        """Our contender, the peers and the limit."""
        return [self.ours, *self.peers, *([self.limit] if self.limit else [])]


class CannotRun(Exception):
    """A suite cannot run here; the message says why."""


def sizes(quick: bool, only: int | None, few: Sequence[int], many: Sequence[int]) -> Sequence[int]:
    """Return the sizes for a quick run, a whole run, or a test."""
    if only is not None:
        return (only,)
    return few if quick else many


def suite(name: str) -> Callable[[Cases], Cases]:
    """Register a generator of cases, which is called with `quick`: whether the run is to be short."""

    def register(cases: Cases) -> Cases:
        SUITES[name] = cases
        return cases

    return register
