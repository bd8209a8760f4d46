"""The stand-in for the command ros2: its arguments and its errors. The pages' tests use it on a node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from kit import ros2
from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.sequences import read_sequences

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


def test_what_it_prints_is_read_by_the_tools(tmp_path: Path) -> None:
    """Joint states, trajectories and this package's own messages, as docs/without_ros.md says in place of a bag."""
    from sensor_msgs.msg import JointState
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from traj_integrator_interfaces.msg import TrajectoryBatch
    from traj_integrator_ros.client import packed, sequence

    rows, rate = np.linspace([0.0, 1.0], [200.0, 300.0], 3), [float("nan")] * 2
    states = [JointState(name=["a", "b"], position=row, velocity=rate) for row in rows]
    for second, state in enumerate(states):
        state.header.stamp.sec = 10 + second
    points = [JointTrajectoryPoint(positions=row) for row in rows]
    for second, point in enumerate(points):
        point.time_from_start.sec = second
    batch = TrajectoryBatch(joint_names=["a", "b"], batch=1, horizon=3)
    batch.time_from_start, batch.position = packed(range(3)), packed(rows)
    given = sequence(rows[None], dt=0.1, position=[0.0, 1.0], joint_names=["a", "b"])

    path = tmp_path / "echo.yaml"
    for messages in (states, [JointTrajectory(joint_names=["a", "b"], points=points)], [batch]):
        path.write_text("".join(f"{yaml.safe_dump(ros2._plain(one), sort_keys=False)}---\n" for one in messages))
        found = read_samples(path, None, pytest.fail)
        np.testing.assert_array_equal(found.time, range(3))
        np.testing.assert_array_equal(found.position, rows)
        assert found.velocity is None and found.joint_names == ("a", "b")
    path.write_text(f"{yaml.safe_dump(ros2._plain(given), sort_keys=False)}---\n")
    (read,) = read_sequences(path, "position", None, pytest.fail)
    np.testing.assert_array_equal(read.fields["data"], rows[None])
