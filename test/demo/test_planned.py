from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("ruckig", reason="the ruckig library is not installed")

from traj_integrator_ros.demo import planned


def test_planned_motion_keeps_its_limits_and_its_states_belong_together():
    motion, limits = planned.planned_motion(), planned.LIMITS
    starts = planned.START_VELOCITY, planned.START_ACCELERATION
    np.testing.assert_allclose([motion.velocity[0], motion.acceleration[0]], starts)
    assert np.abs(motion.velocity[0]).min() >= 0.1 and 10 <= motion.duration <= 15
    assert np.abs(motion.velocity[-1]).max() < planned.JERK_LIMIT * planned.PERIOD**2
    fastest, most = (np.abs(rows).max(axis=0) for rows in (motion.velocity, motion.acceleration))
    assert np.all(fastest <= planned.SPEED * limits["velocity"] + 1e-9)
    assert np.all(most <= planned.ACCELERATION_SHARE * limits["acceleration"] + 1e-9)
    jerk = np.diff(motion.acceleration, axis=0) / planned.PERIOD
    assert np.abs(jerk).max() <= planned.JERK_LIMIT * (1 + 1e-9)
    for rows, rates, power in ((motion.position, motion.velocity, 3), (motion.velocity, motion.acceleration, 2)):
        apart = np.diff(rows, axis=0) - planned.PERIOD * (rates[1:] + rates[:-1]) / 2
        assert np.abs(apart).max() <= planned.JERK_LIMIT * planned.PERIOD**power / (6 if power == 3 else 2)


def test_limits_are_those_of_the_robots_file(project_root: Path):
    [node] = yaml.safe_load((project_root / "config" / "franka.yaml").read_text(encoding="utf-8")).values()
    joints, values = planned.PANDA_JOINTS, node["ros__parameters"]
    assert tuple(values["joint_names"]) == joints
    for name, own in planned.LIMITS.items():
        np.testing.assert_array_equal(own, values["limits"][name])
    assert planned.limits_of(list(joints)) is planned.LIMITS and not planned.limits_of(joints[:6])
