"""The tool integrate: what goes in comes out integrated, in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tool_runs import JOINTS, Tool, write_table

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.read_npz import read_npz
from traj_integrator_ros.motions.samples import QUANTITIES, RecordingError, Samples
from traj_integrator_ros.tools.integration_input import read_sequences, sequence_of_states
from traj_integrator_ros.tools.trajectory_files import read_trajectories


@pytest.mark.parametrize("control_space", ["position", "acceleration"])
def test_a_quadratic_motion_comes_back_from_its_own_actions(
    tool: Tool, tmp_path: Path, table: Path, quadratic: Samples, control_space: str
) -> None:
    arguments = ("integrate", table, "--control-space", control_space, "--out", "out.csv", "--quiet")
    result = tool(*arguments, "--rows")
    assert result.returncode == 0, result.stderr
    out = read_samples(tmp_path / "out.csv")
    assert out.joint_names == JOINTS
    np.testing.assert_allclose(out.time, quadratic.time, atol=1e-12)
    # Position control repeats its last action, which reaches no row.
    np.testing.assert_allclose(out.position, quadratic.position, atol=1e-12)
    np.testing.assert_allclose(out.acceleration[1:], quadratic.acceleration[1:], atol=1e-9)
    np.testing.assert_allclose(out.jerk[2:], 0, atol=1e-7)
    assert "RMS difference from the recording: position" in result.stdout

    assert tool(*arguments, "--end", "as_planned").returncode == 0
    out = read_samples(tmp_path / "out.csv")
    for quantity in QUANTITIES:
        np.testing.assert_allclose(getattr(out, quantity), getattr(quadratic, quantity), atol=1e-7)


def test_positions_at_uneven_times_keep_their_accelerations(tool: Tool, tmp_path: Path, quadratic: Samples) -> None:
    kept = [k for k in range(31) if k % 3 != 1]
    arrays = (getattr(quadratic, name)[kept] for name in QUANTITIES)
    uneven = Samples(JOINTS, quadratic.time[kept], *arrays, "made up", "test", quadratic.nature)
    write_table(tmp_path / "uneven.csv", uneven, ("position", "velocity", "acceleration"))
    arguments = ("integrate", "uneven.csv", "--out", "out.csv", "--quiet")
    result = tool(*arguments, "--rows")
    assert "uneven steps: divided differences" in result.stdout
    out = read_samples(tmp_path / "out.csv")
    np.testing.assert_allclose(out.position, uneven.position, atol=1e-12)
    np.testing.assert_allclose(out.acceleration, uneven.acceleration, atol=1e-9)
    assert tool(*arguments).returncode == 0
    out = read_samples(tmp_path / "out.csv")
    np.testing.assert_allclose(out.time[: len(kept)], uneven.time, atol=1e-9)
    np.testing.assert_allclose(out.acceleration[: len(kept) - 1], uneven.acceleration[:-1], atol=1e-9)


def test_every_action_is_executed_and_the_controller_would_take_what_comes_out(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="the rosbags library is not installed")
    (tmp_path / "actions.csv").write_text("action_a\n0.5\n0.5\n-1.0\n")
    arguments = ("integrate", "actions.csv", "--control-space", "velocity", "--dt", "0.1", "--quiet")
    assert tool(*arguments, "--end", "as_planned", "--out", "plan.csv").returncode == 0
    plan = read_samples(tmp_path / "plan.csv")
    np.testing.assert_allclose(plan.position[:, 0], [0.0, 0.05, 0.1, 0.0], atol=1e-12)
    for out in ("out.csv", "out.npz", "out_bag"):
        assert tool(*arguments, "--out", out).returncode == 0
        checked = tool("check_trajectory", out)
        assert checked.returncode == 0, checked.stdout
    stopped = read_samples(tmp_path / "out.csv")
    np.testing.assert_allclose(stopped.position[:4], plan.position, atol=1e-12)
    assert stopped.velocity[-1] == 0 and stopped.position[-1] < plan.position[-1]


def test_limits_are_those_of_the_motion_between_its_points(tool: Tool, tmp_path: Path) -> None:
    """Positions 0, 0.1, 0.1: the motion overshoots between points that keep the limit."""
    (tmp_path / "actions.csv").write_text("action_a\n0.1\n0.1\n0.1\n")
    limits = "{position_max: [0.1], acceleration: [20.0], jerk: [900.0]}"
    text = f"/**:\n  ros__parameters: {{joint_names: [a], limits: {limits}}}"
    (tmp_path / "robot.yaml").write_text(text)
    result = tool("integrate", "actions.csv", "--dt", "0.1", "--out", "o.csv", "--params", "robot.yaml", "--quiet")
    assert result.returncode == 0
    assert "limit exceeded: position of a at 0.1" in result.stdout and "limit 0.1 rad, got 0.1" in result.stdout
    assert "limit exceeded: acceleration of a at" in result.stdout


def test_a_batch_of_actions_goes_to_an_archive_a_bag_and_a_figure(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="the rosbags library is not installed")
    actions = np.random.default_rng(1).normal(size=(3, 5, 2))
    start = np.array([[1.0, 2.0]])
    np.savez(tmp_path / "in.npz", actions=actions, dt=0.1, start_position=start, control_space="jerk")
    for out in ("out.npz", "out_bag"):
        result = tool("integrate", "in.npz", "--out", out, "--plot", f"{out}.png", "--quiet", "--rows")
        assert result.returncode == 0, result.stderr
        assert (tmp_path / f"{out}.png").read_bytes()[:4] == b"\x89PNG"
    second = read_npz(tmp_path / "out.npz", row=1)
    np.testing.assert_allclose(second.jerk[1:], actions[1, :4], atol=1e-12)
    np.testing.assert_allclose(second.position[0], start[0])
    trajectories = list(read_trajectories(tmp_path / "out_bag"))
    assert len(trajectories) == 3
    np.testing.assert_allclose([point.positions for point in trajectories[1].points], second.position)
    states = read_samples(tmp_path / "out_bag")
    assert len(states.time) == 15 and states.joint_names == ("joint_0", "joint_1")


def test_action_sequences_of_a_bag_start_where_they_say_or_at_the_joint_state_before(tmp_path: Path) -> None:
    rosbag2 = pytest.importorskip("rosbags.rosbag2", reason="the rosbags library is not installed")
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    folder = Path(__file__).resolve().parents[2] / "traj_integrator_interfaces" / "msg"
    for name in ("StartState", "ActionSequence"):
        text = (folder / f"{name}.msg").read_text()
        types.register(get_types_from_msg(text, f"traj_integrator_interfaces/msg/{name}"))
    made = types.types
    header = made["std_msgs/msg/Header"](made["builtin_interfaces/msg/Time"](1, 0), "")
    empty = np.zeros(0, np.float32)

    def sequence(start: np.ndarray) -> object:
        return made["traj_integrator_interfaces/msg/ActionSequence"](
            header=header, joint_names=list(JOINTS), control_space=3, batch=2, horizon=3,
            dt=np.array([0.1], np.float32), start_index=np.zeros(0, np.uint32),
            start=made["traj_integrator_interfaces/msg/StartState"](start, empty, empty),
            data=np.arange(12, dtype=np.float32), goal_index=np.zeros(0, np.uint32), degree=0, steps=0,
            goal=made["traj_integrator_interfaces/msg/StartState"](empty, empty, empty),
        )  # fmt: skip

    state = made["sensor_msgs/msg/JointState"](
        header, ["arm_b", "arm_a"], np.array([2.0, 1.0]), np.array([0.2, 0.1]), np.zeros(0)
    )
    messages = (("/s", sequence(np.array([5, 6], np.float32))), ("/joint_states", state), ("/s", sequence(empty)))
    with rosbag2.Writer(tmp_path / "bag", version=9) as writer:
        connections = {
            topic: writer.add_connection(topic, message.__msgtype__, typestore=types) for topic, message in messages[:2]
        }
        for number, (topic, message) in enumerate(messages):
            writer.write(connections[topic], number, types.serialize_cdr(message, message.__msgtype__))
    own, measured = read_sequences(tmp_path / "bag", "position", None, {})
    assert own.control_space == "acceleration" and own.actions.shape == (2, 3, 2)
    np.testing.assert_allclose(own.start_position, [[5, 6]])
    np.testing.assert_allclose(measured.start_position, [[1, 2]])
    np.testing.assert_allclose(measured.start_velocity, [[0.1, 0.2]])


def test_what_a_motion_lacks_cannot_be_its_actions(quadratic: Samples) -> None:
    import dataclasses

    without = dataclasses.replace(quadratic, acceleration=None, jerk=None)
    with pytest.raises(RecordingError, match="expected jerk of every joint, got position, velocity only"):
        sequence_of_states(without, "jerk")
    derived = sequence_of_states(without, "position")
    np.testing.assert_allclose(derived.start_acceleration, quadratic.acceleration[:1], atol=1e-9)
    assert derived.note == "start acceleration by differences"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["motion.csv"], "--out, --plot: expected at least one of them"),
        (["motion.csv", "--out", "x.txt"], "--out: expected .csv, .npz or a folder"),
        (["motion.csv", "--plot", "x.gif"], "--plot: expected a file ending in .png"),
        (["motion.csv", "--out", "x.csv", "--row", "1"], "--row: expected less than 1 (the batch), got 1"),
        (["motion.csv", "--out", "x.csv", "--sequence", "4"], "--sequence: expected less than 1, got 4"),
        (["motion.csv", "--out", "x.csv", "--control-space", "jerk"], "expected jerk of every joint, got position"),
        (["motion.csv", "--out", "x.csv", "--rows", "--device", "tpu"], "device"),
        (["actions.csv", "--out", "x.csv", "--start-position", "1,2"], "--start-position: expected 1 numbers"),
        (["motion.csv", "--out", "x.csv", "--dtype", "float32"], "--dtype: expected with --rows only"),
        (["bad.npz", "--out", "x.csv"], "bad.npz: not an NPZ archive"),
        (["flat.npz", "--out", "x.csv"], "expected actions of shape [Ha, D] or [B, Ha, D], got [3]"),
        (["dt.npz", "--out", "x.csv"], "dt: expected a number, [horizon = 3]"),
        (["infinite.npz", "--out", "x.csv"], "expected a finite trajectory"),
        (["infinite.npz", "--out", "x.csv", "--rows"], "expected a finite trajectory"),
        (["nan.npz", "--out", "x.csv"], "actions: expected finite numbers"),
        (["motion.csv", "--out", "x.csv", "--dt", "1e6"], "expected 1e-06 to 10000 s, as the node, got '1e6'"),
        (["long.npz", "--out", "x.csv"], "dt: expected 1e-06 to 10000 s, as the node, got 1e+06"),
    ],
)
def test_wrong_usage_is_one_line_and_2(
    tool: Tool, tmp_path: Path, table: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "actions.csv").write_text("action_a\n1\n2\n")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no archive")
    np.savez(tmp_path / "flat.npz", actions=np.zeros(3))
    np.savez(tmp_path / "nan.npz", actions=np.full((3, 1), np.nan))
    np.savez(tmp_path / "long.npz", actions=np.zeros((3, 1)), dt=1e6)
    np.savez(tmp_path / "dt.npz", actions=np.zeros((3, 1)), dt=np.full(7, 0.1))
    np.savez(tmp_path / "infinite.npz", actions=np.full((3, 1), 1e308), control_space="acceleration", dt=1e4)
    result = tool("integrate", *arguments, "--quiet")
    assert result.returncode == 2
    assert words in result.stderr and result.stderr.count("\n") == 1, result.stderr
