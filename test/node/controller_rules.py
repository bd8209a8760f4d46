"""Trajectories that tests receive, held against what controllers and robots need."""

from __future__ import annotations

from collections.abc import Sequence

from trajectory_msgs.msg import JointTrajectory

from traj_integrator_ros.tools.checker import Expectation, check_message


def assert_acceptable(message: JointTrajectory, joint_names: Sequence[str], *, at_rest: bool = True) -> None:
    """Check a message for the controller of these joints; `at_rest`: its last velocity must be 0."""
    findings = check_message(message, Expectation(joint_names, at_rest=at_rest, complete=True))
    assert not findings, "\n".join(map(str, findings))
