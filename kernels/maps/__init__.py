"""The control maps, one file each: public function, its equation, and the operator that makes it differentiable.

Imports the operator modules of the folder above; of those, only `kernels/__init__` imports from here, and so do
`dropin` and the other rooms above the maps.
"""

from .acceleration import acceleration_step
from .bspline import bspline_step
from .bspline_evaluation import evaluate_bspline
from .bspline_fit import fit_bspline
from .bspline_segments import SplineSegments, bspline_segments
from .clique import clique_step
from .clique_central import clique_central_step
from .jerk import jerk_step
from .table import MAPS, ControlMap, control_map
from .velocity import velocity_step

__all__ = [
    "MAPS",
    "ControlMap",
    "SplineSegments",
    "acceleration_step",
    "bspline_segments",
    "bspline_step",
    "clique_central_step",
    "clique_step",
    "control_map",
    "evaluate_bspline",
    "fit_bspline",
    "jerk_step",
    "velocity_step",
]
