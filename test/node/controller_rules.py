"""What joint_trajectory_controller validates before it takes a trajectory, and what it does not but robots need."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from trajectory_msgs.msg import JointTrajectory


def assert_acceptable(message: JointTrajectory, joint_names: Sequence[str], *, at_rest: bool = True) -> None:
    """Check a message for the controller of these joints; `at_rest`: its last velocity must be exactly 0."""
    assert sorted(message.joint_names) == sorted(joint_names)
    assert message.points
    times = [point.time_from_start.sec * 10**9 + point.time_from_start.nanosec for point in message.points]
    assert times[0] >= 0
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    for point in message.points:
        assert len(point.positions) == len(point.velocities) == len(point.accelerations) == len(joint_names)
        assert len(point.effort) == 0
        assert np.isfinite([*point.positions, *point.velocities, *point.accelerations]).all()
    if at_rest:
        assert not np.any(message.points[-1].velocities)
