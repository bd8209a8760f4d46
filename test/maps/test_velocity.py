"""What held velocities promise beyond what every map does."""

from __future__ import annotations

import torch
from exact_motions import motion
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import velocity_step


@settings(max_examples=40, deadline=None)
@given(horizon=st.integers(1, 60), dof=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_a_held_velocity_integrates_to_the_closed_form_at_any_step_lengths(horizon, dof, seed):
    """A constant velocity is one polynomial on any grid: no step may leave it."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(2, 1, dof, generator=generator, dtype=torch.float64)
    dt = 0.001 + 0.1 * torch.rand(horizon, generator=generator, dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    trajectory = velocity_step(c[-1][:, None].expand(1, horizon, dof), *c[:3], dt=dt)
    for order, output in enumerate(trajectory[:2]):
        torch.testing.assert_close(output, motion(c, time, order), rtol=1e-11, atol=1e-11)


def test_a_velocity_that_steps_shows_as_one_acceleration_and_two_jerks():
    action = torch.tensor([1.0, 1.0, 3.0, 3.0, 3.0], dtype=torch.float64)[None, :, None]
    trajectory = velocity_step(action, torch.zeros(1, 1).double(), torch.ones(1, 1).double(), dt=0.5)
    assert trajectory.velocity.flatten().tolist() == [1.0, 1.0, 1.0, 3.0, 3.0]
    assert trajectory.position.flatten().tolist() == [0.0, 0.5, 1.0, 2.5, 4.0]
    assert trajectory.acceleration.flatten().tolist() == [0.0, 0.0, 0.0, 4.0, 0.0]
    assert trajectory.jerk.flatten().tolist() == [0.0, 0.0, 0.0, 8.0, -8.0]
