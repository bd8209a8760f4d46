"""Joint states as drivers send them to the node: by several publishers, with NaN."""

from __future__ import annotations

import time
from array import array

import numpy as np
import pytest
from node_fixtures import JOINTS, NodeServer
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.client import sequence, set_stamp
from traj_integrator_ros.motions.trajectories import planned_trajectory

pytestmark = pytest.mark.ros
ARM, GRIPPER = JOINTS[:2], JOINTS[2]
NAN = float("nan")
ARM_PERIOD_S, GRIPPER_PERIOD_S = 0.01, 0.15
STAND = sequence(np.zeros((1, 4, len(JOINTS))), control_space=ActionSequence.VELOCITY)


def gripper_state(position: float) -> JointState:
    """Joint states of ros2_control from a driver without velocities and efforts, with one more joint."""
    message = JointState(name=["finger_of_another", GRIPPER], position=[9.0, position])
    message.velocity = message.effort = array("d", [NAN] * 2)
    set_stamp(message, time.time_ns())
    return message


def test_joints_of_two_publishers_are_merged_and_each_has_its_own_age(serve: NodeServer) -> None:
    _, client = serve({"state_timeout": 0.5})
    gripper, told = client.publisher(JointState, "joint_states"), client.rejections
    client.wait_for(gripper.get_subscription_count, "the node hears the gripper")
    with client.periodically(ARM_PERIOD_S, lambda: client.publish_state([0.1, -0.2], [NAN, 0.0], ARM)):
        client.spin(0.5)
        client.sequences.publish(STAND)
        client.wait_for(lambda: told, "a rejection")
        assert told[0].reason == "no_joint_state" and f"none of '{GRIPPER}' arrived" in told[0].text
        with client.periodically(GRIPPER_PERIOD_S, lambda: gripper.publish(gripper_state(0.04))):
            client.spin(2 * GRIPPER_PERIOD_S)
            _, trajectory = client.answer(STAND)
            begins = planned_trajectory(trajectory).points[0]
            np.testing.assert_allclose(begins.positions, [0.1, -0.2, 0.04], atol=1e-6)
            assert not any(begins.velocities)
            seen = [client.counts() for _ in range(10)]
            assert GRIPPER in {one["state_oldest_joint"] for one in seen}
            assert max(float(one["state_age_s"]) for one in seen) > ARM_PERIOD_S
            assert seen[-1]["rejected"] == "1", "velocities and efforts that are NaN are not given"
        told.clear()
        client.spin(0.8)  # the arm goes on, the gripper does not
        client.sequences.publish(STAND)
        client.wait_for(lambda: told, "a rejection")
        assert told[0].reason == "state_too_old" and f"joint state of {GRIPPER} is " in told[0].text
        assert client.counts()["state_oldest_joint"] == GRIPPER


def test_states_that_come_before_the_time_of_a_simulation_are_read_then(serve: NodeServer) -> None:
    _, client = serve({"use_sim_time": True})
    now = Clock()
    now.clock.sec = 1000
    client.publish_state([0.0] * 3, stamp_ns=1000 * 10**9)
    client.spin(0.3)
    clock = client.publisher(Clock, "/clock")
    with client.periodically(0.02, lambda: clock.publish(now)):
        client.wait_for(lambda: client.counts()["state_age_s"] == "0.000", "a state of that time")
