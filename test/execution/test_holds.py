"""Holds: every action is a step of the motion, and rows that are only positions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from execution_cases import motion_of_actions

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Hold, action_steps
from traj_integrator_ros.kernels import acceleration_step, clique_step, jerk_step, velocity_step

MAPS = {
    Hold.POSITION: clique_step,
    Hold.VELOCITY: velocity_step,
    Hold.ACCELERATION: acceleration_step,
    Hold.ACCELERATION_SEMI_IMPLICIT: lambda *a, **k: acceleration_step(*a, integrator="semi_implicit_euler", **k),
    Hold.JERK: jerk_step,
}


def rows_of_the_map(hold: Hold, dt: np.ndarray, actions: np.ndarray, start: State) -> np.ndarray:
    """Position, velocity and acceleration `[3, H + 1, D]`: one action more, so that the last one reaches a row."""
    more = torch.from_numpy(np.concatenate([actions, actions[-1:]]))[None]
    states = (torch.from_numpy(part)[None] for part in start)
    steps = torch.from_numpy(np.append(dt, dt[-1]))
    return torch.stack(MAPS[hold](more, *states, dt=steps, dt_per="step", backend="reference")[:3])[:, 0].numpy()


@pytest.mark.parametrize("horizon", [1, 2, 16])
@pytest.mark.parametrize("hold", Hold)
def test_the_motion_passes_through_all_rows_and_the_one_the_last_action_leads_to(hold, horizon):
    random = np.random.default_rng(horizon)
    dt = random.uniform(0.01, 0.1, horizon)
    actions, start = random.normal(size=(horizon, 3)), State(*random.normal(size=(3, 3)))
    motion = motion_of_actions(hold, action_steps(dt, horizon), actions, start, fade_time=0.0)
    rows = rows_of_the_map(hold, dt, actions, start)
    assert len(motion.coefficients) == horizon
    reached = np.vstack([motion.states_at(motion.knots[:-1])[0], motion.end.position])
    np.testing.assert_allclose(reached, rows[0], rtol=1e-9, atol=1e-12)
    if hold in (Hold.ACCELERATION, Hold.JERK):
        np.testing.assert_allclose(motion.end.velocity, rows[1, -1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(motion.end.acceleration, rows[2, -1], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(motion.state_at(0.0).velocity, start.velocity)


def test_steps_of_actions_are_those_that_lead_to_their_rows():
    np.testing.assert_array_equal(action_steps(0.1, 3), [0.1, 0.1, 0.1])
    np.testing.assert_array_equal(action_steps(np.array([0.1, 0.2, 0.3]), 3), [0.2, 0.3, 0.3])
    np.testing.assert_array_equal(action_steps(np.array([0.1]), 1), [0.1])
