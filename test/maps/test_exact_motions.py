"""Promises of single maps: the motions that each of them reproduces exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from traj_integrator_ros.kernels import acceleration_step, clique_central_step, clique_step, jerk_step, velocity_step

ANY_SIZE = {
    "batch": st.integers(1, 3),
    "horizon": st.integers(1, 40),
    "dof": st.integers(1, 7),
    "dt": st.floats(1e-3, 0.5),
    "seed": st.integers(0, 2**31),
}


def motion(coefficients: Tensor, time: Tensor, order: int = 0) -> Tensor:
    """Derivative `order` of the polynomial `sum_k c[k] t^k / k!`: coefficients [K, B, D], time [H] -> [B, H, D]."""
    terms = coefficients[order:]
    value = torch.zeros(terms.shape[1], len(time), terms.shape[2], dtype=torch.float64)
    factor = torch.ones_like(time)
    for k, term in enumerate(terms):
        value = value + term[:, None] * factor[:, None]
        factor = factor * time / (k + 1)
    return value


@settings(max_examples=60, deadline=None)
@given(**ANY_SIZE)
def test_backward_differences_return_a_sampled_quadratic(batch, horizon, dof, dt, seed):
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(3, batch, dof, generator=generator, dtype=torch.float64)
    time = torch.arange(horizon + 1, dtype=torch.float64) * dt
    trajectory = clique_step(motion(c, time[1:]), *c, dt=dt)
    midpoints = time[:horizon] - dt / 2
    midpoints[0] = 0.0  # row 0 is the start itself
    rounding = 1e-14 * (1 + c.abs().sum() * (1 + time[-1] ** 2))
    torch.testing.assert_close(trajectory.velocity, motion(c, midpoints, 1), rtol=0, atol=float(rounding / dt))
    torch.testing.assert_close(
        trajectory.acceleration, c[2][:, None].expand(-1, horizon, -1), rtol=0, atol=float(4 * rounding / dt**2)
    )
    assert trajectory.jerk.abs().max() <= 8 * rounding / dt**3


@settings(max_examples=60, deadline=None)
@given(**ANY_SIZE)
def test_central_differences_return_a_sampled_cubic_exactly_up_to_the_hold(batch, horizon, dof, dt, seed):
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(4, batch, dof, generator=generator, dtype=torch.float64)
    time = (torch.arange(horizon + 4, dtype=torch.float64) - 1) * dt
    trajectory = clique_central_step(motion(c, time[2 : horizon + 2]), *c, dt=dt)
    free = slice(0, horizon)  # stencils that do not reach the held points
    rounding = 1e-14 * (1 + c.abs().sum() * (1 + time[-1].abs() ** 3))
    for order, output in enumerate(trajectory):
        torch.testing.assert_close(
            output[:, free], motion(c, time[free], order), rtol=0, atol=float(8 * rounding / dt**order)
        )
    held = trajectory.position[:, -1]
    torch.testing.assert_close(held, motion(c, time[horizon + 1 : horizon + 2])[:, 0], rtol=1e-12, atol=1e-12)
    assert trajectory.velocity[:, -1].abs().max() == 0


@pytest.mark.parametrize(("step", "orders"), [(velocity_step, 2), (acceleration_step, 3), (jerk_step, 3)])
@settings(max_examples=40, deadline=None)
@given(horizon=st.integers(1, 60), dof=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_a_constant_action_integrates_to_the_closed_form(step, orders, horizon, dof, seed):
    """The motion is one polynomial on any grid: no step may deviate from it."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(4 if step is jerk_step else orders, 1, dof, generator=generator, dtype=torch.float64)
    dt = 0.001 + 0.1 * torch.rand(horizon, generator=generator, dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    trajectory = step(c[-1][:, None].expand(1, horizon, dof), *c[:3], dt=dt)
    for order, output in enumerate(trajectory[:orders]):
        torch.testing.assert_close(output, motion(c, time, order), rtol=1e-11, atol=1e-11)


def test_jerk_phases_of_a_planner_reproduce_the_states_between_them(shared_data):
    """Ground truth of another program: a jerk-limited motion's seven phases per joint and its state at each switch."""
    profile = json.loads(shared_data("generated-ruckig/panda_ruckig_p2p_profile.json").read_text())
    for phases in profile["profiles"]:
        start = [torch.tensor([[phases[key][0]]], dtype=torch.float64) for key in "pva"]
        jerks = torch.tensor([*phases["j"], 0.0], dtype=torch.float64)[None, :, None]
        dt = torch.tensor([1.0, *phases["t"]], dtype=torch.float64)
        trajectory = jerk_step(jerks, *start, dt=dt)
        for key, output in zip("pva", trajectory[:3], strict=True):
            np.testing.assert_allclose(output[0, :, 0].numpy(), phases[key], rtol=0, atol=1e-12)
