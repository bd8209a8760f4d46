"""The tool check_trajectory: exit codes and findings for files and topics."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from recordings import write_table
from tool_runs import JOINTS, Tool, command, environment

from traj_integrator_ros.motions.samples import Samples


def test_acceptable_trajectories_end_with_0(tool: Tool, tmp_path: Path) -> None:
    position, velocity = np.zeros((2, 2, 2, 2))
    position[:, 1, 0], velocity[:, 0, 0] = 0.1, 0.1
    np.savez(tmp_path / "two.npz", time=[0.0, 1.0], position=position, velocity=velocity, joint_names=JOINTS)
    result = tool("check_trajectory", "two.npz", "--joints", "arm_a,arm_b")
    peaks = "commanded at most 0.1333 rad/s (1.33 x the points'), 0.4 rad/s^2, 0.6 rad/s^3"
    lines = [f"trajectory {k}: ok (2 joints, 2 points, 1.000 s; {peaks})\n" for k in range(2)]
    assert result == (0, "".join(lines) + "2 of 2 trajectories acceptable\n", "")


@pytest.mark.parametrize(
    ("quantity", "value", "finding"),
    [
        ("position", np.nan, "finite: positions of arm_b at point 4: expected a finite number, got nan"),
        ("velocity", np.inf, "finite: velocities of arm_b at point 4: expected a finite number, got inf"),
        ("acceleration", -np.inf, "finite: accelerations of arm_b at point 4: expected a finite number, got -inf"),
        ("time", np.nan, "finite: time_from_start at point 4: expected a finite number, got none"),
        ("time", 0.0, "times: time_from_start at point 4: expected more than 0.06 s, got 0 s"),
    ],
)
def test_numbers_of_a_file_that_no_robot_can_follow_are_findings(
    tool: Tool, tmp_path: Path, quadratic: Samples, quantity: str, value: float, finding: str
) -> None:
    names = ("time", "position", "velocity", "acceleration")
    both = {name: np.stack([getattr(quadratic, name)] * 2) for name in names}
    both[quantity][(1, 4) if quantity == "time" else (1, 4, 1)] = value
    bad = {name: rows[1] for name, rows in both.items()}
    write_table(tmp_path / "bad.csv", dataclasses.replace(quadratic, **bad), names[1:])
    np.savez(tmp_path / "bad.npz", joint_names=JOINTS, **both)
    for file, number in (("bad.csv", 0), ("bad.npz", 1)):
        result = tool("check_trajectory", file, "--moving-end")
        assert (result.returncode, result.stderr) == (1, "")
        assert f"trajectory {number}: {finding}\n" in result.stdout and f"{number}: ok" not in result.stdout
    assert result.stdout.endswith("1 of 2 trajectories acceptable\n")
    assert tool("check_trajectory", file, "--moving-end", "--quiet").stdout == f"trajectory 1: {finding}\n"


@pytest.mark.ros
def test_a_topic_is_checked_against_the_robot_as_its_topics_tell(tmp_path: Path) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from sensor_msgs.msg import JointState
    from std_msgs.msg import String
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from traj_integrator_ros.tools.ros_session import RosSession

    check = ("check_trajectory", "--topic", "/plan", "--robot", "/arm/joint_states", "--count", "1", "--timeout", "30")
    plot = ("plot_trajectory", "--topic", "/plan", "--out", "plan.svg", "--timeout", "30")
    options = {"env": environment(), "cwd": tmp_path, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command(*arguments), **options) for arguments in (check, plot)]
    plan = JointTrajectory(joint_names=JOINTS)
    plan.points = [JointTrajectoryPoint(positions=[0.5, 6.28], velocities=[0.2, 0.3])]
    state = JointState(name=["arm_b", "arm_a"], position=[0.0, 0.1])
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    with RosSession("planner_of_a_test") as session:
        description = session.node.create_publisher(String, "robot_description", latched)
        joint = '<joint name="{}" type="{}"/>'
        joints = joint.format("arm_a", "prismatic") + joint.format("arm_b", "continuous")
        description.publish(String(data=f"<robot>{joints}</robot>"))
        plans = session.node.create_publisher(JointTrajectory, "/plan", 10)
        states = session.node.create_publisher(JointState, "/arm/joint_states", 10)
        deadline, heard = time.monotonic() + 60, 0
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            states.publish(state)
            heard += states.get_subscription_count() > 0 and plans.get_subscription_count() > 0
            if heard > 20:  # the robot has been heard for a second
                plans.publish(plan)
            time.sleep(0.05)
        output = processes[0].communicate(timeout=10)[0]
    assert [process.wait(10) for process in processes] == [1, 0]
    assert "start: start of arm_a at point 0: expected 0.1 (the robot) within 0.1, got 0.5" in output
    assert "start of arm_b" not in output  # a turn away
    assert "got 0.2 m/s" in output and "got 0.3 rad/s" in output
    assert "[m/s" in (tmp_path / "plan.svg").read_text()


def test_limits_come_from_the_urdf_that_the_parameters_name(tool: Tool, tmp_path: Path, table: Path) -> None:
    joint = '<joint name="arm_{}" type="revolute"><limit lower="-9" upper="9" velocity="{}"/></joint>'
    (tmp_path / "arm.urdf").write_text(f"<robot>{joint.format('a', 0.3)}{joint.format('b', 9)}</robot>")
    parameters = "/**: {ros__parameters: {joint_names: [arm_a, arm_b], limits: {urdf: arm.urdf}}}"
    (tmp_path / "robot.yaml").write_text(parameters)
    result = tool("check_trajectory", table, "--params", "robot.yaml", "--moving-end")
    assert result.returncode == 1 and "limits: velocity of arm_a: expected at most 0.3 rad/s, got 0.5" in result.stdout
