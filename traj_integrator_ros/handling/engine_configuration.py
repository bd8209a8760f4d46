"""The engine configuration that follows from the parameters. Knows no ROS."""

from __future__ import annotations

from ..engine.integrator import IntegratorConfig
from .parameters import NodeParameters


def engine_config(parameters: NodeParameters) -> IntegratorConfig:
    """Return the configuration of an engine for these parameters."""
    return IntegratorConfig(
        dof=len(parameters.joint_names),
        device=parameters.device,
        dtype=parameters.dtype,
        max_batch=parameters.max_batch,
        max_horizon=parameters.max_horizon,
        **changes_at_run_time(parameters),
    )


def changes_at_run_time(parameters: NodeParameters) -> dict[str, object]:
    """Return the fields that may change while the node runs, for `TrajectoryIntegrator.with_changes`."""
    return {
        "control_space": parameters.control_space,
        "dt": parameters.dt,
        "finite_difference": parameters.finite_difference,
        "acceleration_integrator": parameters.acceleration_integrator,
        "bspline_degree": parameters.bspline_degree,
        "bspline_steps": parameters.bspline_steps,
        "bspline_layout": parameters.bspline_layout,
    }
