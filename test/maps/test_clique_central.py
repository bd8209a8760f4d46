"""What central differences of positions promise beyond what every map does."""

from __future__ import annotations

import torch
from exact_motions import motion
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import clique_central_step


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    horizon=st.integers(1, 40),
    dof=st.integers(1, 7),
    dt=st.floats(1e-3, 0.5),
    seed=st.integers(0, 2**31),
)
def test_returns_a_sampled_cubic_exactly_up_to_the_hold(batch, horizon, dof, dt, seed):
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
