"""What backward differences of positions promise beyond what every map does."""

from __future__ import annotations

import torch
from exact_motions import motion
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import clique_step


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    horizon=st.integers(1, 40),
    dof=st.integers(1, 7),
    dt=st.floats(1e-3, 0.5),
    seed=st.integers(0, 2**31),
)
def test_returns_a_sampled_quadratic_exactly_from_the_first_step(batch, horizon, dof, dt, seed):
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


def test_on_changing_steps_scales_acceleration_by_the_mean_of_two_steps():
    """The recursive form's price: a quadratic's acceleration is off by the factor (dt[h-1] + dt[h]) / (2 dt[h]).

    `differentiate_positions` exists for motions on such grids.
    """
    dt = torch.tensor([0.1, 0.1, 0.2, 0.05], dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    c = torch.tensor([0.3, -0.5, 1.2], dtype=torch.float64)[:, None, None]
    points = motion(c, time)
    action = torch.cat([points[:, 1:], points[:, -1:]], 1)
    trajectory = clique_step(action, *c, dt=dt)
    factor = (dt[:-1] + dt[1:]) / (2 * dt[1:])
    torch.testing.assert_close(trajectory.acceleration[0, 1:, 0], 1.2 * factor)
