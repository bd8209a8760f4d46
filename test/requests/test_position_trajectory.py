"""Positions and times from other planners, without ROS."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import GIVEN, NOW_S, SECOND, Later, SimulatedNode, at, largest, limits, ratio, rejected

from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values
from traj_integrator_ros.requests.position_trajectory import PositionFields, plan_of_positions
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

PARAMETERS = NodeParameters.from_values(default_values() | {"joint_names": ["a", "b", "c"]})


def fields(**changes: object) -> PositionFields:
    return PositionFields(["b", "a"], 0, 2, [0, SECOND], [np.zeros(2), np.ones(2)])._replace(**changes)


def test_a_first_point_at_time_zero_is_the_start_and_the_others_are_steps() -> None:
    given = fields(joint_names=["c", "a"], time_ns=[0, SECOND, 3 * SECOND], count=3, positions=[np.arange(2.0)] * 3)
    plan = plan_of_positions(given, PARAMETERS, 0)
    assert plan.steps.tolist() == [1.0, 2.0]
    assert np.array_equal(plan.start.position, [1.0, np.nan, 0.0], equal_nan=True)
    assert np.array_equal(plan.actions, [[1.0, np.nan, 0.0]] * 2, equal_nan=True)


def test_a_later_first_point_leaves_the_start_open() -> None:
    plan = plan_of_positions(fields(time_ns=[SECOND // 2, SECOND], stamp_ns=7), PARAMETERS, 0)
    assert plan.start is None and plan.steps.tolist() == [0.5, 0.5] and plan.origin_ns == 7


@pytest.mark.parametrize(("stamp_ns", "accepted"), [(0, True), (99 * SECOND + 1, True), (99 * SECOND, False)])
def test_a_start_time_is_accepted_while_the_end_is_still_to_come(stamp_ns: int, accepted: bool) -> None:
    arguments = fields(stamp_ns=stamp_ns), PARAMETERS, 100 * SECOND
    if accepted:
        plan_of_positions(*arguments)
    else:
        assert rejected(plan_of_positions, *arguments).reason is RejectionReason.INVALID_TIMES


# Points without times

AS_PATH = {"position_trajectory__without_times": "path"}
WITHOUT_JERK = AS_PATH | limits(**{**GIVEN, "jerk": np.inf})
PATH = np.array([[0.1, 0.1], [0.5, 0.2], [1.0, 0.0]])


def limited(**parameters: object) -> SimulatedNode:
    node = SimulatedNode(**AS_PATH | limits(**GIVEN) | parameters)
    node.measure(0.1)
    return node


def timed(node: SimulatedNode, rows: object, now: float = NOW_S, **options: object) -> list[ExecutableTrajectory]:
    """Everything published for a path without times, until it has been timed."""
    found = [node.plan(np.zeros(len(rows)), rows, now=now, **options)]
    found += [node.tick(now + 0.01 * count) for count in range(1, 6)]
    return [trajectory for trajectory in found if trajectory is not None]


def nearest(trajectory: ExecutableTrajectory, row: object) -> float:
    """Smallest distance of a motion from a position, rad."""
    positions = trajectory.motion.states_at(np.linspace(0, trajectory.motion.duration, 20_001))[0]
    return float(np.abs(positions - row).max(axis=1).min())


UNTIMED = fields(time_ns=[0, 0], stamp_ns=5 * SECOND)


def meaning(without_times: str, **parameters: object) -> NodeParameters:
    return NodeParameters.of("abc", position_trajectory__without_times=without_times, **parameters)


@pytest.mark.parametrize("end", ["goal", "stream", None])
def test_points_without_times_are_refused_unless_it_is_said_what_they_are(end: str | None) -> None:
    told = rejected(plan_of_positions, UNTIMED, PARAMETERS, 0, end)
    assert told.reason is RejectionReason.INVALID_TIMES
    parts = "path, passed as fast as limits allow", "chunk, with points 0.02 s (parameter dt) apart", "without_times"
    assert all(part in told.message for part in parts), told.message


@pytest.mark.parametrize("parameters", [PARAMETERS, meaning("path"), meaning("chunk")])
def test_one_point_without_a_time_is_a_goal_whatever_several_points_are(parameters: NodeParameters) -> None:
    plan = plan_of_positions(fields(time_ns=[0], positions=[np.ones(2)], count=1), parameters, 0)
    assert plan.untimed and plan.is_complete and not len(plan.steps)


def test_points_without_times_are_a_path_where_that_is_said() -> None:
    plan = plan_of_positions(UNTIMED, meaning("path"), 100 * SECOND)
    assert plan.untimed and not len(plan.steps) and plan.start is None and plan.origin_ns == 0
    assert plan_of_positions(UNTIMED, meaning("path"), SECOND).origin_ns == 5 * SECOND, "not before its stamp"


@pytest.mark.parametrize(("end", "is_complete"), [(None, False), ("stream", False), ("goal", True)])
def test_points_without_times_are_a_chunk_with_a_row_every_dt(end: str | None, is_complete: bool) -> None:
    plan = plan_of_positions(UNTIMED, meaning("chunk", dt=1 / 30), SECOND, end)
    assert not plan.untimed and plan.start is None and plan.is_complete == is_complete
    assert plan.origin_ns == 5 * SECOND and np.allclose(plan.steps, 0.033_333_333, rtol=0, atol=1e-15)
    assert np.array_equal(plan.actions, [[0.0, 0.0, np.nan], [1.0, 1.0, np.nan]], equal_nan=True)


def test_a_chunk_without_times_that_is_over_is_refused() -> None:
    told = rejected(plan_of_positions, UNTIMED, meaning("chunk"), 6 * SECOND)
    assert told.reason is RejectionReason.INVALID_TIMES and "ended 0.960 s ago" in told.message


@pytest.mark.parametrize(("first", "dropped"), [([0.1, 0.1], True), ([0.107, 0.095], True), ([0.15, 0.1], False)])
def test_a_path_without_times_is_passed_as_fast_as_limits_allow(first: list[float], dropped: bool) -> None:
    node = limited()
    (trajectory,) = timed(node, [first, *PATH[1:]])
    assert np.array_equal(trajectory.motion.begin.position, [0.1, 0.1]), "from the present command"
    assert 0.99 < ratio(trajectory.motion) <= 1 + 1e-6
    assert all(nearest(trajectory, row) < 1e-3 for row in PATH[1:])
    assert (nearest(trajectory, first) < 1e-3) != dropped or first == [0.1, 0.1]
    np.testing.assert_allclose(trajectory.motion.end.position, PATH[-1], atol=1e-9)


def test_joints_that_a_path_leaves_out_stay() -> None:
    (trajectory,) = timed(limited(), PATH[:, :1], names="a")
    assert np.ptp(trajectory.motion.states_at(np.linspace(0, 1, 101))[0][:, 1]) < 1e-9
    assert trajectory.motion.end.position[0] == pytest.approx(1.0)


def test_a_path_begins_when_its_stamp_says() -> None:
    node = limited()
    timed(node, PATH[:2])
    now = NOW_S + 5.0
    node.measure(PATH[1], now=now)
    (trajectory,) = timed(node, [[0.0, 0.0], [0.3, 0.3]], now, stamp=now + 0.5)
    np.testing.assert_allclose(at(trajectory, now + 0.5)[0], PATH[1], atol=1e-9)
    assert np.abs(at(trajectory, now + 0.6)[0] - PATH[1]).max() > 1e-4
    node.measure([0.3, 0.3], now=now + 9)
    with pytest.raises(Rejected, match=r"future_sequence: header\.stamp"):
        node.plan([0, 0], PATH[:2], now=now + 9, stamp=now + 20)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"limits__acceleration": []}, "no_limits: limits.acceleration: expected a limit of each joint, by which"),
        ({"limits__velocity": [2.0, np.inf]}, "no_limits: limits.velocity: .* got none for b"),
        ({"limits__position_max": [0.9, 3.0]}, "limits_violated: position of a exceeds its limit by 0.1"),
    ],
)
def test_a_path_that_limits_do_not_time_is_refused(changes: dict, reason: str) -> None:
    node = SimulatedNode(**WITHOUT_JERK | changes)
    node.measure(0.1)
    with pytest.raises(Rejected, match=reason):
        node.plan(np.zeros(3), PATH)
        node.tick(NOW_S + 0.01)
        raise node.refused_with[-1]


def test_jerk_that_nobody_limits_is_assumed() -> None:
    node = SimulatedNode(**WITHOUT_JERK)
    node.measure(0.1)
    (trajectory,) = timed(node, PATH)
    assert (largest(trajectory.motion)[2] <= node.pipeline.assumed.bounds.jerk * (1 + 1e-6)).all()


def test_a_path_that_is_being_timed_gives_way_to_a_newer_sequence() -> None:
    node = limited()
    node.seek_in(Later())
    assert node.plan(np.zeros(3), PATH) is None
    assert node.send(np.full((5, 2), 0.1)) is not None
    assert node.tick(NOW_S + 0.01) is None and node.refused[0][0] is RejectionReason.SUPERSEDED
