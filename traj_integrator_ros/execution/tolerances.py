"""Constants with the same meaning in all rooms: units of messages, and differences that are too small to count."""

from __future__ import annotations

import numpy as np

NANOSECOND_S = 1e-9
"""Seconds in a nanosecond: messages and clocks count nanoseconds."""
SECOND_NS = 10**9
"""Nanoseconds in a second."""
ROUNDING = 1e-9
"""Largest difference that counts as rounding: relative, or in rad, rad/s or s."""
SAME = np.array([[1e-10], [1e-8], [1e-6]])
"""Largest differences of two states that count as rounding: rad, rad/s, rad/s^2."""
STANDS_RAD_S = 1e-6
"""Largest commanded velocity, rad/s, that counts as rest: it is rounding, and has no direction."""
MOMENT_S = 1e-3
"""Duration, s, of a motion at rest; no shorter part is cut out of a motion."""
SAME_END_RAD = 1e-3
"""Largest distance, rad or m, of two ends that count as the same end."""
RESTS = 0.02
"""Largest measured velocity that counts as rest, as a share of full speed."""
MOST_KEPT = 4096
"""Largest number of values of a kind that are kept: at 100 Hz, those of 40 s."""


def whole_ns(seconds: float) -> int:
    """Round a time, s, to whole nanoseconds."""
    return round(seconds * SECOND_NS)
