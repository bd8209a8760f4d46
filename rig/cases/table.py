"""The cases by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..rig import Rig

Case = Callable[[str], Iterator[Rig]]
"""A case, made from its name: yields each rig when it has been judged."""
CASES: dict[str, Case] = {}


def case(*names: str) -> Callable[[Case], Case]:
    """Register a function as the cases of these names."""

    def add(function: Case) -> Case:
        CASES.update(dict.fromkeys(names, function))
        return function

    return add
