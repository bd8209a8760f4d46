"""What can be measured: suites of cases, each with its peers, its limit and a check of the result.

A suite is a generator of cases, registered under its name:

    @suite("cpu_kernels")
    def cpu_kernels(quick: bool) -> Iterator[Case | Unmeasured]: ...
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Run = Callable[[], object]
Check = Callable[[object], None]
Cases = Callable[[bool], Iterator["Case | Unmeasured"]]
Finish = Callable[[list[dict[str, object]]], None]

SUITES: dict[str, Cases] = {}
FINISH: dict[str, Finish] = {}
"""Called with all rows of a suite, for example to plot them."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case, and a check of what it returns that raises AssertionError if it is wrong."""

    name: str
    run: Run
    check: Check
    clock: Callable[[], float] | None = None
    """Does the work once and returns what it took, s: for work that is timed, or measured, in another process."""


@dataclass(frozen=True)
class Case:
    """The same work done by us and by others."""

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
    """Most that ours may take over a peer, us, by the peer's name."""
    rounds: int | None = None
    """Samples of each contender; None leaves it to the run."""
    most_us: float | None = None
    """Most that ours may take."""
    memory: MemoryUse | None = None
    synchronize: Callable[[], None] | None = None
    """Waits for an asynchronous device."""


@dataclass(frozen=True)
class MemoryUse:
    """Memory at the peak of the work of a case."""

    peak_bytes: int
    floor_bytes: int
    """Inputs and outputs."""
    most_ratio: float
    """Most that peak / floor may be."""


@dataclass(frozen=True)
class Unmeasured:
    """Cases that cannot run here."""

    cases: str
    reason: str


def ros_is_missing() -> str:
    """What of ROS cannot be imported; empty if it is all there."""
    names = ("rclpy", "traj_integrator_interfaces")
    missing = next((name for name in names if importlib.util.find_spec(name) is None), "")
    return missing and f"{missing} cannot be imported"


def suite(name: str, finish: Finish | None = None) -> Callable[[Cases], Cases]:
    """Register a generator of cases; it is called with whether the run is to be quick.

    `finish` is called with the rows of all its cases.
    """

    def register(cases: Cases) -> Cases:
        SUITES[name] = cases
        if finish is not None:
            FINISH[name] = finish
        return cases

    return register
