"""Requests to retime, without ROS."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import GIVEN, LIMITS, SimulatedNode, largest, limits, rejected

from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.rows import Points, motion_of_points
from traj_integrator_ros.kernels.retime import RetimeStatus
from traj_integrator_ros.requests.retime_requests import POSITION, RetimedBatch, RetimeFields

NONE = np.zeros(0)
LIMITED = limits(**GIVEN)
_S = np.linspace(0, 1, 41)[:, None]
SHAPE = 10 * _S**3 - 15 * _S**4 + 6 * _S**5
PATH = np.array([[[0.0, 0.0], [0.5, 0.2], [1.0, 0.0]], [[0.3, 0.1], [0.3, 0.4], [-0.5, 0.4]]])


def fields(position: np.ndarray = PATH, /, **changes: object) -> RetimeFields:
    batch, rows, _ = position.shape
    limits = dict.fromkeys(("velocity", "acceleration", "velocity_limits", "acceleration_limits", "jerk_limits"), NONE)
    numbers = dict.fromkeys(RetimeFields._fields[-6:-2], 0.0)
    return RetimeFields((), batch, rows, position.ravel(), NONE, **limits, **numbers, order=0)._replace(**changes)


def answer(node: SimulatedNode, position: np.ndarray = PATH, /, **changes: object) -> RetimedBatch:
    return node.pipeline.retiming(fields(position, **changes)).answer()


def motions(found: RetimedBatch) -> list[Motion]:
    """Motions as a controller plays them."""
    ends = np.cumsum(found.points.astype(int))
    times, *states = ([*np.split(x, ends[:-1])] if len(x) else [None] * len(ends) for x in found[7:11])
    time_ns = [np.rint(t * 1e9).astype(np.int64) for t in times]
    return [motion_of_points(Points(*one)) for one in zip(time_ns, *states, strict=True)]


@pytest.mark.parametrize(
    ("changes", "factors"),
    [
        ({}, (1, 1, 1)),
        ({"max_velocity_scaling_factor": 0.5, "max_acceleration_scaling_factor": 0.25}, (0.5, 0.25, 1)),
        ({"velocity_limits": np.full(2, 0.5), "jerk_limits": np.full(2, 20.0)}, (0.5, 1, 0.25)),
        ({"order": 2}, (1, 1, np.inf)),
    ],
)
def test_paths_are_passed_as_fast_as_limits_and_their_factors_allow(changes: dict, factors: tuple) -> None:
    node = SimulatedNode(**LIMITED)
    found = answer(node, **changes)
    assert not any(found.status) and found.reason == ["", ""]
    within = LIMITS * np.array(factors)[:, None]
    if "velocity_limits" in changes:
        within[0], within[2] = 0.5, 20.0
    for index, motion in enumerate(motions(found)):
        ratio = (largest(motion) / within).max(axis=1)
        assert (ratio <= 1 + 1e-6).all() and ratio.max() > 0.99
        kinds = 2 if changes.get("order") == 2 else 3
        np.testing.assert_allclose(found.ratio[index, :kinds], ratio[:kinds], rtol=1e-6)
        assert motion.duration == pytest.approx(found.duration[index])
        passed = np.array([motion.state_at(time).position for time in found.row_times[index]])
        np.testing.assert_allclose(passed, PATH[index], atol=1e-6)


def test_columns_come_back_in_the_order_of_the_request() -> None:
    node = SimulatedNode(**LIMITED)
    usual, other = answer(node), answer(node, PATH[..., ::-1], joint_names=["b", "a"])
    assert other.joint_names == ("b", "a")
    np.testing.assert_array_equal(usual.result_velocity, other.result_velocity[:, ::-1])


def test_a_duration_is_wanted_exactly_or_at_least() -> None:
    node = SimulatedNode(**LIMITED)
    shortest = answer(node).duration
    assert shortest[0] != pytest.approx(shortest[1], rel=0.05)
    between = float(shortest.mean())
    exactly, least = (answer(node, **{name: between}) for name in ("duration", "min_duration"))
    long, short = int(shortest.argmax()), int(shortest.argmin())
    assert exactly.status[long] == RetimeStatus.TOO_SHORT and f"{shortest[long]:.6g}"[:4] in exactly.reason[long]
    assert exactly.duration[short] == least.duration[short] == pytest.approx(between)
    assert least.duration[long] == pytest.approx(shortest[long]) and not any(least.status)
    assert [len(motion.knots) for motion in motions(least)] == least.points.tolist()


def test_a_plan_is_kept_to_the_last_bit_or_slowed_where_it_exceeds_a_limit() -> None:
    plans = np.stack([SHAPE * [0.4, 0.1], SHAPE * [1.3, 0.1]])  # up to 0.75 and 2.4 rad/s
    found = answer(SimulatedNode(**LIMITED), plans, dt=np.array([0.025]))
    assert found.unchanged == [True, False] and not any(found.status)
    assert np.array_equal(found.result_position[:41], plans[0])
    assert found.duration[0] == pytest.approx(1.0) and 1.0 < found.duration[1] < 2.4 / 2.0
    kept, slowed = motions(found)
    assert (largest(slowed)[0] <= [2.0 * (1 + 1e-6), 1.0]).all()
    begun = slowed.state_at(0.1).position
    np.testing.assert_allclose(begun, kept.state_at(0.1).position * [1.3 / 0.4, 1], atol=2e-3)


@pytest.mark.parametrize("steps", [[0.025, 0.05], np.repeat([0.025, 0.05], 40)], ids=["each its own", "each step"])
def test_each_plan_of_a_batch_keeps_times_of_its_own(steps: np.ndarray) -> None:
    plans = np.stack([SHAPE * [0.4, 0.1]] * 2)
    per = int(len(steps) == 2)
    found = answer(SimulatedNode(**LIMITED), plans, dt=np.array(steps), dt_per=per)
    assert all(found.unchanged) and found.duration == pytest.approx([1.0, 2.0])
    alone = answer(SimulatedNode(**LIMITED), plans[1:], dt=np.array([0.05]), dt_per=per)
    np.testing.assert_array_equal(found.result_velocity[41:], alone.result_velocity)


def test_the_way_of_a_continuous_joint_is_followed_and_of_a_revolute_one_never() -> None:
    path = np.array([[[3.0, 0.0], [3.2, 0.1], [3.4, 0.0]]])
    wrapped = path - [2 * np.pi, 0.0] * (path > np.pi)
    expected = answer(SimulatedNode(**LIMITED), path)
    found, long = (answer(SimulatedNode(**LIMITED, limits__continuous=[joint]), wrapped) for joint in "ab")
    np.testing.assert_allclose(found.duration, expected.duration, rtol=1e-6)
    np.testing.assert_allclose(found.result_position, expected.result_position, atol=1e-6)
    assert long.duration[0] > 4 * expected.duration[0]


def test_a_path_beyond_position_limits_has_no_trajectory_others_do() -> None:
    found = answer(SimulatedNode(**LIMITED, limits__position_max=[0.9, 3.0]))
    assert found.status.tolist() == [POSITION, 0] and found.points.tolist()[0] == 0 < found.points[1]
    assert found.reason[0].startswith("position of a exceeds its limit by 0.1")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 0}, "size_out_of_range: batch: expected 1 to 1024, got 0"),
        ({"rows": 10_001}, "size_out_of_range: rows: expected 2 to 10000 (parameter position_trajectory.max"),
        ({"position": NONE}, "size_mismatch: position"),
        ({"position": np.full(12, np.nan)}, "not_finite: position"),
        ({"joint_names": ["a"]}, "joint_count: joint_names"),
        ({"velocity": np.zeros(12)}, "invalid_retiming: velocity: expected none without dt, got some"),
        ({"dt": np.zeros(3)}, "size_mismatch: dt: expected 0, 1, 2 (rows - 1) or 4 (batch x rows - 1) values, got 3"),
        ({"dt": np.zeros(2)}, "invalid_dt: dt"),
        ({"dt": np.ones(4), "dt_per": 1}, "size_mismatch: dt: expected 0, 1 or 2 (batch) values, got 4"),
        ({"dt_per": 2}, "invalid_dt: dt_per: expected 0 (DT_PER_STEP) or 1 (DT_PER_TRAJECTORY), got 2"),
        ({"dt": np.ones(1), "velocity": np.zeros(12)}, "size_mismatch: acceleration"),
        ({"dt": np.ones(1), "duration": 2.0}, "invalid_retiming: duration: expected 0 with dt, got 2"),
        ({"dt": np.ones(1), "acceleration": np.zeros(12), "order": 2}, "invalid_retiming: acceleration: expected none"),
        ({"duration": -1.0}, "invalid_retiming: duration: expected seconds, at least 0, got -1"),
        ({"min_duration": np.nan}, "invalid_retiming: min_duration: expected seconds, at least 0, got nan"),
        ({"duration": 2.0, "min_duration": 1.0}, "invalid_retiming: min_duration: expected 0 with duration, got 1"),
        ({"max_velocity_scaling_factor": 1.5}, "invalid_retiming: max_velocity_scaling_factor: expected more than 0"),
        ({"max_acceleration_scaling_factor": np.nan}, "invalid_retiming: max_acceleration_scaling_factor"),
        ({"velocity_limits": np.ones(3)}, "size_mismatch: velocity_limits"),
        ({"jerk_limits": np.array([1.0, 0.0])}, "invalid_retiming: jerk_limits: expected limits greater than 0, got 0"),
        ({"order": 4}, "invalid_retiming: order: expected 2, 3 or 0 (3), got 4"),
    ],
)
def test_a_request_that_cannot_be_is_refused_by_name(changes: dict, reason: str) -> None:
    assert str(rejected(answer, SimulatedNode(**LIMITED), **changes)).startswith(reason)
