"""Numbers that mean the same everywhere: units of messages, and what is too little to count."""

from __future__ import annotations

NANOSECOND_S = 1e-9
"""Of messages and clocks."""
MOMENT_S = 1e-3
"""Duration of a motion that only says where joints rest; what is shorter is not cut out of a motion."""
SAME_END_RAD = 1e-3
"""Two motions that end closer than this end at one place."""
RESTS = 0.02
"""Relative to full speed: measured velocities up to this count as rest."""
