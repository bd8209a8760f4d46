"""The step kernels of the drop-in module as a table, with arguments and buffers for each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from traj_integrator_ros.kernels import integration_utils as iu

OUT_NAMES = ("out_position", "out_velocity", "out_acceleration", "out_jerk")


@dataclass
class Arguments:
    """One set of arguments of a step kernel; the start rows and dt are tensors, dt in seconds or reciprocal."""

    action: Tensor
    start: list[Tensor]
    start_idx: Tensor | None
    traj_dt: Tensor

    @property
    def tensors(self) -> list[Tensor]:
        return [self.action, *self.start, self.traj_dt]

    @property
    def differentiable(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors if tensor.requires_grad]


@dataclass(frozen=True)
class StepKernel:
    """Properties in which one kernel differs from the others."""

    name: str
    indexed: bool = False
    extra_horizon: int = 0
    takes_rate: bool = True  # traj_dt is 1 / dt

    @property
    def function(self):
        return getattr(iu, self.name)

    def arguments(
        self, batch=2, horizon=4, dof=2, dt=0.5, dtype=torch.float64, requires_grad=False, seed=0
    ) -> Arguments:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape):
            values = torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
            return values.requires_grad_(requires_grad)

        pool = batch + 1 if self.indexed else batch
        # Two trajectories share a row of the pool, and one row is not used.
        index = torch.arange(batch, dtype=torch.int32).clamp(max=max(batch - 2, 0)) if self.indexed else None
        traj_dt = torch.tensor([1 / dt if self.takes_rate else dt], dtype=dtype, requires_grad=requires_grad)
        return Arguments(draw(batch, horizon, dof), [draw(pool, dof) for _ in range(3)], index, traj_dt)

    def buffers(self, action: Tensor) -> list[Tensor]:
        """Four output buffers full of NaN, so that unwritten places show."""
        batch, horizon, dof = action.shape
        shape = (batch, horizon + self.extra_horizon, dof)
        return [torch.full(shape, torch.nan, dtype=action.dtype) for _ in range(4)]

    def apply(self, arguments: Arguments, buffers=None, grad_buffer=None):
        return self(*arguments.tensors, start_idx=arguments.start_idx, buffers=buffers, grad_buffer=grad_buffer)

    def __call__(self, action, p0, v0, a0, traj_dt, *, start_idx=None, buffers=None, grad_buffer=None):
        buffers = self.buffers(action) if buffers is None else buffers
        index = (start_idx,) if self.indexed else ()
        return self.function.apply(action, p0, v0, a0, *index, *buffers, traj_dt, grad_buffer)

    def on(self, arguments: Arguments):
        """The kernel as a function of its five differentiable arguments, with fresh buffers for every call."""
        return lambda *tensors: tuple(self(*tensors, start_idx=arguments.start_idx))

    def __str__(self) -> str:
        return self.name


STEP_KERNELS = (
    StepKernel("CliqueTensorStepKernel"),
    StepKernel("CliqueTensorStepIdxKernel", indexed=True),
    StepKernel("CliqueTensorStepCentralDifferenceKernel", extra_horizon=4),
    StepKernel("CliqueTensorStepIdxCentralDifferenceKernel", indexed=True, extra_horizon=4),
    StepKernel("CliqueTensorStepCoalesceKernel"),
    StepKernel("AccelerationTensorStepKernel", takes_rate=False),
    StepKernel("AccelerationTensorStepIdxKernel", indexed=True, takes_rate=False),
)


def squares(outputs) -> Tensor:
    """A loss whose backward needs the values of every output."""
    return sum((output**2).sum() for output in outputs)
