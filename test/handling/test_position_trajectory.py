"""Positions and times from other planners, without ROS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traj_integrator_ros.engine.integrator import StartState
from traj_integrator_ros.handling.position_trajectory import PositionFields, check_positions, differentiate
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason

NAMES = ("a", "b", "c")
SECOND = 10**9


def quadratic(time: np.ndarray, joints: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p0, v0, a0 = np.arange(1.0, joints + 1), 0.5 * np.arange(joints), 1.0 - np.arange(joints)
    t = time[:, None]
    return p0 + v0 * t + a0 * t**2 / 2, v0 + a0 * t, np.broadcast_to(a0, (len(time), joints))


@given(st.lists(st.floats(0.005, 0.5), min_size=1, max_size=20), st.booleans())
def test_a_quadratic_motion_at_any_times_gets_its_acceleration_back(steps: list[float], with_start: bool) -> None:
    time_ns = np.concatenate([[0], np.cumsum(np.rint(np.asarray(steps) * SECOND).astype(np.int64))])
    position, velocity, acceleration = quadratic(time_ns * 1e-9)
    start = StartState(position[:1], velocity[:1], acceleration[:1])
    rows = slice(0 if with_start else 1, None)
    result = differentiate(time_ns[rows], position[rows], [0, 1, 2], start)
    assert np.allclose(result.time_s, time_ns * 1e-9)
    assert np.allclose(result.trajectory.position, position)
    assert np.allclose(result.trajectory.acceleration, acceleration, atol=1e-7 / min(steps) ** 2)


def test_joints_that_are_left_out_hold_their_start_position() -> None:
    start = StartState(np.array([[1.0, 2.0, 3.0]]), np.zeros((1, 3)))
    result = differentiate(np.array([SECOND, 2 * SECOND]), np.array([[5.0], [6.0]]), [1], start)
    assert result.time_s.tolist() == [0.0, 1.0, 2.0]
    assert result.trajectory.position.tolist() == [[1.0, 2.0, 3.0], [1.0, 5.0, 3.0], [1.0, 6.0, 3.0]]
    assert not result.trajectory.velocity[:, [0, 2]].any()


def test_a_single_point_at_time_zero_is_the_start() -> None:
    start = StartState(np.zeros((1, 3)), np.ones((1, 3)))
    result = differentiate(np.array([0]), np.full((1, 3), 0.1), [0, 1, 2], start)
    assert result.trajectory.position.tolist() == [[0.1] * 3]
    assert result.trajectory.velocity.tolist() == [[1.0] * 3]


def fields(**changes: object) -> PositionFields:
    return PositionFields(["b", "a"], 0, 2, [0, SECOND], [np.zeros(2), np.ones(2)])._replace(**changes)


def test_columns_are_found_by_name() -> None:
    _, position, columns = check_positions(fields(), NAMES, 10, 0)
    assert columns == [1, 0] and position.shape == (2, 2)


@pytest.mark.parametrize(("stamp_ns", "accepted"), [(0, True), (99 * SECOND + 1, True), (99 * SECOND, False)])
def test_a_start_time_is_accepted_while_the_end_is_still_to_come(stamp_ns: int, accepted: bool) -> None:
    now_ns = 100 * SECOND
    if accepted:
        check_positions(fields(stamp_ns=stamp_ns), NAMES, 10, now_ns)
    else:
        with pytest.raises(Rejected) as caught:
            check_positions(fields(stamp_ns=stamp_ns), NAMES, 10, now_ns)
        assert caught.value.reason is RejectionReason.INVALID_TIMES
