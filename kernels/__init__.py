"""Differentiable trajectory-step kernels: actions and a start state to position, velocity, acceleration and jerk.

Usable without ROS: this package imports nothing but torch. One public function for each control map:

=====================  ==============================================================
`clique_step`          positions, backward differences
`clique_central_step`  positions, five-point central differences
`velocity_step`        velocities
`acceleration_step`    accelerations (zero-order hold or semi-implicit Euler)
`jerk_step`            jerks
`bspline_step`         control points of a uniform B-spline, to rest or to a goal state
=====================  ==============================================================

`quadratic_cost` computes a cost of trajectories, with gradients, in one pass, and `limit_violations` how far they
exceed limits. `MAPS` lists the maps with their properties; `ControlMap.vjp` gives gradients without a forward pass.
Each map is one torch operator (`torch.ops.traj_integrator`), differentiable to any order in reverse and forward mode,
under `torch.func` transforms, `torch.compile` and `torch.export`. `backend_info()` says which backend runs on which
device, and why.
"""

from .. import __version__
from .backends import Backend, BackendInfo, BackendUnavailable, backend_info, default_backend, native_kernels
from .costs import CostTerm, QuadraticCost, limit_violations, quadratic_cost
from .divided_differences import differentiate_positions
from .maps.bspline import bspline_step
from .maps.bspline_evaluation import evaluate_bspline
from .maps.bspline_fit import fit_bspline
from .maps.clique import clique_central_step, clique_step
from .maps.held import acceleration_step, jerk_step, velocity_step
from .maps.table import MAPS, ControlMap, control_map
from .splines.form import SplineForm
from .types import AccelerationIntegrator, BsplineLayout, ControlSpace, FiniteDifference, Trajectory

__all__ = [
    "MAPS",
    "AccelerationIntegrator",
    "Backend",
    "BackendInfo",
    "BackendUnavailable",
    "BsplineLayout",
    "ControlMap",
    "ControlSpace",
    "CostTerm",
    "FiniteDifference",
    "QuadraticCost",
    "SplineForm",
    "Trajectory",
    "__version__",
    "acceleration_step",
    "backend_info",
    "bspline_step",
    "clique_central_step",
    "clique_step",
    "control_map",
    "default_backend",
    "differentiate_positions",
    "evaluate_bspline",
    "fit_bspline",
    "jerk_step",
    "limit_violations",
    "quadratic_cost",
    "velocity_step",
]

native_kernels()  # This logs at import, and not at the first step, that the C++ kernels are missing, and why.
