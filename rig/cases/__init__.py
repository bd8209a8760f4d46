"""Cases of the rig: planners, arms, clocks and processes in unusual conditions, and their requirements."""

from __future__ import annotations

from . import clocks, faults, limits, plans, restarts, scaled, states, stops, streams
from .table import CASES

__all__ = ["CASES", "clocks", "faults", "limits", "plans", "restarts", "scaled", "states", "stops", "streams"]
