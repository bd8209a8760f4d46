"""Scenes around the real node, and how they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..rig import Rig
from ..table import SCENES, Scene, Verdict

Send = Callable[[], None]
"""Sends the next chunk."""

Case = Callable[[str], Iterator[Rig]]
"""A case, made from its name: yields each rig when it has been judged."""
_STALL_S = 0.05
"""Longest time for which this process may not be scheduled, s."""


def case(*names: str) -> Callable[[Case], Case]:
    """Register a function as the scenes of these names."""

    def add(function: Case) -> Case:
        for name in names:
            SCENES[name] = Scene(function.__doc__, lambda *_, name=name: judged(function, name))
        return function

    return add


def judged(function: Case, name: str) -> Verdict:
    """Play a case, and gather what its rigs say."""
    verdict = Verdict([], [], [])
    for rig in function(name):
        try:
            verdict.late.extend(rig.late() + [rig.stall] * (rig.stall > _STALL_S))
            verdict.fails.extend(rig.fails)
            verdict.figures.extend([*rig.figures, f"{len(rig.arrivals)} published, refused {rig.reasons()}"])
        finally:
            rig.close()
    return verdict


def streaming(speed: float, first: float, seconds: float = 0.5, rows: int = 16, **options: object) -> tuple[Rig, Send]:
    """Return a rig in whose stream all joints have moved for a time, s, up to a speed, rad/s; and what sends on."""
    rig = Rig(**options)
    send = rig.ramping(speed, seconds, rows)
    rig.go(first, 0.1, send)
    return rig, send
