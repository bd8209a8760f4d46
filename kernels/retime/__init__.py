"""Retiming: gives a path times, as early as the limits of its joints allow, or slows a plan if it must be slowed.

The computation is in C++ (`src/`), which needs nothing but Python's headers; this room checks arguments and keeps
results. May import the machinery that the kernels share; no other room of theirs.
"""

from .certificate import Certificate, certify
from .limits import MotionLimits
from .retimed import Retimed, RetimeStatus
from .retiming import retime

__all__ = ["Certificate", "MotionLimits", "RetimeStatus", "Retimed", "certify", "retime"]
