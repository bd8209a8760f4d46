from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from traj_integrator_ros.demo.optimizer import problems_of
from traj_integrator_ros.demo.planning import plan_on


def test_the_least_cost_is_that_of_actions_without_gradient(sine):
    for problem in problems_of(plan_on(sine)):
        guess, _ = problem.guess_and_basis()
        cost, _ = problem.gradient(guess[None], problem.start, problem.goal)
        optimum = problem.optimum()
        assert 0 < optimum < 0.01 * float(cost[0])
        random = np.random.default_rng(0)
        near = [guess + 0.01 * random.standard_normal(guess.shape) for _ in range(5)]
        assert all(problem.gradient(one[None], problem.start, problem.goal)[0][0] > optimum for one in near)
