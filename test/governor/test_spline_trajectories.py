"""B-splines for the controller: the ends of the segments, which it joins to the spline itself; and goals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pipelines import SimulatedNode

from traj_integrator_ros.execution.rows import motion_of_points
from traj_integrator_ros.kernels import ControlSpace, bspline_step

START = tuple(np.array(row, np.float32) for row in ([0.1, -0.2], [0.5, -0.3], [0.4, 0.2]))
GOAL = {"goal_position": np.array([0.6, 0.3], np.float32)}
FORMS = [(degree, steps) for degree in (3, 4, 5) for steps in (3, 4)]


def control_points(count: int = 6) -> np.ndarray:
    way = np.linspace(0.1, 0.9, count)[:, None]
    return (
        START[0]
        + way * (GOAL["goal_position"] - START[0])
        + np.random.default_rng(0).normal(scale=0.05, size=(count, 2))
    )


@pytest.mark.parametrize(("degree", "steps"), FORMS)
@pytest.mark.parametrize("goal", [{}, GOAL], ids=["rest", "goal"])
def test_the_points_are_the_ends_of_the_segments_and_give_back_the_spline(degree: int, steps: int, goal: dict) -> None:
    node = SimulatedNode(publish__lead_time=0.0)
    points = control_points()
    trajectory = node.send_from(START, points, space=ControlSpace.BSPLINE, dt=0.05, degree=degree, steps=steps, **goal)
    segments = len(points) + degree
    assert trajectory.points.time_ns.tolist() == [round(k * steps * 0.05e9) for k in range(segments + 1)]
    given = [torch.from_numpy(row.astype(np.float32)).double()[None] for row in (points, *START)]
    ends = {name: torch.from_numpy(values).double()[None] for name, values in goal.items()}
    exact = bspline_step(*given, **ends, dt=0.05 * steps, degree=degree, steps=1)
    np.testing.assert_allclose(trajectory.points.position[1:], exact.position[0, 1:], atol=1e-12)
    np.testing.assert_allclose(trajectory.points.velocity[1:], exact.velocity[0, 1:], atol=1e-12)
    assert not trajectory.points.velocity[-1].any()
    commanded = motion_of_points(trajectory.points)
    times = np.linspace(0, commanded.duration, 301)[:-1]
    meant = trajectory.motion.states_at(times)
    np.testing.assert_allclose(commanded.states_at(times)[:3], meant[:3], atol=1e-9)


def test_a_goal_in_motion_is_braked_after_it() -> None:
    node = SimulatedNode(publish__lead_time=0.0)
    goal = {**GOAL, "goal_velocity": np.array([0.3, 0.2], np.float32), "goal_acceleration": np.zeros(2, np.float32)}
    trajectory = node.send_from(START, control_points(), space=ControlSpace.BSPLINE, dt=0.05, **goal)
    reached = trajectory.motion.state_at((6 + 3) * 4 * 0.05)
    np.testing.assert_allclose(reached.position, GOAL["goal_position"], atol=1e-9)
    np.testing.assert_allclose(reached.velocity, goal["goal_velocity"], atol=1e-9)
    assert trajectory.motion.plan_until == pytest.approx(1.8) and not trajectory.points.velocity[-1].any()
