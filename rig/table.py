"""The table of scenes: what is done, around the real node or in simulated time, and what the judge says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

Figures = dict[str, float]


class Verdict(NamedTuple):
    """What the judge says of a scene."""

    fails: list[str]
    """Requirements that are not met."""
    figures: list[str]
    late: list[float]
    """Times, s, by which the machine was too late for the scene."""

    @classmethod
    def of(cls, figures: Figures, most: Mapping[str, float]) -> Verdict:
        """Hold figures against the largest ones that are allowed."""
        over = [name for name, top in most.items() if not figures.get(name, math.inf) <= top]
        fails = [f"{name} {figures.get(name, math.inf):.3g}, expected at most {most[name]:.3g}" for name in over]
        return cls(fails, [f"{name} {value:.3g}" for name, value in figures.items()], [])


class Scene(NamedTuple):
    """One scene."""

    about: str
    play: Callable[[int, bool], Verdict]
    """Plays it with a seed, and with or without reports of the controller."""


SCENES: dict[str, Scene] = {}
"""Scenes by name: importing `rig.cases` adds the live ones, and `rig.physics.scenes` those in simulated time."""
