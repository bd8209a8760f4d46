from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from traj_integrator_ros.client import Evaluation, Gradient, Trajectories
from traj_integrator_ros.demo.optimizer import minimize, problems_of
from traj_integrator_ros.demo.planning import plan_on
from traj_integrator_ros.kernels import control_map


class Node:
    """Answers with what the kernels compute, as float32."""

    def __init__(self, problem) -> None:
        self.problem, self.calls = problem, 0

    def evaluate(self, actions, cost, **fields) -> Evaluation:
        self.calls += 1
        costs, gradient = self.problem.gradient(actions, self.problem.start, self.problem.goal)
        nothing = [None] * 7
        return Evaluation(costs.numpy().astype(np.float32), Gradient(gradient.astype(np.float32), *nothing), {}, None)

    def integrate(self, actions, **fields) -> Trajectories:
        problem, torch = self.problem, pytest.importorskip("torch")
        goal = {"goal_position": torch.from_numpy(problem.goal)[None]} if problem.is_spline else {}
        state = [torch.from_numpy(row)[None] for row in problem.start]
        found = control_map(problem.space).step(torch.from_numpy(actions), *state, dt=problem.dt, **goal)
        times = np.arange(found.position.shape[1]) * problem.dt
        return Trajectories(problem.joint_names, 0, times, *(rows.numpy() for rows in found))


@pytest.mark.parametrize("which", [0, 1], ids=["jerks", "control points"])
def test_the_optimum_is_found_and_leads_from_motion_to_rest_at_the_goal(sine, which):
    problem = problems_of(plan_on(sine))[which]
    assert np.abs(problem.start[1]).max() > 0.5 and np.abs(problem.goal - problem.start[0]).max() > 0.1
    node = Node(problem)
    result = minimize(problem, node)
    assert abs(result.costs[-1] / result.optimum - 1) < 1e-3 < result.costs[0] / result.optimum - 1
    assert 3 < len(result.costs) < 60 and result.calls == node.calls > len(result.costs)
    position, velocity, acceleration, _ = result.found.outputs
    np.testing.assert_allclose(position[0, 0], problem.start[0], atol=1e-12)
    tolerances = (1e-15, 1e-13, 1e-11) if problem.is_spline else (1e-3, 1e-2, 5e-2)
    for rows, end, tolerance in zip((position, velocity, acceleration), (problem.goal, 0, 0), tolerances, strict=True):
        np.testing.assert_allclose(rows[0, -1], np.broadcast_to(end, rows[0, -1].shape), rtol=0, atol=tolerance)


def test_the_least_cost_is_that_of_actions_without_gradient(sine):
    for problem in problems_of(plan_on(sine)):
        guess, _ = problem.guess_and_basis()
        cost, _ = problem.gradient(guess[None], problem.start, problem.goal)
        optimum = problem.optimum()
        assert 0 < optimum < 0.01 * float(cost[0])
        random = np.random.default_rng(0)
        near = [guess + 0.01 * random.standard_normal(guess.shape) for _ in range(5)]
        assert all(problem.gradient(one[None], problem.start, problem.goal)[0][0] > optimum for one in near)
