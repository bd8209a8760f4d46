"""From a recording to all inputs of the demo. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass

from .cleaning import clean, plan_on
from .motion import Motion
from .windows import Paths, paths_of


@dataclass(frozen=True)
class Prepared:
    """A motion in all its forms."""

    recording: Motion
    """Raw: what the player plays."""
    cleaned: Motion
    """Without repeated frames, consistently timed; results are compared with it."""
    planned: Motion
    """What the planner sends, on the samples of `cleaned`."""
    paths: Paths
    """The planned motion on the steps of windows."""


def prepare(recording: Motion) -> Prepared:
    """Clean a recording and plan on it."""
    cleaned = clean(recording)
    planned = plan_on(cleaned)
    return Prepared(recording, cleaned, planned, paths_of(cleaned, planned))
