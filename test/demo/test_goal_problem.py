from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.demo.goal_problem import (
    GoalProblem,
    Steering,
    closed_form,
    integrate_exactly,
    problem_from,
    trajectories,
)


@pytest.fixture(params=list(Steering), ids=lambda steering: steering.value)
def problem(request, sine) -> GoalProblem:
    return problem_from(sine, request.param)


def test_closed_form_is_the_minimum_and_leads_from_motion_to_rest_at_the_goal(problem):
    def gradient(actions: np.ndarray) -> np.ndarray:
        u = torch.from_numpy(actions)[None].requires_grad_(True)
        outputs = trajectories(problem.steering, u, problem.start, problem.goal)
        upstream = problem.cost([o[0].detach().numpy() for o in outputs])[1]
        torch.autograd.backward(outputs, [torch.from_numpy(g)[None] for g in upstream])
        return u.grad[0].numpy()

    optimum, cost = closed_form(problem)
    found = integrate_exactly(problem, optimum)
    assert cost == pytest.approx(problem.cost(found)[0])
    assert np.abs(gradient(optimum)).max() < 1e-8 * np.abs(gradient(problem.guess)).max()
    assert np.abs(problem.start[1]).max() > 0.5 and np.abs(problem.goal - problem.start[0]).max() > 0.1
    position, velocity, acceleration, _ = found
    np.testing.assert_allclose(position[-1], problem.goal, atol=1e-3)
    np.testing.assert_allclose(velocity[-1], 0, atol=1e-2)
    np.testing.assert_allclose(acceleration[-1], 0, atol=5e-2)


def test_a_spline_reaches_the_goal_with_any_control_points(sine):
    problem = problem_from(sine, Steering.SPLINE)
    actions = np.random.default_rng(2).standard_normal(problem.guess.shape)
    position, velocity, acceleration, _ = integrate_exactly(problem, actions)
    np.testing.assert_allclose(position[-1], problem.goal, rtol=0, atol=1e-15)
    np.testing.assert_allclose(velocity[-1], 0, atol=1e-13)
    np.testing.assert_allclose(acceleration[-1], 0, atol=1e-11)
