"""Gradients of the references: exact transposes through actions, start state, start pool and dt, to second order."""

from __future__ import annotations

import pytest
import torch

from traj_integrator_ros.kernels import MAPS, ControlSpace, clique_central_step

MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)


def leaves(kernel, batch=2, horizon=5, dof=2, per_step=True):
    generator = torch.Generator().manual_seed(0)
    columns = horizon if per_step and not kernel.uniform_dt_only else 1
    tensors = [torch.randn(batch, horizon, dof, generator=generator, dtype=torch.float64)]
    tensors += [torch.randn(batch, dof, generator=generator, dtype=torch.float64) for _ in range(3)]
    tensors += [0.5 + torch.rand(batch, columns, generator=generator, dtype=torch.float64)]
    return [x.requires_grad_() for x in tensors]


@MAP
@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("per_step", [False, True], ids=["uniform dt", "dt per step"])
def test_first_and_second_derivatives_by_actions_start_and_dt_match_finite_differences(kernel, horizon, per_step):
    def step(action, p0, v0, a0, dt):
        return tuple(kernel.step(action, p0, v0, a0, dt=dt))

    inputs = leaves(kernel, horizon=horizon, per_step=per_step)
    # By random projections: whole Jacobians take seconds, and half a minute for splines, which have more rows.
    fast = kernel.control_space is ControlSpace.BSPLINE
    assert torch.autograd.gradcheck(step, inputs, fast_mode=fast)
    assert torch.autograd.gradgradcheck(step, inputs, fast_mode=fast or horizon > 1)


@MAP
def test_pool_rows_collect_the_gradients_of_all_trajectories_that_start_from_them(kernel):
    action, *_, dt = leaves(kernel, batch=5)
    pool = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    index = torch.tensor([1, 1, 0, 1, 0])  # row 2 starts no trajectory
    weights = [torch.randn(5, kernel.output_horizon(5), 2, dtype=torch.float64) for _ in range(4)]

    def cost(trajectory):
        return sum((weight * output).sum() for weight, output in zip(weights, trajectory, strict=True))

    pooled = torch.autograd.grad(cost(kernel.step(action, *pool, dt=dt, start_index=index)), pool)
    rows = [x.detach()[index].requires_grad_() for x in pool]
    single = torch.autograd.grad(cost(kernel.step(action, *rows, dt=dt)), rows)
    for got, per_row in zip(pooled, single, strict=True):
        torch.testing.assert_close(got, torch.zeros_like(got).index_add(0, index, per_row))
        assert not got[2].any()


@MAP
def test_the_unused_last_action_gets_gradient_zero(kernel):
    action, *start, dt = leaves(kernel)
    (gradient,) = torch.autograd.grad(sum(output.sum() for output in kernel.step(action, *start, dt=dt)), action)
    assert bool(gradient[:, -1].any()) == (kernel.output_horizon(5) > 5)


def test_truncated_terminal_gradient_leaves_the_last_action_its_position_gradient_alone():
    kernel = MAPS["clique_central"]
    action, *start, dt = leaves(kernel)
    exact = clique_central_step(action, *start, dt=dt)
    truncated = clique_central_step(action, *start, dt=dt, truncate_terminal_gradient=True)
    for name, a, b in zip(exact._fields, exact, truncated, strict=True):
        assert torch.equal(a, b)
        (full,) = torch.autograd.grad(a.pow(2).sum(), action, retain_graph=True)
        (cut,) = torch.autograd.grad(b.pow(2).sum(), action, retain_graph=True, allow_unused=True)
        assert torch.equal(full[:, :-1], cut[:, :-1])
        assert torch.equal(cut[:, -1], full[:, -1] if name == "position" else torch.zeros_like(cut[:, -1]))


@MAP
def test_gradients_of_float32_inputs_arrive_in_float32(kernel):
    inputs = [x.detach().float().requires_grad_() for x in leaves(kernel)]
    trajectory = kernel.step(*inputs[:4], dt=inputs[4])
    for gradient in torch.autograd.grad(sum(output.sum() for output in trajectory), inputs):
        assert gradient.dtype is torch.float32
