"""Positions on arbitrary times are differentiated by divided differences, from the first step on."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import differentiate_positions


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 12), seed=st.integers(0, 2**31))
def test_rows_are_divided_differences_through_points_before_the_start(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    position = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    v0, a0 = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    time = (0.1 + torch.rand(rows, generator=generator, dtype=torch.float64)).cumsum(0)
    spacing = time[0] - time[min(1, rows - 1)]  # the first step's
    before = spacing * torch.tensor([2.0, 1.0], dtype=torch.float64)
    t = before[:, None]
    difference, times = torch.cat([position[0] + v0 * t + a0 * t**2 / 2, position]), torch.cat([time[0] + before, time])
    trajectory = differentiate_positions(position, time, v0, a0)
    for order, (output, start) in enumerate(zip(trajectory[1:], (v0, a0, 0 * a0), strict=True), start=1):
        assert torch.equal(output[0], start)
        difference = difference.diff(dim=0) / (times[order:] - times[:-order])[:, None]
        torch.testing.assert_close(output[1:], math.factorial(order) * difference[3 - order :], rtol=1e-9, atol=1e-9)
