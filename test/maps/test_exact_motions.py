"""Promises of single maps: the motions that each of them reproduces exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.polynomial import polyder, polyval
from scipy.special import factorial
from torch import Tensor

from traj_integrator_ros.kernels import acceleration_step, clique_central_step, clique_step, jerk_step, velocity_step

ANY_SIZE = {
    "batch": st.integers(1, 3),
    "horizon": st.integers(1, 40),
    "dof": st.integers(1, 7),
    "dt": st.floats(1e-3, 0.5),
    "seed": st.integers(0, 2**31),
}


def motion(c: Tensor, time: Tensor, order: int = 0) -> Tensor:
    """Derivative `order` of the polynomial `sum_k c[k] t^k / k!`: coefficients [K, B, D], time [H] -> [B, H, D]."""
    terms = polyder(c.numpy() / factorial(np.arange(len(c)))[:, None, None], order)
    return torch.from_numpy(polyval(time.numpy(), terms)).mT


# Backward differences give velocities between the rows, and the start's own at the first; the last rows of central
# differences hold the last point.
@pytest.mark.parametrize(("step", "degree", "before"), [(clique_step, 2, 0), (clique_central_step, 3, 1)])
@settings(max_examples=60, deadline=None)
@given(**ANY_SIZE)
def test_differences_return_a_sampled_polynomial(step, degree, before, batch, horizon, dof, dt, seed):
    c = torch.randn(degree + 1, batch, dof, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    time = (torch.arange(horizon + 1 + 2 * before) - before) * torch.tensor(dt, dtype=torch.float64)
    trajectory = step(motion(c, time[1 + before : horizon + 1 + before]), *c, dt=dt)
    rounding = 1e-14 * float(1 + c.abs().sum() * (1 + time[-1] ** degree))
    for order, output in enumerate(trajectory):
        between_rows = step is clique_step and order == 1
        when = (time[:horizon] - dt / 2).clamp(min=0) if between_rows else time[:horizon]
        atol = (8 if before else (1, 1, 4, 8)[order]) * rounding / dt**order
        torch.testing.assert_close(output[:, :horizon], motion(c, when, order), rtol=0, atol=atol)


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
