"""The model of the controller commands what joint_trajectory_controller does: interpolation, schedule, replacement."""

from __future__ import annotations

import numpy as np
import pytest

from kit.controller import Controller
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.tools.controller_model import CYCLE_NS, ControllerModel

JOINTS, BEGIN_NS = ["a", "b", "c"], 5_000_000_000


@pytest.mark.parametrize("from_desired", [False, True], ids=["from measured", "from desired"])
def test_it_commands_what_the_controller_does(from_desired: bool) -> None:
    random = np.random.default_rng(0)
    start = State(*random.normal(size=(3, 3)))
    controller = Controller(
        JOINTS,
        hard_replacement=True,
        interpolate_from_desired_state=from_desired,
        allow_nonzero_velocity_at_trajectory_end=True,
    )
    controller.set_state(*start)
    model, taken = ControllerModel(start, from_desired=from_desired), 0
    for now_ns in range(BEGIN_NS, BEGIN_NS + 1500 * CYCLE_NS, CYCLE_NS):
        if random.random() < 0.02:
            count, known = int(random.integers(1, 4)), int(random.integers(1, 4))
            time_ns = random.integers(1_000_000, 90_000_000, count).cumsum()
            time_ns -= time_ns[0] * int(random.integers(0, 2))  # half of them have a point at their start
            columns = [random.normal(size=(count, 3)) if k < known else None for k in range(3)]
            for rates in columns[1:known]:
                rates[-1] = 0.0  # an end in motion is held with its velocity, which no robot can
            stamp_ns = 0 if random.random() < 0.4 else now_ns + int(random.integers(-50_000_000, 50_000_000))
            accepted = controller.receive(JOINTS, time_ns, *columns, now=now_ns * 1e-9, stamp=stamp_ns * 1e-9)
            assert model.take(stamp_ns, Points(time_ns, *columns), now_ns) == accepted, controller.refusal
            taken += accepted
        expected = controller.update(now_ns * 1e-9)
        np.testing.assert_allclose(model.at(now_ns + CYCLE_NS), expected, rtol=1e-6, atol=1e-6)
    assert taken > 15


def test_joints_that_lag_are_joined_from_where_they_are() -> None:
    model = ControllerModel(State(*np.zeros((3, 1))))
    points = Points(np.array([0, 10**9]), np.array([[1.0], [1.0]]), np.zeros((2, 1)), np.zeros((2, 1)))
    model.take(BEGIN_NS + 10**8, points, BEGIN_NS, State(*np.array([[0.5], [0.2], [0.0]])))
    np.testing.assert_allclose(np.stack(model.at(BEGIN_NS))[:, 0], [0.5, 0.2, 0.0], atol=1e-12)
    np.testing.assert_allclose(model.at(BEGIN_NS + 2 * 10**8).position, [1.0])
