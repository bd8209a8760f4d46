"""Positions on arbitrary times are differentiated by divided differences, from the first step on."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import clique_step, differentiate_positions


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(2, 12), seed=st.integers(0, 2**31))
def test_rows_are_divided_differences_through_points_on_the_arc_before_the_start(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    position = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    v0, a0 = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    time = (0.1 + torch.rand(rows, generator=generator, dtype=torch.float64)).cumsum(0)
    before = (time[0] - time[1]) * torch.tensor([2.0, 1.0], dtype=torch.float64)  # spaced by the first step
    t = before[:, None]
    difference, times = torch.cat([position[0] + v0 * t + a0 * t**2 / 2, position]), torch.cat([time[0] + before, time])
    trajectory = differentiate_positions(position, time, v0, a0)
    for order, output in enumerate(trajectory[1:], start=1):
        difference = difference.diff(dim=0) / (times[order:] - times[:-order])[:, None]
        torch.testing.assert_close(output[1:], math.factorial(order) * difference[1 - rows :], rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 20), seed=st.integers(0, 2**31))
def test_uniform_times_give_what_the_clique_step_gives(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    position = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    v0, a0 = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    divided = differentiate_positions(position, torch.arange(rows, dtype=torch.float64) * 0.1, v0, a0)
    actions = torch.cat([position[1:], position[-1:]])[None]
    stepped = clique_step(actions, position[:1], v0[None], a0[None], dt=0.1)
    for got, want in zip(divided, stepped, strict=True):
        torch.testing.assert_close(got, want[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(3), torch.arange(3.0)), r"position: expected shape \[..., N >= 1, D\], got \[3\]"),
        ((torch.zeros(3, 2), torch.arange(4.0)), r"time: expected shape \[3\].*got \[4\]"),
        ((torch.zeros(3, 2), torch.tensor([0.0, 2.0, 2.0])), "time: expected strictly increasing values, got 2.*row 2"),
        ((torch.zeros(3, 2), torch.tensor([0.0, 2.0, torch.nan])), "time: expected strictly increasing"),
        ((torch.zeros(3, 2), torch.arange(3.0), torch.zeros(3)), r"start_velocity: expected shape \[2\].*got \[3\]"),
        (
            (torch.zeros(3, 2), torch.arange(3.0), None, torch.zeros(1, 2)),
            r"start_acceleration: expected shape \[2\].*got \[1, 2\]",
        ),
    ],
)
def test_misuse_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        differentiate_positions(*arguments)
