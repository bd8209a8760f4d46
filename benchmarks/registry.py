"""Suites of cases that can be measured, each with its peers, its limit and a check of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec

Run = Callable[[], object]
Check = Callable[[object], None]

_ROS = "rclpy", "traj_integrator_interfaces"
SUITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cpu_entries": (".suites.cpu", ()),
    "cpu_kernels": (".suites.cpu", ()),
    "cpu_one_trajectory": (".suites.one", ()),
    "answering": (".answering", ("ruckig",)),
    "ros_latency": (".ros.latency", _ROS),
    "message_costs": (".ros.costs", _ROS),
    "cuda_kernels": (".suites.cuda", ()),
    "cuda_sweep": (".suites.cuda", ()),
    "cuda_engine": (".suites.cuda", ()),
}
"""Module of each suite, which is a function of that name there, and what it needs beside torch."""


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
    """Others, and limits that no implementation can beat by much, for example a copy of the same bytes."""
    dtype: str = "float32"
    device: str = "cpu"
    targets: dict[str, float] = field(default_factory=dict)
    """Least ratio peer / ours by the peer's name."""
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
        """Our contender and the peers."""
        return [self.ours, *self.peers]


class CannotRun(Exception):
    """A suite cannot run here; the message says why."""


def cases_of(name: str, quick: bool) -> Iterator[Case]:
    """Yield the cases of a suite, fewer if the run is to be quick. Raises CannotRun."""
    module, needed = SUITES[name]
    if missing := [library for library in needed if find_spec(library) is None]:
        raise CannotRun(f"{missing[0]} cannot be imported")
    yield from getattr(import_module(module, __package__), name)(quick)
