"""Velocities, accelerations and jerks, each held over its step (docs/kernels.md)."""

from __future__ import annotations

from torch import Tensor

from ..backends import Backend
from ..call import step
from ..operator import StepOperator
from ..types import AccelerationIntegrator, Trajectory


def velocity_step(
    action: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    *,
    dt: float | Tensor,
    start_index: Tensor | None = None,
    dt_per: str = "step",
    backend: Backend | str | None = None,
) -> Trajectory:
    """Integrate velocity actions, each held over its step; acceleration and jerk are backward differences.

    Row 0 is the start state; `velocity[:, h] = action[:, h - 1]` for h >= 1, rad/s. `dt[0]` is not used. All arguments,
    the results and the errors are those of `clique_step`.
    """
    values = (action, start_position, start_velocity, start_acceleration)
    return step(VELOCITY, values, (start_index, None), dt, dt_per, backend)


def acceleration_step(
    action: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    *,
    dt: float | Tensor,
    start_index: Tensor | None = None,
    dt_per: str = "step",
    integrator: AccelerationIntegrator | str = AccelerationIntegrator.ZOH,
    backend: Backend | str | None = None,
) -> Trajectory:
    """Integrate acceleration actions, each held over its step; jerk is their backward difference.

    Row 0 is the start state; `acceleration[:, h] = action[:, h - 1]` for h >= 1, rad/s^2. `dt[0]` is not used.
    `integrator` is "zoh", exact for an acceleration held over each step, or "semi_implicit_euler", which moves the
    position by the velocity at the end of the step. All other arguments, the results and the errors are those of
    `clique_step`.
    """
    values = (action, start_position, start_velocity, start_acceleration)
    return step(ACCELERATION, values, (start_index, None), dt, dt_per, backend, integrator_name(integrator))


def jerk_step(
    action: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    *,
    dt: float | Tensor,
    start_index: Tensor | None = None,
    dt_per: str = "step",
    backend: Backend | str | None = None,
) -> Trajectory:
    """Integrate jerk actions, each held over its step, by the exact cubic.

    Row 0 is the start state; `jerk[:, h] = action[:, h - 1]` for h >= 1, rad/s^3. `dt[0]` is not used. All arguments,
    the results and the errors are those of `clique_step`.
    """
    values = (action, start_position, start_velocity, start_acceleration)
    return step(JERK, values, (start_index, None), dt, dt_per, backend)


def integrator_name(integrator: AccelerationIntegrator | str) -> str:
    """Return the name of an integration scheme."""
    # `value` takes longer than everything else here.
    name = integrator._value_ if isinstance(integrator, AccelerationIntegrator) else integrator
    if name not in _INTEGRATORS:
        raise ValueError(f"integrator: expected one of {', '.join(map(repr, _INTEGRATORS))}, got {integrator!r}")
    return name


# Plain strings, because torch.compile of older versions cannot trace an enum.
_INTEGRATORS = tuple(scheme.value for scheme in AccelerationIntegrator)
VELOCITY = StepOperator("velocity")
ACCELERATION = StepOperator("acceleration", integrators=AccelerationIntegrator)
JERK = StepOperator("jerk")
