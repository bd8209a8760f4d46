"""Cases of the rig: what only a real node in real time shows, and its requirements.

What the node's executor decides by itself is judged in simulated time: `python -m soak --random`, `rig --physics`, and
test/governor.
"""

from __future__ import annotations

from . import clocks, faults, limits, restarts, scaled, states, stops, streams

__all__ = ["clocks", "faults", "limits", "restarts", "scaled", "states", "stops", "streams"]
