"""Printed messages are read wherever the motion is in them; a text without a motion is refused with its keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from joint_state_rows import joint_state, states
from recorded_messages import printed as echoed

from traj_integrator_ros.motions.files import read_samples, read_trajectories
from traj_integrator_ros.motions.samples import QUANTITIES, Samples

TIMES = (0.0, 0.25, 1.5)
POSITIONS = [[0.0, -0.0], [0.1, -0.05], [0.2, -0.1]]


def trajectory(seconds: str = "sec", rest: str = "nanosec") -> dict[str, object]:
    points = [
        {"positions": row, "velocities": [], "accelerations": [], "effort": [],
         "time_from_start": {seconds: int(time), rest: round(time % 1 * 1e9)}}
        for time, row in zip(TIMES, POSITIONS, strict=True)
    ]  # fmt: skip
    return {"header": {"stamp": {seconds: 0, rest: 0}, "frame_id": ""}, "joint_names": ["a", "b"], "points": points}


def read(tmp_path: Path, text: str, *told: str) -> Samples:
    """The motion in a text, with exactly these notes."""
    (tmp_path / "echo.yaml").write_text(text)
    notes: list[str] = []
    samples = read_samples(tmp_path / "echo.yaml", None, notes.append)
    assert notes == list(told)
    return samples


ROBOT = {"joint_trajectory": trajectory(), "multi_dof_joint_trajectory": {"joint_names": [], "points": []}}
WITH_TRAJECTORIES = {
    "JointTrajectory": trajectory(),
    "JointTrajectory of ROS 1": trajectory("secs", "nsecs"),
    "RobotTrajectory": ROBOT,
    "times in seconds": {
        "joint_names": ["a", "b"],
        "points": [{"positions": row, "time_from_start": time} for row, time in zip(POSITIONS, TIMES, strict=True)],
    },
    "DisplayTrajectory": {"model_id": "", "trajectory": [ROBOT], "trajectory_start": {"joint_state": {"name": []}}},
    "goal of FollowJointTrajectory": {"trajectory": trajectory(), "goal_time_tolerance": {"sec": 0, "nanosec": 0}},
    "action goal of ROS 1": {"goal_id": {"id": ""}, "goal": {"trajectory": trajectory("secs", "nsecs")}},
    "result of MoveGroup": {"error_code": {"val": 1}, "planned_trajectory": ROBOT, "planning_time": 0.1},
}


@pytest.mark.parametrize("flow", [False, True, None])
@pytest.mark.parametrize("message", WITH_TRAJECTORIES.values(), ids=WITH_TRAJECTORIES)
def test_a_trajectory_is_found_in_any_message(tmp_path: Path, message: dict[str, object], flow: bool | None) -> None:
    found = read(tmp_path, echoed(message, flow=flow))
    np.testing.assert_array_equal(found.time, TIMES)
    np.testing.assert_array_equal(found.position, POSITIONS)
    assert found.joint_names == ("a", "b") and found.velocity is None
    assert len(list(read_trajectories(tmp_path / "echo.yaml", None, pytest.fail))) == 1


BATCH = {
    "header": {"stamp": {"sec": 1, "nanosec": 0}, "frame_id": ""},
    "joint_names": ["a", "b"],
    "batch": 2,
    "horizon": 3,
    "time_from_start": list(TIMES),
    **{name: (order + np.arange(12.0)).tolist() for order, name in enumerate(QUANTITIES)},
}


@pytest.mark.parametrize("times", [TIMES, (*TIMES, 0.0, 0.5, 1.0)], ids=["shared", "of each"])
def test_all_trajectories_of_a_batch_are_read_with_what_it_has(tmp_path: Path, times: tuple[float, ...]) -> None:
    batch = {**BATCH, "time_from_start": list(times), "velocity": []}
    found = read(tmp_path, echoed(batch), "motion 0 of 2 taken, the others left out")
    np.testing.assert_array_equal(found.position, np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(found.jerk, 3 + np.arange(6.0).reshape(3, 2))
    assert found.velocity is None and found.joint_names == ("a", "b")
    second = read_samples(tmp_path / "echo.yaml", None, pytest.fail, 1)
    np.testing.assert_array_equal(second.time, times[-3:])
    np.testing.assert_array_equal(second.acceleration, 8 + np.arange(6.0).reshape(3, 2))
    assert [len(one.points) for one in read_trajectories(tmp_path / "echo.yaml", None, pytest.fail)] == [3, 3]


@pytest.mark.parametrize("names", [("sec", "nanosec"), ("secs", "nsecs")], ids=["ROS 2", "ROS 1"])
def test_joint_states_are_one_motion_by_their_stamps(tmp_path: Path, names: tuple[str, str]) -> None:
    rows = states(count=5)
    found = read(tmp_path, echoed(*(joint_state(row, *names) for row in rows)))
    np.testing.assert_allclose(found.time, 0.02 * np.arange(5), atol=1e-12)
    np.testing.assert_array_equal(found.position, [row.position for row in rows])
    np.testing.assert_array_equal(found.velocity, [row.velocity for row in rows])
    (one,) = read_trajectories(tmp_path / "echo.yaml", None, pytest.fail)
    assert len(one.points) == 5


TYPED = {
    # a time as typed for `ros2 topic pub`, and its value in s
    "{sec: 2}": 2.0,
    "{nanosec: 500000000}": 0.5,
    "{sec: 1, nanosec: 0}": 1.0,
    "{secs: 2}": 2.0,
    "{}": 0.0,
    "": 0.0,
    "2.5": 2.5,
}


@pytest.mark.parametrize("time", TYPED)
@pytest.mark.parametrize("header", ["", "header: auto\n", "header: {stamp: now}\n", "header: {frame_id: base}\n"])
def test_messages_are_read_as_they_are_typed(tmp_path: Path, time: str, header: str) -> None:
    (tmp_path / "a.yaml").write_text(
        f"{header}joint_names: [a]\npoints: [{{positions: [1.0], time_from_start: {time}}}]"
    )
    (one,) = read_trajectories(tmp_path / "a.yaml", None, pytest.fail)
    assert (one.stamp_ns, one.points[0].time_ns) == (0, TYPED[time] * 1e9)


def test_a_point_without_a_time_is_at_the_begin(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("joint_names: [a]\npoints: [{positions: [1.0]}]")
    (one,) = read_trajectories(tmp_path / "a.yaml", None, pytest.fail)
    assert one.points[0].time_ns == 0


@pytest.mark.parametrize("velocity", [[], None, [float("nan")] * 2], ids=str)
def test_velocities_that_are_not_printed_are_not_given(tmp_path: Path, velocity: object) -> None:
    assert read(tmp_path, echoed(*(joint_state(row, velocity=velocity) for row in states(count=5)))).velocity is None


def test_what_only_some_points_have_is_left_out_and_told(tmp_path: Path) -> None:
    text = "{joint_names: [a], points: [{positions: [0]}, {positions: [1], velocities: [0], time_from_start: 2}]}"
    assert read(tmp_path, text, "velocities left out, which only 1 of 2 points have").velocity is None
    (one,) = read_trajectories(tmp_path / "echo.yaml", None, pytest.fail)
    np.testing.assert_array_equal(one.rows("velocities"), [[np.nan], [0.0]])


@pytest.mark.parametrize("share", np.linspace(0.05, 0.95, 19).round(2))
def test_a_last_message_that_is_cut_off_is_left_out_and_told(tmp_path: Path, share: float) -> None:
    messages = [joint_state(row) for row in states(count=4)]
    last = echoed(messages[3])
    (tmp_path / "echo.yaml").write_text(echoed(*messages[:3]) + last[: round(share * last.index("effort"))])
    notes: list[str] = []
    found = read_samples(tmp_path / "echo.yaml", None, notes.append)
    np.testing.assert_array_equal(found.position, [row.position for row in states(count=3)])
    assert notes == ["the last message is cut off, and left out"]


def test_a_last_trajectory_that_is_cut_off_is_left_out_and_told(tmp_path: Path) -> None:
    text = echoed(trajectory(), trajectory())
    told = "the last message is cut off, and left out"
    np.testing.assert_array_equal(read(tmp_path, text[: text.rindex("effort")], told).position, POSITIONS)


def test_what_ros2_prints_between_messages_is_no_message(tmp_path: Path) -> None:
    messages = [joint_state(row) for row in states(count=4)]
    lost = "A message was lost!!!\n\ttotal count change:1\n\ttotal count: 1---\n"
    text = "nothing yet\n---\n" + echoed(*messages[:2]) + lost + echoed(*messages[2:])
    told = (
        "messages were lost when this was recorded (1 times), as ros2 topic echo says in it",
        "left out: 1 of 5 documents, which are no messages",
    )
    assert len(read(tmp_path, text, *told).time) == 4
