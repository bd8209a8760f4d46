"""Cases of the rig: planners, arms, clocks and processes as they may be, and what must hold then."""

from __future__ import annotations

from . import clocks, limits, plans, restarts, scaled, states, stops, streams
from .table import CASES

__all__ = ["CASES", "clocks", "limits", "plans", "restarts", "scaled", "states", "stops", "streams"]
