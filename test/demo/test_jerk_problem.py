from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.demo.jerk_problem import JerkProblem, closed_form, integrate_exactly, problem_from
from traj_integrator_ros.kernels import jerk_step


@pytest.fixture
def problem(sine) -> JerkProblem:
    return problem_from(sine)


def cost_of(problem: JerkProblem, actions: np.ndarray) -> float:
    return problem.cost(*integrate_exactly(problem, actions)).cost


def test_problem_starts_in_motion_and_its_goal_is_elsewhere(problem):
    assert np.abs(problem.start[1]).max() > 0.5
    assert np.abs(problem.goal - problem.start[0]).max() > 0.1


def test_cost_gradient_is_that_of_finite_differences(problem):
    random = np.random.default_rng(0)
    outputs = [random.standard_normal((problem.horizon, problem.dof)) for _ in range(4)]
    result = problem.cost(*outputs)
    for which, gradient in enumerate(result[1:]):
        direction = random.standard_normal(gradient.shape)
        moved = [[o + sign * direction * (i == which) for i, o in enumerate(outputs)] for sign in (1, -1)]
        slope = (problem.cost(*moved[0]).cost - problem.cost(*moved[1]).cost) / 2
        assert slope == pytest.approx(
            np.sum(gradient * direction), rel=1e-6
        )  # the cost is quadratic: exact at any step


def test_closed_form_is_the_minimum(problem):
    optimum = closed_form(problem)
    assert optimum.cost == pytest.approx(cost_of(problem, optimum.actions))
    random = np.random.default_rng(1)
    for scale in (1e-3, 1e-1, 10.0):
        assert cost_of(problem, optimum.actions + scale * random.standard_normal(optimum.actions.shape)) > optimum.cost
    assert optimum.cost < 1e-3 * cost_of(problem, np.zeros_like(optimum.actions))


def test_gradient_vanishes_at_the_closed_form(problem):
    def gradient(actions: np.ndarray) -> np.ndarray:
        u = torch.from_numpy(actions)[None].requires_grad_(True)
        start = [torch.from_numpy(row.copy())[None] for row in problem.start]
        outputs = jerk_step(u, *start, dt=problem.dt)
        upstream = problem.cost(*[o[0].detach().numpy() for o in outputs])[1:]
        torch.autograd.backward(outputs, [torch.from_numpy(g)[None] for g in upstream])
        return u.grad[0].numpy()

    optimum = closed_form(problem).actions
    assert np.abs(gradient(optimum)).max() < 1e-9 * np.abs(gradient(np.zeros_like(optimum))).max()


def test_optimal_motion_reaches_the_goal_at_rest(problem):
    position, velocity, acceleration, _ = integrate_exactly(problem, closed_form(problem).actions)
    np.testing.assert_allclose(position[-1], problem.goal, atol=1e-3)
    np.testing.assert_allclose(velocity[-1], 0, atol=1e-2)
    np.testing.assert_allclose(acceleration[-1], 0, atol=5e-2)
