"""The stand-in for the command ros2: its arguments and its errors. The pages' tests use it on a node."""

from __future__ import annotations

import pytest

from kit import ros2

pytestmark = pytest.mark.ros


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "ros2: expected one of run traj_integrator_ros, topic pub, "),
        (["topic", "hz", "/x"], 2, "lifecycle set, got topic hz"),
        (["run", "traj_integrator_ros", "nonsense"], 2, "no executable 'nonsense' in traj_integrator_ros"),
        (["topic", "pub", "/x", "std_msgs/msg/Strin", "{}"], 1, "expected a type such as std_msgs/msg/Name"),
        (["topic", "pub", "/x", "std_msgs/msg/String", "{dat: a}"], 1, "expected values of String, got '{dat: a}': no"),
        (["topic", "pub", "/x", "std_msgs/msg/String", "{data: [}"], 1, "expected YAML, got '{data: [}'"),
        (["topic", "pub", "/x", "trajectory_msgs/msg/JointTrajectory", "{points: [3]}"], 1, "JointTrajectory, got"),
        (["lifecycle", "set", "/n", "start"], 1, "expected one of configure, activate, deactivate, cleanup, shutdown"),
    ],
)
def test_what_it_does_not_know_is_one_line(
    arguments: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("trajectory_msgs.msg", reason="trajectory_msgs cannot be imported")
    assert ros2.main(arguments) == code
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1
