"""The control maps, one file each: public function, its equation, and the operator that makes it differentiable.

Imports the operator machinery of the folder above; nothing there imports from here but `kernels/__init__` and the
names of `dropin`.
"""

from .acceleration import acceleration_step
from .clique import clique_step
from .clique_central import clique_central_step
from .jerk import jerk_step
from .table import MAPS, ControlMap, control_map
from .velocity import velocity_step

__all__ = [
    "MAPS",
    "ControlMap",
    "acceleration_step",
    "clique_central_step",
    "clique_step",
    "control_map",
    "jerk_step",
    "velocity_step",
]
