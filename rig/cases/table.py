"""The cases by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..rig import Rig

Send = Callable[[], None]
"""Sends the next chunk."""

Case = Callable[[str], Iterator[Rig]]
"""A case, made from its name: yields each rig when it has been judged."""
CASES: dict[str, Case] = {}


def case(*names: str) -> Callable[[Case], Case]:
    """Register a function as the cases of these names."""

    def add(function: Case) -> Case:
        CASES.update(dict.fromkeys(names, function))
        return function

    return add


def streaming(speed: float, first: float, seconds: float = 0.5, rows: int = 16, **options: object) -> tuple[Rig, Send]:
    """Return a rig in whose stream all joints have moved for a time, s, up to a speed, rad/s; and what sends on."""
    rig = Rig(**options)
    send = rig.ramping(speed, seconds, rows)
    rig.go(first, 0.1, send)
    return rig, send
