"""Positions and times from other planners, without ROS."""

from __future__ import annotations

import numpy as np
import pytest

from traj_integrator_ros.handling.position_trajectory import PositionFields, plan_of_positions
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason

NAMES = ("a", "b", "c")
SECOND = 10**9


def fields(**changes: object) -> PositionFields:
    return PositionFields(["b", "a"], 0, 2, [0, SECOND], [np.zeros(2), np.ones(2)])._replace(**changes)


def test_a_first_point_at_time_zero_is_the_start_and_the_others_are_steps() -> None:
    given = fields(joint_names=["c", "a"], time_ns=[0, SECOND, 3 * SECOND], count=3, positions=[np.arange(2.0)] * 3)
    plan = plan_of_positions(given, NAMES, 10, 0)
    assert plan.steps.tolist() == [1.0, 2.0]
    assert np.array_equal(plan.start.position, [1.0, np.nan, 0.0], equal_nan=True)
    assert np.array_equal(plan.actions, [[1.0, np.nan, 0.0]] * 2, equal_nan=True)


def test_a_later_first_point_leaves_the_start_open() -> None:
    plan = plan_of_positions(fields(time_ns=[SECOND // 2, SECOND], stamp_ns=7), NAMES, 10, 0)
    assert plan.start is None and plan.steps.tolist() == [0.5, 0.5] and plan.origin_ns == 7


@pytest.mark.parametrize(("stamp_ns", "accepted"), [(0, True), (99 * SECOND + 1, True), (99 * SECOND, False)])
def test_a_start_time_is_accepted_while_the_end_is_still_to_come(stamp_ns: int, accepted: bool) -> None:
    now_ns = 100 * SECOND
    if accepted:
        plan_of_positions(fields(stamp_ns=stamp_ns), NAMES, 10, now_ns)
    else:
        with pytest.raises(Rejected) as caught:
            plan_of_positions(fields(stamp_ns=stamp_ns), NAMES, 10, now_ns)
        assert caught.value.reason is RejectionReason.INVALID_TIMES
