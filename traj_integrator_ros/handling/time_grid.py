"""Bounds of times. Knows no ROS."""

from __future__ import annotations

DT_MIN_S, DT_MAX_S = 1e-6, 1e4
"""Bounds of one time step: trajectories count whole nanoseconds, up to 2^31 seconds."""
LONGEST_NS = (2**31 - 1) * 1_000_000_000
"""Limit of a Duration message, whose seconds are int32."""
