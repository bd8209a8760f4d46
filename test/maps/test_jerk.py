"""What held jerks promise beyond what every map does."""

from __future__ import annotations

import json

import numpy as np
import torch
from exact_motions import motion
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels import jerk_step


@settings(max_examples=40, deadline=None)
@given(horizon=st.integers(1, 60), dof=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_a_held_jerk_integrates_to_the_closed_form_at_any_step_lengths(horizon, dof, seed):
    """A constant jerk is one polynomial on any grid: no step may leave it."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(4, 1, dof, generator=generator, dtype=torch.float64)
    dt = 0.001 + 0.1 * torch.rand(horizon, generator=generator, dtype=torch.float64)
    time = dt.cumsum(0) - dt[0]
    trajectory = jerk_step(c[-1][:, None].expand(1, horizon, dof), *c[:3], dt=dt)
    for order, output in enumerate(trajectory[:3]):
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
