from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("ruckig", reason="the ruckig library is not installed")

from traj_integrator_ros.demo.planned import (
    ACCELERATION_SHARE,
    JERK_LIMIT,
    LIMITS,
    PANDA_JOINTS,
    PERIOD,
    SPEED,
    START_ACCELERATION,
    START_VELOCITY,
    limits_of,
    planned_motion,
)


def test_planned_motion_keeps_its_limits():
    motion = planned_motion()
    np.testing.assert_allclose([motion.velocity[0], motion.acceleration[0]], [START_VELOCITY, START_ACCELERATION])
    assert np.abs(motion.velocity[0]).min() >= 0.1 and 10 <= motion.duration <= 15
    assert np.abs(motion.velocity[-1]).max() < JERK_LIMIT * PERIOD**2
    assert np.all(np.abs(motion.velocity).max(axis=0) <= SPEED * LIMITS["velocity"] + 1e-9)
    assert np.all(np.abs(motion.acceleration).max(axis=0) <= ACCELERATION_SHARE * LIMITS["acceleration"] + 1e-9)
    assert np.abs(np.diff(motion.acceleration, axis=0)).max() / PERIOD <= JERK_LIMIT * (1 + 1e-9)


def test_limits_are_those_of_the_robots_file_and_known_by_all_of_its_joints(project_root: Path):
    [node] = yaml.safe_load((project_root / "config" / "franka.yaml").read_text(encoding="utf-8")).values()
    values = node["ros__parameters"]
    assert tuple(values["joint_names"]) == PANDA_JOINTS
    for name, own in LIMITS.items():
        np.testing.assert_array_equal(own, values["limits"][name])
    assert limits_of(list(PANDA_JOINTS)) is LIMITS and not limits_of(PANDA_JOINTS[:6])
