"""What held velocities, accelerations and jerks promise beyond what every map does."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from exact_motions import motion
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import acceleration_step, jerk_step, velocity_step


@pytest.mark.parametrize(("step", "orders"), [(velocity_step, 2), (acceleration_step, 3), (jerk_step, 3)])
@settings(max_examples=40, deadline=None)
@given(horizon=st.integers(1, 60), dof=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_a_constant_action_integrates_to_the_closed_form_at_any_step_lengths(step, orders, horizon, dof, seed):
    """It is one polynomial on any grid: no step may leave it."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(4 if step is jerk_step else orders, 1, dof, generator=generator, dtype=torch.float64)
    dt = 0.001 + 0.1 * torch.rand(horizon, generator=generator, dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    trajectory = step(c[-1][:, None].expand(1, horizon, dof), *c[:3], dt=dt)
    for order, output in enumerate(trajectory[:orders]):
        torch.testing.assert_close(output, motion(c, time, order), rtol=1e-11, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(pieces=st.integers(1, 8), substeps=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_piecewise_constant_acceleration_does_not_depend_on_how_finely_it_is_stepped(pieces, substeps, seed):
    generator = torch.Generator().manual_seed(seed)
    start = [torch.randn(1, 3, generator=generator, dtype=torch.float64) for _ in range(3)]
    held = torch.randn(1, pieces + 1, 3, generator=generator, dtype=torch.float64)
    length = 0.01 + torch.rand(pieces + 1, generator=generator, dtype=torch.float64)
    coarse = acceleration_step(held, *start, dt=torch.cat([length[:1], length[:-1]]))
    fine_action = held.repeat_interleave(substeps, 1)[:, : pieces * substeps + 1]
    fine_dt = torch.cat([length[:1], (length[:-1] / substeps).repeat_interleave(substeps)])
    fine = acceleration_step(fine_action, *start, dt=fine_dt)
    torch.testing.assert_close(fine.position[:, ::substeps], coarse.position, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(fine.velocity[:, ::substeps], coarse.velocity, rtol=1e-12, atol=1e-12)


def test_semi_implicit_euler_moves_by_the_velocity_at_the_end_of_the_step():
    action = torch.ones(1, 4, 1, dtype=torch.float64)
    trajectory = acceleration_step(action, torch.zeros(1, 1).double(), dt=0.5, integrator="semi_implicit_euler")
    assert trajectory.velocity.flatten().tolist() == [0.0, 0.5, 1.0, 1.5]
    assert trajectory.position.flatten().tolist() == [0.0, 0.25, 0.75, 1.5]


def test_a_velocity_that_steps_shows_as_one_acceleration_and_two_jerks():
    action = torch.tensor([1.0, 1.0, 3.0, 3.0, 3.0], dtype=torch.float64)[None, :, None]
    trajectory = velocity_step(action, torch.zeros(1, 1).double(), torch.ones(1, 1).double(), dt=0.5)
    assert trajectory.velocity.flatten().tolist() == [1.0, 1.0, 1.0, 3.0, 3.0]
    assert trajectory.position.flatten().tolist() == [0.0, 0.5, 1.0, 2.5, 4.0]
    assert trajectory.acceleration.flatten().tolist() == [0.0, 0.0, 0.0, 4.0, 0.0]
    assert trajectory.jerk.flatten().tolist() == [0.0, 0.0, 0.0, 8.0, -8.0]


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
