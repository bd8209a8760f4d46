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

    Row 0 is the start state; `velocity[:, h] = action[:, h - 1]` for h >= 1, so the last action is unused and gets
    gradient 0. Differentiable in every tensor argument, to any order.

    Args:
        action: `[B, H, D]` velocities, rad/s; float32, float64, float16 or bfloat16.
        start_position: `[B, D]` rad, `[1, D]` for all, or a pool `[S, D]` for `start_index`; the dtype of action.
        start_velocity: like `start_position`, rad/s; None means 0.
        start_acceleration: like `start_position`, rad/s^2; None means 0.
        dt: step lengths, s: a number, a scalar tensor, `[H]`, `[B, 1]` or `[B, H]`; `dt[h]` leads from row h - 1 to h
            (`dt[0]` is not used). Values are not checked when given as a tensor.
        start_index: `[B]` int32 or int64, row of the start pool for each trajectory.
        dt_per: what a one-dimensional `dt` has one element for: "step" (`[H]`) or "trajectory" (`[B]`).
        backend: the backend that computes; None for the device's default (see `backend_info`).

    Returns:
        Trajectory of `[B, H, D]` tensors in the action's dtype.

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape, device or value, named.
        BackendUnavailable: the backend cannot run on this device.

    """
    start = (start_position, start_velocity, start_acceleration)
    return step(VELOCITY, action, start, dt, start_index, dt_per, backend)


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

    `acceleration[:, h] = action[:, h - 1]` for h >= 1, rad/s^2. `integrator` is "zoh", exact for an acceleration held
    over each step, or "semi_implicit_euler", which moves the position by the velocity at the end of the step. All other
    arguments, the results and the errors are those of `velocity_step`.
    """
    start = (start_position, start_velocity, start_acceleration)
    scheme = integrator_name(integrator)
    return step(ACCELERATION, action, start, dt, start_index, dt_per, backend, scheme)


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

    `jerk[:, h] = action[:, h - 1]` for h >= 1, rad/s^3. All arguments, the results and the errors are those of
    `velocity_step`.
    """
    start = (start_position, start_velocity, start_acceleration)
    return step(JERK, action, start, dt, start_index, dt_per, backend)


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
