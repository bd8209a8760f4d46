"""What held accelerations promise beyond what every map does."""

from __future__ import annotations

import torch
from exact_motions import motion
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import acceleration_step


@settings(max_examples=40, deadline=None)
@given(horizon=st.integers(1, 60), dof=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_a_held_acceleration_integrates_to_the_closed_form_at_any_step_lengths(horizon, dof, seed):
    """A constant acceleration is one polynomial on any grid: no step may leave it."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(3, 1, dof, generator=generator, dtype=torch.float64)
    dt = 0.001 + 0.1 * torch.rand(horizon, generator=generator, dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    trajectory = acceleration_step(c[-1][:, None].expand(1, horizon, dof), *c[:3], dt=dt)
    for order, output in enumerate(trajectory[:3]):
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
