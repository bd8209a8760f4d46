"""What was commanded and measured at times that are over."""

from __future__ import annotations

import numpy as np
import pytest

from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.handling.courses import Course
from traj_integrator_ros.handling.present import History

MS = 1_000_000


def line(start_ns: int, speed: float) -> Course:
    """From 0 at a speed, for 10 s."""
    return Course(start_ns, Motion(np.array([0.0, 10.0]), np.array([[[0.0], [speed]]])))


def test_the_motion_that_was_published_last_counts_from_its_time_on():
    history = History()
    history.published(line(0, 1.0), 0)
    history.published(line(0, 2.0), 500 * MS)
    history.published(line(0, 3.0), 500 * MS)
    history.published(line(0, 4.0), 800 * MS)
    position, velocity = history.commanded_at(np.array([-1, 400, 600, 900]) * MS, 1)
    np.testing.assert_allclose(position[:, 0], [np.nan, 0.4, 1.8, 3.6])
    np.testing.assert_allclose(velocity[:, 0], [np.nan, 1.0, 3.0, 4.0])
    history.published(line(0, 5.0), 500 * MS)
    history.dropped()
    assert history.commanded_at(np.array([900]) * MS, 1)[0].tolist() == [[pytest.approx(np.nan, nan_ok=True)]]


def test_between_joint_states_it_is_linear_and_nothing_is_said_where_they_are_far_apart():
    history = History()
    for time_ms, value in ((0, 0.0), (100, 1.0), (400, 2.0)):
        history.measured(time_ms * MS, np.array([value]), np.array([-value]))
    position, velocity = history.measured_at(np.array([-1, 0, 25, 100, 200, 400, 401]) * MS, 1)
    np.testing.assert_allclose(position[:, 0], [np.nan, 0.0, 0.25, np.nan, np.nan, 2.0, np.nan])
    np.testing.assert_allclose(velocity, -position)
    history.clear()
    assert np.isnan(history.measured_at(np.array([50]) * MS, 1)).all()
