"""The names of the drop-in module: its step kernels as a table, and closed-form expectations for all 29.

The expectations are numbers, or formulas that share nothing with the code; `CLOSED_FORMS` maps each name to its check.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from spec_oracle import spec_trajectory
from torch import Tensor
from torch.testing import assert_close

from traj_integrator_ros.kernels import integration_utils as iu
from traj_integrator_ros.kernels.integration_utils import JointState, TensorDeviceType

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
    """What tells one kernel from the others."""

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
        """Four output buffers full of NaN: what a kernel does not write shows."""
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
    """A loss that needs the numbers of every output in its backward."""
    return sum((output**2).sum() for output in outputs)


CLOSED_FORMS: dict[str, Callable[[], None]] = {}
F64 = TensorDeviceType(dtype=torch.float64)


def closed_form(name):
    return lambda check: CLOSED_FORMS.setdefault(name, check)


def t(values):
    return torch.tensor(values, dtype=torch.float64)


# Matrices --------------------------------------------------------------------------------------------------------


@closed_form("build_clique_matrix")
def _():
    result = iu.build_clique_matrix(3, t([0.5, 0.25, 0.1]), dtype=torch.float64)
    shift = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    velocity = [[0, 0, 0], [-4, 4, 0], [0, -10, 10]]
    acceleration = [[0, 0, 0], [-16, 16, 0], [0, -100, 100]]
    assert_close(result, t(shift + velocity + acceleration))


@closed_form("build_fd_matrix")
def _():
    def build(h, **options):
        return iu.build_fd_matrix(h, dtype=torch.float64, **options).tolist()

    assert build(3) == [[-1, 1, 0], [0, -1, 1], [0, 0, 0]]
    assert build(4, order=2) == [[1, -2, 1, 0], [0, 1, -2, 1], [0, 0, 1, -1], [0, 0, 0, 0]]
    assert build(3, order=0) == np.eye(3).tolist()
    assert build(3, SHIFT=True) == [[0, 0, 0], [-1, 1, 0], [0, -1, 1]]
    assert build(3, SHIFT=True, order=2) == [[0, 0, 0], [-1, 1, 0], [1, -2, 1]]
    assert build(3, PREV_STATE=True, order=2) == [[-1, 2, -1, 0, 0], [0, -1, 2, -1, 0], [0, 0, -1, 2, -1]]
    assert build(2, PREV_STATE=True) == [[1, -1, 0], [0, 1, -1]]
    assert build(5, FULL_RANK=True) == [
        [1, -1, 0, 0, 0],
        [0, 1, -1, 0, 0],
        [0, -1, 0, 1, 0],
        [0, 0, -1, 1, 0],
        [0, 0, 0, -1, 1],
    ]
    assert build(5, FULL_RANK=True, order=2) == build(5, FULL_RANK=True)  # as published, without effect


@closed_form("build_int_matrix")
def _():
    assert iu.build_int_matrix(3).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert iu.build_int_matrix(3, diagonal=-1).tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert iu.build_int_matrix(3, order=2).tolist() == [[1, 0, 0], [2, 1, 0], [3, 2, 1]]
    assert iu.build_int_matrix(2, order=0).tolist() == [[1, 0], [0, 1]]
    weighted = iu.build_int_matrix(2, order=2, traj_dt=t([2.0, 3.0]), dtype=torch.float64)
    assert weighted.tolist() == [[4, 0], [10, 9]]


@closed_form("build_start_state_mask")
def _():
    mask, n_mask = iu.build_start_state_mask(3, F64)
    assert mask.tolist() == [[1], [0], [0]]
    assert n_mask.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


@closed_form("tensor_linspace")
def _():
    assert_close(iu.tensor_linspace(t(1.0), t(3.0), 4), t([1.5, 2.0, 2.5, 3.0]))
    assert_close(iu.tensor_linspace(t([[0.0], [1.0]]), t([[1.0], [0.0]]), 2), t([[0.5, 1.0], [0.5, 0.0]]))
    assert_close(iu.tensor_linspace(t([0.0, 2.0]), t([1.0, 4.0]), 2), t([[0.5, 3.0], [1.0, 4.0]]))
    assert iu.tensor_linspace(t(0.0), t(1.0)).shape == (10,)


@closed_form("sum_matrix")
def _():
    assert iu.sum_matrix(3, 2, F64).tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]]


@closed_form("interpolate_kernel")
def _():
    expected = [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    assert_close(iu.interpolate_kernel(3, 3, F64), t(expected))


@closed_form("action_interpolate_kernel")
def _():
    held = [[0.5, 0.5], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert_close(iu.action_interpolate_kernel(2, 6, F64), t(held))
    longer = [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 0], [0, 0.5, 0.5], [0, 0, 1], [0, 1, 0]]
    assert_close(iu.action_interpolate_kernel(3, 3, F64, offset=1), t(longer))


# Steps by matrices -----------------------------------------------------------------------------------------------

STATE_ROW = [1.0, 2.0, 3.0]  # q, qd, qdd of one joint
SUM = [[1.0, 0.0], [1.0, 1.0]]
BACKWARD = [[0.0, 0.0], [-1.0, 1.0]]


@closed_form("tensor_step_jerk")
def _():
    for state in (t([STATE_ROW]), t([[STATE_ROW]])):
        seq = torch.full((1, 2, 3), torch.nan, dtype=torch.float64)
        out = iu.tensor_step_jerk(state, t([[[4.0], [6.0]]]), seq, t([0.5, 1.0]), 1, t(SUM))
        # qdd = 3 + 0.5 * 4, + 6; qd = 2 + 0.5 * 5, + 11; q = 1 + 0.5 * 4.5, + 15.5
        assert_close(out, t([[[3.25, 4.5, 5.0], [18.75, 15.5, 11.0]]]))
        assert out is seq


@closed_form("euler_integrate")
def _():
    result = iu.euler_integrate(t([[[1.0]]]), t([[[2.0], [3.0]]]), None, t(SUM))
    assert_close(result, t([[[3.0], [6.0]]]))


@closed_form("tensor_step_acc")
def _():
    for state in (t([STATE_ROW]), t([[STATE_ROW]])):
        seq = torch.full((1, 2, 3), torch.nan, dtype=torch.float64)
        out = iu.tensor_step_acc(state, t([[[4.0], [6.0]]]), seq, None, 1, t(SUM))
        # qd = 2 + 4, + 6; q = 1 + 6, + 12
        assert_close(out, t([[[7.0, 6.0, 4.0], [19.0, 12.0, 6.0]]]))
        assert out is seq


@closed_form("step_acc_semi_euler")
def _():
    for state in (t([STATE_ROW]), t([[STATE_ROW]]), t([[STATE_ROW, STATE_ROW]])):
        result = iu.step_acc_semi_euler(state, t([[[4.0], [6.0]]]), None, 1, t(SUM))
        assert_close(result, t([[[7.0, 6.0, 4.0], [19.0, 12.0, 6.0]]]))
    # Rows that differ are each added to their own step.
    result = iu.step_acc_semi_euler(t([[STATE_ROW, [2.0, 4.0, 0.0]]]), t([[[4.0], [6.0]]]), None, 1, t(SUM))
    assert_close(result, t([[[7.0, 6.0, 4.0], [22.0, 14.0, 6.0]]]))


@closed_form("tensor_step_acc_semi_euler")
def _():
    state = JointState(*t([[[1.0]], [[2.0]], [[3.0]]]))
    seq = JointState.zeros((1, 2, 1), F64)
    out = iu.tensor_step_acc_semi_euler(state, t([[[4.0], [6.0]]]), seq, None, t(SUM), 2 * t(SUM))
    assert out is seq
    assert out.acceleration.flatten().tolist() == [4, 6]
    assert out.velocity.flatten().tolist() == [6, 12]
    assert out.position.flatten().tolist() == [13, 37]


@closed_form("tensor_step_vel")
def _():
    for state in (t([STATE_ROW]), t([[STATE_ROW]])):
        seq = torch.full((1, 3, 3), torch.nan, dtype=torch.float64)
        act, dt = t([[[4.0], [7.0], [99.0]]]), t([0.5, 0.5, 0.5])
        sums, forward = iu.build_int_matrix(3, dtype=torch.float64), iu.build_fd_matrix(3, dtype=torch.float64)
        out = iu.tensor_step_vel(state, act, seq, dt, 1, 0.5 * sums, forward)
        # qd = 2, 4, 7; q = 1 + 0.5 * (2, 6, 13); qdd = 3, then (4 - 2) / 0.5, (7 - 4) / 0.5
        assert_close(out, t([[[2.0, 2.0, 3.0], [4.0, 4.0, 4.0], [7.5, 7.0, 6.0]]]))
        assert out is seq


@closed_form("tensor_step_pos")
def _():
    state = JointState(*t([[[1.0]], [[2.0]], [[3.0]]]))
    act = t([[[4.0], [9.0], [99.0]]])
    out = iu.tensor_step_pos(state, act, JointState.zeros((1, 3, 1), F64), iu.build_fd_matrix(3, dtype=torch.float64))
    assert out.position.flatten().tolist() == [1, 4, 9]
    assert out.velocity.flatten().tolist() == [2, 3, 5]
    assert out.acceleration.flatten().tolist() == [3, 1, 2]


@closed_form("tensor_step_pos_ik")
def _():
    seq, act = JointState.zeros((1, 2, 1), F64), t([[[4.0], [9.0]]])
    assert iu.tensor_step_pos_ik(act, seq) is seq
    assert_close(seq.position, act)


def clique_matrices(h=4):
    mask, n_mask = iu.build_start_state_mask(h, F64)
    return mask, n_mask, *(iu.build_fd_matrix(h, dtype=torch.float64, order=k, SHIFT=True) for k in (1, 2, 3))


def _cubes(step):
    """Positions 0, 1, 8, 27 from actions 1, 8, 27 and one that is not used; their differences."""
    outputs = step(t([[[1.0], [8.0], [27.0], [99.0]]]), t([[0.0]]), *clique_matrices())
    assert [output.flatten().tolist() for output in outputs] == [
        [0, 1, 8, 27],
        [0, 1, 7, 19],
        [0, 1, 6, 12],
        [0, 1, 5, 6],
    ]
    return outputs


CLOSED_FORMS["jit_tensor_step_pos_clique"] = lambda: _cubes(iu.jit_tensor_step_pos_clique)
CLOSED_FORMS["CliqueTensorStep"] = lambda: _cubes(iu.CliqueTensorStep.apply)


@closed_form("jit_tensor_step_pos_clique_contiguous")
def _():
    assert all(output.is_contiguous() for output in _cubes(iu.jit_tensor_step_pos_clique_contiguous))


def _pulls(step):
    """Ones behind each output: how often, and with which sign, an action stands in it."""
    matrices = clique_matrices()[1:]
    ones = torch.ones(1, 4, 1, dtype=torch.float64)
    expected = [[1, 1, 1, 0], [0, 0, 1, 0], [0, -1, 1, 0], [1, -2, 1, 0]]
    for place, numbers in enumerate(expected):
        for other in (None, torch.zeros_like(ones)):
            grads = [ones if place == k else other for k in range(4)]
            assert step(*grads, *matrices).flatten().tolist() == numbers
    return step(ones, ones, ones, ones, *matrices)


CLOSED_FORMS["jit_backward_pos_clique"] = lambda: _pulls(iu.jit_backward_pos_clique)


@closed_form("jit_backward_pos_clique_contiguous")
def _():
    assert _pulls(iu.jit_backward_pos_clique_contiguous).is_contiguous()


@closed_form("tensor_step_pos_clique")
def _():
    mask, n_mask, *differences = clique_matrices()

    def step(act, p0, *_):
        out = iu.tensor_step_pos_clique(JointState(p0), act, JointState(p0), (mask, n_mask), tuple(differences))
        return out.position, out.velocity, out.acceleration, out.jerk

    _cubes(step)


# Step kernels ----------------------------------------------------------------------------------------------------


def check_step_kernel(case, dtype=torch.float64, tolerance=1e-13, dt=0.25, lengths=None, form=None):
    """Random actions from moving starts against the specification; `tolerance` is that of each output's norm.

    `form` makes traj_dt of `lengths`, `[3, 7]` s, or of their reciprocals.
    """
    arguments = case.arguments(batch=3, horizon=7, dof=2, dt=dt, dtype=dtype)
    if form is None:
        lengths = torch.full((3, 7), dt)
    else:
        arguments.traj_dt = form(1 / lengths if case.takes_rate else lengths)
    outputs = [output.double().numpy() for output in case.apply(arguments)]
    map_name = ("clique_central" if case.extra_horizon else "clique") if case.takes_rate else "acceleration_zoh"
    for b, action in enumerate(arguments.action.double().numpy()):
        row = int(arguments.start_idx[b]) if case.indexed else b
        start = [*(rows[row].double().numpy() for rows in arguments.start), np.zeros(2)]
        expected = spec_trajectory(map_name, action, start, None, lengths[b].numpy(), ())
        for output, numbers in zip(outputs, expected, strict=True):
            assert np.linalg.norm(output[b] - numbers) <= tolerance * np.linalg.norm(numbers)


for _case in STEP_KERNELS:
    CLOSED_FORMS[_case.name] = functools.partial(check_step_kernel, _case)
