"""Functions of float64 tensors for gradcheck: one for each of the 29 names that takes a tensor to differentiate by.

`DIFFERENTIABLE` maps the names to makers of a function and its arguments, which all require grad.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from integration_cases import STEP_KERNELS

from traj_integrator_ros.kernels import integration_utils as iu
from traj_integrator_ros.kernels.integration_utils import JointState, TensorDeviceType

DIFFERENTIABLE: dict[str, Callable[[], tuple[Callable, tuple]]] = {}
F64 = TensorDeviceType(dtype=torch.float64)


def differentiable(*names):
    """Register `make(name)`, which returns a function and its arguments."""

    def register(make):
        for name in names:
            DIFFERENTIABLE[name] = lambda name=name: make(name)

    return register


def leaf(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + 100 * len(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def square(seed=0):
    return leaf(3, 3, seed=seed)


def steps():
    return torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64, requires_grad=True)


def sequence():
    return torch.zeros(2, 3, 6, dtype=torch.float64)


def state_sequence():
    return JointState.zeros((2, 3, 2), F64)


def fields(state, names="position velocity acceleration"):
    return tuple(getattr(state, name) for name in names.split())


@differentiable("build_clique_matrix")
def _(_name):
    return lambda dt: iu.build_clique_matrix(3, dt, dtype=torch.float64), (steps(),)


@differentiable("build_int_matrix")
def _(_name):
    return lambda dt: iu.build_int_matrix(3, order=2, traj_dt=dt, dtype=torch.float64), (steps(),)


@differentiable("tensor_linspace")
def _(_name):
    return lambda a, b: iu.tensor_linspace(a, b, 3), (leaf(2, 1), leaf(2, 1, seed=1))


@differentiable("euler_integrate")
def _(_name):
    return lambda q, u, m: iu.euler_integrate(q, u, None, m), (leaf(2, 1, 2), leaf(2, 3, 2), square())


@differentiable("tensor_step_jerk")
def _(_name):
    arguments = leaf(2, 6), leaf(2, 3, 2), steps(), square()
    return lambda s, u, dt, m: iu.tensor_step_jerk(s, u, sequence(), dt, 2, m), arguments


@differentiable("tensor_step_acc")
def _(_name):
    return lambda s, u, m: iu.tensor_step_acc(s, u, sequence(), None, 2, m), (leaf(2, 6), leaf(2, 3, 2), square())


@differentiable("step_acc_semi_euler")
def _(_name):
    return lambda s, u, m: iu.step_acc_semi_euler(s, u, None, 2, m), (leaf(2, 6), leaf(2, 3, 2), square())


@differentiable("tensor_step_acc_semi_euler")
def _(_name):
    def step(q, qd, u, m, n):
        return fields(iu.tensor_step_acc_semi_euler(JointState(q, qd), u, state_sequence(), None, m, n))

    return step, (leaf(2, 2), leaf(2, 2, seed=1), leaf(2, 3, 2), square(), square(seed=1))


@differentiable("tensor_step_vel")
def _(_name):
    arguments = leaf(2, 6), leaf(2, 3, 2), steps(), square(), square(seed=1)
    return lambda s, u, dt, m, fd: iu.tensor_step_vel(s, u, sequence(), dt, 2, m, fd), arguments


@differentiable("tensor_step_pos")
def _(_name):
    def step(q, qd, qdd, u, fd):
        return fields(iu.tensor_step_pos(JointState(q, qd, qdd), u, state_sequence(), fd))

    return step, (*(leaf(2, 2, seed=k) for k in range(3)), leaf(2, 3, 2), square())


@differentiable("tensor_step_pos_ik")
def _(_name):
    return lambda u: iu.tensor_step_pos_ik(u, state_sequence()).position, (leaf(2, 3, 2),)


@differentiable("tensor_step_pos_clique")
def _(_name):
    def step(q, u, mask, n_mask, *differences):
        out = iu.tensor_step_pos_clique(JointState(q), u, state_sequence(), (mask, n_mask), differences)
        return fields(out, "position velocity acceleration jerk")

    return step, (leaf(2, 2), leaf(2, 3, 2), leaf(3, 1), *(square(seed=k) for k in range(4)))


@differentiable("jit_tensor_step_pos_clique", "jit_tensor_step_pos_clique_contiguous", "CliqueTensorStep")
def _(name):
    arguments = leaf(2, 3, 2), leaf(2, 2), leaf(3, 1), *(square(seed=k) for k in range(4))
    return getattr(getattr(iu, name), "apply", getattr(iu, name)), arguments


@differentiable("jit_backward_pos_clique", "jit_backward_pos_clique_contiguous")
def _(name):
    arguments = *(leaf(2, 3, 2, seed=k) for k in range(4)), *(square(seed=k) for k in range(4))
    return getattr(iu, name), arguments


@differentiable(*(case.name for case in STEP_KERNELS))
def _(name):
    case = next(case for case in STEP_KERNELS if case.name == name)
    arguments = case.arguments(batch=2, horizon=3, dof=1, requires_grad=True)
    return case.on(arguments), tuple(arguments.differentiable)
