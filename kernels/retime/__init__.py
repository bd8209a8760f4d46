"""Retiming: finds the earliest times at which a path can be passed within limits, or slows a plan that exceeds them.

C++ (`src/`) does the computation and needs nothing but Python's headers; this room checks arguments and keeps results.
It may import the modules that the kernels share, but no other room of theirs.
"""

from .certificate import Certificate, certify
from .limits import MotionLimits
from .retimed import Retimed, RetimeStatus
from .retiming import retime

__all__ = ["Certificate", "MotionLimits", "RetimeStatus", "Retimed", "certify", "retime"]
