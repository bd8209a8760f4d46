"""The model of the controller and an arm: many cycles at once equal single ones, and messages are read unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from builtin_interfaces.msg import Duration, Time
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from kit.arm import Robot
from kit.controller import SECOND, fields_of

JOINTS, CYCLE_NS = ["a", "b"], 1_000_000


@pytest.mark.parametrize("lag", [0.0, 0.02])
@pytest.mark.parametrize("hard", [False, True], ids=["blending", "replacing"])
def test_many_cycles_at_once_are_single_ones(hard: bool, lag: float) -> None:
    random, now_ns = np.random.default_rng(0), 5 * SECOND
    arms = [Robot(JOINTS, lag=lag, hard_replacement=hard) for _ in range(2)]
    for _ in range(30):
        count, known = int(random.integers(1, 5)), int(random.integers(1, 4))
        time_ns = random.integers(1_000_000, 60_000_000, count).cumsum()
        columns = [random.normal(size=(count, 2)) if k < known else None for k in range(3)]
        for rates in columns[1:known]:
            rates[-1] = 0.0
        stamp_ns = now_ns + int(random.integers(-10_000_000, 40_000_000))
        accepted = {arm.receive(JOINTS, time_ns, *columns, now_ns=now_ns, stamp_ns=stamp_ns) for arm in arms}
        assert len(accepted) == 1
        end_ns = now_ns + int(random.integers(0, 80)) * CYCLE_NS
        single = [arms[0].update(cycle_ns) for cycle_ns in range(now_ns, end_ns, CYCLE_NS)]
        together = arms[1].run(now_ns, end_ns).swapaxes(0, 1)
        np.testing.assert_allclose(together, np.reshape(single, together.shape), atol=1e-9)
        np.testing.assert_allclose(arms[1].measured(), arms[0].measured(), atol=1e-9)
        now_ns = end_ns


def test_a_message_is_read_as_it_is() -> None:
    points = [
        JointTrajectoryPoint(positions=[k, 2.0 * k], velocities=[0.0, 0.0], time_from_start=Duration(nanosec=k * 10**8))
        for k in range(1, 3)
    ]
    message = JointTrajectory(header=Header(stamp=Time(sec=3, nanosec=5)), joint_names=["b", "a"], points=points)
    arm = Robot(JOINTS)
    assert arm.receive(**fields_of(message), now_ns=3 * SECOND), arm.refusal
    commands = arm.run(3 * SECOND, 4 * SECOND)
    np.testing.assert_allclose(commands[:, -1], [[4.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    assert np.abs(commands[0, 199] - [4.0, 2.0]).max() < 1e-9 < np.abs(commands[0, 198] - [4.0, 2.0]).max()
