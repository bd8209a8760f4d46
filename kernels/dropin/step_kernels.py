"""The step kernels with the calling convention of caller-owned buffers; they compute what the functional steps do.

The clique kernels take `traj_dt` as 1 / dt, the acceleration kernels as dt; the steps themselves take seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..call import fast_map
from ..maps.held import integrator_name
from ..maps.table import MAPS, ControlMap
from ..types import AccelerationIntegrator, ControlSpace, Trajectory
from .buffers import with_gradient_buffer, write_trajectory

# Names in the functional steps of the arguments that have other names here.
_ARGUMENT_NAMES = {"action": "u_act", "dt": "traj_dt"}
# Step lengths that differ only by float32 rounding count as equal.
_UNIFORM_TOLERANCE = 1e-6

_BUFFER_NAMES = ("out_position", "out_velocity", "out_acceleration", "out_jerk")

Start = tuple[Tensor, Tensor | None, Tensor | None]


def _clique() -> ControlMap:
    return MAPS["clique"]


def _central() -> ControlMap:
    return MAPS["clique_central"]


def _acceleration(integrator: AccelerationIntegrator | str = AccelerationIntegrator.ZOH) -> ControlMap:
    return MAPS[f"acceleration_{integrator_name(integrator)}"]


def _run(
    map_of: Callable[..., ControlMap],
    u_act: Tensor,
    start: Start,
    start_idx: Tensor | None,
    buffers: tuple[Tensor, Tensor, Tensor, Tensor],
    traj_dt: Tensor | float,
    out_grad_position: Tensor | None,
    scheme: dict[str, AccelerationIntegrator | str],
) -> Trajectory:
    kernel = map_of(**scheme)
    is_rate = kernel.control_space is ControlSpace.POSITION
    if not (torch.compiler.is_compiling() or torch.is_inference_mode_enabled()):
        fast = fast_map(kernel.operator, *kernel.scheme)
        if fast is not None:
            values, indices = (u_act, *start), (start_idx, None)
            written = fast.step(values, indices, traj_dt, "step", buffers, out_grad_position, is_rate=is_rate)
            if written is not None:
                return written
    if not isinstance(u_act, Tensor):
        raise TypeError(f"u_act: expected a tensor, got {type(u_act).__name__}")
    try:
        dt = _reciprocal(traj_dt) if is_rate else traj_dt
        dt = _uniform(dt, u_act) if kernel.uniform_dt_only else dt
        action = with_gradient_buffer("out_grad_position", out_grad_position, u_act)
        trajectory = kernel.step(action, *start, dt=dt, start_index=start_idx)
    except (TypeError, ValueError) as error:
        name, colon, rest = str(error).partition(":")
        raise type(error)(_ARGUMENT_NAMES.get(name, name) + colon + rest) from None
    return write_trajectory(trajectory, dict(zip(_BUFFER_NAMES, buffers, strict=True)))


class _StepKernel:
    """One start state for each trajectory."""

    _map: Callable[..., ControlMap] = staticmethod(_clique)
    """Returns the map of the scheme that is given by keyword."""

    @classmethod
    def apply(
        cls,
        u_act: Tensor,
        start_position: Tensor,
        start_velocity: Tensor | None,
        start_acceleration: Tensor | None,
        out_position: Tensor,
        out_velocity: Tensor,
        out_acceleration: Tensor,
        out_jerk: Tensor,
        traj_dt: Tensor | float,
        out_grad_position: Tensor | None,
        **scheme: AccelerationIntegrator | str,
    ) -> Trajectory:
        """Write the trajectory into the buffers and return views of them that carry the gradient.

        Args:
            u_act: actions `[B, Ha, D]`, rad (acceleration kernels: rad/s^2).
            start_position: `[B, D]` or `[1, D]`, rad, the dtype of u_act.
            start_velocity: as start_position, rad/s; None means 0.
            start_acceleration: as start_position, rad/s^2; None means 0.
            out_position: `[B, H, D]` contiguous, dtype and device of u_act; H = Ha, central difference Ha + 4.
            out_velocity: as out_position.
            out_acceleration: as out_position.
            out_jerk: as out_position.
            traj_dt: step lengths, s; for the clique kernels their reciprocals, 1/s. A number, a scalar tensor, `[1]`,
                `[H]`, `[B, 1]` or `[B, H]`; central difference: all H alike.
            out_grad_position: `[B, Ha, D]` contiguous: receives the gradient of u_act in the backward pass and, where
                u_act is a leaf, is returned as that gradient; valid until the next backward into it. None: torch
                allocates the gradient.
            scheme: for the acceleration kernels only: `integrator`, "zoh" (default) or "semi_implicit_euler".

        Returns:
            Views of the four buffers, in the dtype of u_act. Once a buffer is written again, using its old view raises
            an error, and so does a backward that needs the old numbers. The views cannot be changed in place.

        Raises:
            TypeError: an argument of a wrong type, or start states of another dtype than u_act; named.
            ValueError: an argument of a wrong shape, device or value, or an unsuitable buffer; named. Nothing has been
                written then.

        """
        start = (start_position, start_velocity, start_acceleration)
        buffers = (out_position, out_velocity, out_acceleration, out_jerk)
        return _run(cls._map, u_act, start, None, buffers, traj_dt, out_grad_position, scheme)


class _IdxStepKernel:
    """A pool of start states, one of them picked for each trajectory."""

    _map: Callable[..., ControlMap] = staticmethod(_clique)

    @classmethod
    def apply(
        cls,
        u_act: Tensor,
        start_position: Tensor,
        start_velocity: Tensor | None,
        start_acceleration: Tensor | None,
        start_idx: Tensor,
        out_position: Tensor,
        out_velocity: Tensor,
        out_acceleration: Tensor,
        out_jerk: Tensor,
        traj_dt: Tensor | float,
        out_grad_position: Tensor | None,
        **scheme: AccelerationIntegrator | str,
    ) -> Trajectory:
        """Write the trajectory into the buffers, as the kernel without Idx does, from a pool of start states.

        The starts are pools `[S, D]`, and `start_idx` `[B]`, int32 or int64, the row of the pool that each trajectory
        starts from. The gradients of a row that several trajectories share add up, in the same order in every run.
        """
        start = (start_position, start_velocity, start_acceleration)
        buffers = (out_position, out_velocity, out_acceleration, out_jerk)
        return _run(cls._map, u_act, start, start_idx, buffers, traj_dt, out_grad_position, scheme)


class CliqueTensorStepKernel(_StepKernel):
    """Position actions to the trajectory by backward differences; traj_dt is 1 / dt."""


class CliqueTensorStepIdxKernel(_IdxStepKernel):
    """Position actions to the trajectory by backward differences, starts from a pool; traj_dt is 1 / dt."""


class CliqueTensorStepCoalesceKernel(_StepKernel):
    """The same as `CliqueTensorStepKernel`: the published kernels differ only in how their threads read memory."""


class CliqueTensorStepCentralDifferenceKernel(_StepKernel):
    """Position actions to the trajectory by central differences, H = Ha + 4; traj_dt is 1 / dt, uniform."""

    _map = staticmethod(_central)


class CliqueTensorStepIdxCentralDifferenceKernel(_IdxStepKernel):
    """Position actions to the trajectory by central differences, starts from a pool; traj_dt is 1 / dt, uniform."""

    _map = staticmethod(_central)


class AccelerationTensorStepKernel(_StepKernel):
    """Acceleration actions to the trajectory; traj_dt is dt."""

    _map = staticmethod(_acceleration)


class AccelerationTensorStepIdxKernel(_IdxStepKernel):
    """Acceleration actions to the trajectory, starts from a pool; traj_dt is dt."""

    _map = staticmethod(_acceleration)


def _reciprocal(traj_dt: Tensor | float) -> Tensor | float:
    """1 / traj_dt in float64; its only rounding error comes from the caller's conversion of dt to 1 / dt."""
    if isinstance(traj_dt, Tensor):
        return traj_dt.double().reciprocal() if traj_dt.dtype.is_floating_point else traj_dt
    return 1 / traj_dt if isinstance(traj_dt, (int, float)) and traj_dt else traj_dt


def _uniform(dt: Tensor | float, action: Tensor) -> Tensor | float:
    """The common step length of `[Ha]` or `[H]` equal ones; its gradient is distributed over them evenly.

    On the CPU, different step lengths raise an error; on a device, where comparing them would wait for it, they make
    the result NaN.
    """
    horizons = (action.shape[1], action.shape[1] + 4) if action.dim() == 3 else ()
    if not isinstance(dt, Tensor) or dt.dim() != 1 or dt.shape[0] < 2 or dt.shape[0] not in horizons:
        return dt
    spread = (dt.detach() - dt.detach()[:1]).abs().amax()
    uniform = spread <= _UNIFORM_TOLERANCE * dt.detach()[0].abs()
    mean = dt.mean(0, keepdim=True)
    if dt.device.type != "cpu":
        return torch.where(uniform, mean, torch.full_like(mean, torch.nan))
    if not uniform:
        raise ValueError(f"dt: central differences need one step length, got {dt.shape[0]} different ones")
    return mean
