"""Numbers with one meaning everywhere: units of messages, and differences that are too small to count."""

from __future__ import annotations

import numpy as np

NANOSECOND_S, SECOND_NS = 1e-9, 10**9
"""Messages and clocks count nanoseconds."""
ROUNDING = 1e-9
"""Relative, or in rad, rad/s or s: differences up to this are rounding."""
SAME = np.array([[1e-10], [1e-8], [1e-6]])
"""rad, rad/s, rad/s^2: differences of states up to these are rounding and are ignored."""
STANDS_RAD_S = 1e-6
"""Commanded velocities up to this are rounding of rest, and have no direction."""
MOMENT_S = 1e-3
"""Duration of a motion that only says where joints rest; nothing shorter is cut out of a motion."""
SAME_END_RAD = 1e-3
"""Two motions that end closer than this end at one place."""
RESTS = 0.02
"""Relative to full speed: measured velocities up to this count as rest."""
MOST_KEPT = 4096
"""Most values that are kept of a kind: at 100 Hz those of 40 s."""


def whole_ns(seconds: float) -> int:
    """A time, s, in whole nanoseconds."""
    return round(seconds * SECOND_NS)
