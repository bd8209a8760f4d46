"""Arrays far beyond what the node accepts: refused, and the memory they took is used again for the next."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hostile_cases import NODE, good_sequence, plan
from hostile_node import HostileNode
from hostile_oracle import judge_gradient, judge_motion, judge_plan, judge_sequence, judge_state
from ros_client import floats
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.srv import ComputeGradient

pytestmark = [pytest.mark.ros, pytest.mark.slow]
HUGE = (100_000, 500_000, 2_000_000)
"""Lengths of arrays of numbers; those of a batch within the limits of the node have at most 384."""
MANY = 10_000
"""Names, points."""


def send_huge(node: HostileNode) -> None:
    for length in HUGE:
        data = floats(np.zeros(length))
        for message in (good_sequence(data=data), good_sequence(dt=data), good_sequence(start_position=data)):
            node.sequence(message, judge_motion(message, NODE))
            node.integrate(message, judge_sequence(message, NODE))
        request = ComputeGradient.Request(actions=good_sequence(), grad_velocity=data)
        node.compute_gradient(request, judge_gradient(request, NODE))
    long = plan(np.arange(MANY), np.zeros((MANY, NODE.dof)))
    node.plan(long, judge_plan(long, NODE, time.time_ns()))


def test_huge_arrays_are_refused_and_take_no_more_memory_the_next_time(hostile_node: HostileNode) -> None:
    for _ in range(3):
        send_huge(hostile_node)
    hostile_node.warm_bytes = hostile_node.process.resident_bytes()
    for _ in range(2):
        send_huge(hostile_node)
    hostile_node.assert_in_good_health("huge arrays")


def test_ten_megabytes_of_empty_names_cost_no_time(hostile_node: HostileNode) -> None:
    """Read one by one in Python, they would stop the node for seconds."""
    names = [""] * (10 * 2**20 // 8)
    before_s = hostile_node.process.cpu_s()
    sequence = good_sequence(joint_names=names)
    hostile_node.sequence(sequence, judge_sequence(sequence, NODE).or_too_many("joint_names"))
    long = plan([0.0], np.zeros((1, 0)), names)
    hostile_node.plan(long, judge_plan(long, NODE, time.time_ns()).or_too_many("joint_names"))
    state = JointState(name=[NODE.joint_names[0], *names])
    hostile_node.state(state, judge_state(state, NODE, hostile_node.newest_stamp_ns).or_too_many("joint_states.name"))
    # Three messages; beside them it supervises and reports, which takes a share of however long this lasts.
    assert hostile_node.process.cpu_s() < before_s + 3.0
