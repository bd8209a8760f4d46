"""Goals of FollowJointTrajectory as the node takes them: their points as bytes, not as objects."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from node_fixtures import plan
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_ros.node import large_goals

pytestmark = pytest.mark.ros
MANY = 2000


class OtherTrajectory(ctypes.Structure):
    """A layout that rosidl does not have: the points before the names."""

    _fields_ = tuple(large_goals._Trajectory._fields_[number] for number in (0, 1, 3, 2))


class OtherRequest(ctypes.Structure):
    _fields_ = (("goal_id", ctypes.c_uint8 * 16), ("trajectory", OtherTrajectory))


def taken(names: list[str], count: int) -> tuple[object, object, JointTrajectory]:
    """A goal with a tolerance, as a server gets it; its identifier; and its trajectory as it was sent."""
    from control_msgs.action import FollowJointTrajectory
    from control_msgs.msg import JointTolerance

    trajectory = plan(np.arange(count), np.arange(float(count * len(names))).reshape(count, -1), names)
    request = FollowJointTrajectory.Impl.SendGoalService.Request()
    request.goal_id.uuid[:] = range(16)
    request.goal = FollowJointTrajectory.Goal(trajectory=trajectory, goal_tolerance=[JointTolerance(name=names[0])])
    kind = large_goals.taking_goals(FollowJointTrajectory).Impl.SendGoalService.Request
    found = deserialize_message(serialize_message(request), kind)
    return found.goal, found.goal_id, trajectory


def test_the_points_are_taken_as_bytes_and_the_rest_as_it_is(report_type: type) -> None:
    goal, identifier, sent = taken(["a", "b"], MANY)
    assert isinstance(goal, large_goals.TakenGoal)
    assert deserialize_message(goal.trajectory, JointTrajectory) == sent
    assert not goal.fields.trajectory.points and goal.fields.trajectory.joint_names == ["a", "b"]
    assert goal.fields.goal_tolerance[0].name == "a" and bytes(identifier.uuid) == bytes(range(16))


@pytest.mark.parametrize("why", ["another layout", "too many names", "no library"])
def test_whole_goals_are_taken_where_that_fails(report_type: type, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    names = [f"joint_{i}" for i in range(5000 if why == "too many names" else 3)]
    if why == "another layout":
        monkeypatch.setattr(large_goals, "_Request", OtherRequest)
    elif why == "no library":
        monkeypatch.setattr(large_goals, "rcl", lambda: None)
    goal, _, sent = taken(names, 2)
    assert goal.trajectory == sent
    assert deserialize_message(large_goals.taken_goal(goal).trajectory, JointTrajectory) == sent
