"""Other messages in bags than joint states: trajectories in any message, batches, and unknown types."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from joint_state_rows import joint_state, states
from recorded_messages import DISPLAY_TRAJECTORY, JOINT_STATE, JOINT_TRAJECTORY, TRAJECTORY_BATCH, Message, write_bag

from traj_integrator_ros.motions.files import read_samples, read_trajectories
from traj_integrator_ros.motions.samples import QUANTITIES, RecordingError

POSITIONS = np.array([[0.0, 0.5], [0.1, 0.4], [0.3, 0.2]])
TIMES_NS = 0, 250_000_000, 1_500_000_000


def trajectory(scale: float = 1.0) -> Message:
    times = [{"sec": time // 10**9, "nanosec": time % 10**9} for time in TIMES_NS]
    points = [{"positions": scale * row, "time_from_start": time} for row, time in zip(POSITIONS, times, strict=True)]
    return {"joint_names": ["a", "b"], "points": points}


WITH_TRAJECTORIES = {
    JOINT_TRAJECTORY: trajectory(),
    DISPLAY_TRAJECTORY: {
        "trajectory": [{"joint_trajectory": trajectory()}],
        "trajectory_start": {"joint_state": {"name": ["a", "b"], "position": [0.0, 0.5]}},
    },
}
BATCH = {
    "joint_names": ["a", "b"],
    "batch": 2,
    "horizon": 3,
    "time_from_start": [time * 1e-9 for time in TIMES_NS],
    **{name: np.concatenate([POSITIONS, 2 * POSITIONS]).ravel() for name in QUANTITIES},
}


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("kind", WITH_TRAJECTORIES)
def test_a_trajectory_is_read_from_the_messages_of_any_type(tmp_path: Path, kind: str, storage: str) -> None:
    bag = write_bag(tmp_path / "bag", [("/plan", kind, [(1, WITH_TRAJECTORIES[kind])])], storage=storage)
    found = read_samples(bag, None, pytest.fail)
    np.testing.assert_allclose(found.time, np.array(TIMES_NS) * 1e-9)
    np.testing.assert_array_equal(found.position, POSITIONS)
    (one,) = read_trajectories(bag, None, pytest.fail)
    np.testing.assert_array_equal(one.rows("positions"), POSITIONS)


def test_joint_states_or_trajectories_of_a_bag_come_first_as_asked(tmp_path: Path) -> None:
    recorded = [(row.recorded_ns, joint_state(row)) for row in states()]
    plans = [(1, trajectory()), (2, trajectory(2.0))]
    bag = write_bag(tmp_path / "bag", [("/joint_states", JOINT_STATE, recorded), ("/plan", JOINT_TRAJECTORY, plans)])
    assert len(read_samples(bag, None, pytest.fail).time) == 100
    second = read_samples(bag, None, pytest.fail, 1, states_first=False)
    np.testing.assert_array_equal(second.position, 2 * POSITIONS)
    np.testing.assert_array_equal(read_samples(bag, "/plan", pytest.fail, 0).position, POSITIONS)
    assert [len(one.points) for one in read_trajectories(bag, None, pytest.fail)] == [3, 3]
    assert [len(one.points) for one in read_trajectories(bag, "/joint_states", pytest.fail)] == [100]
    with pytest.raises(RecordingError, match="expected one joint_trajectory, got 2"):
        read_samples(bag, "/plan", pytest.fail)
    with pytest.raises(RecordingError, match="expected a trajectory below 2, got 2"):
        read_samples(bag, "/plan", pytest.fail, 2)


def test_batches_are_read_where_there_are_no_plans_for_a_controller(tmp_path: Path) -> None:
    topics = [("/batch", TRAJECTORY_BATCH, [(1, BATCH), (2, BATCH)])]
    bag = write_bag(tmp_path / "bag", topics)
    notes: list[str] = []
    np.testing.assert_allclose(read_samples(bag, None, notes.append).position, POSITIONS, atol=1e-7)
    assert notes == ["motion 0 of 4 taken, the others left out"]
    np.testing.assert_allclose(read_samples(bag, None, pytest.fail, 3).jerk, 2 * POSITIONS, atol=1e-7)
    assert len([*read_trajectories(bag, None, pytest.fail)]) == 4
    both = write_bag(tmp_path / "both", [*topics, ("/plan", JOINT_TRAJECTORY, [(1, trajectory())])])
    assert len([*read_trajectories(both, None, pytest.fail)]) == 1
    assert len([*read_trajectories(both, "/batch", pytest.fail)]) == 4


def test_topics_that_somebody_only_subscribes_to_are_no_choice(tmp_path: Path) -> None:
    """Rosbag2 records such topics without messages."""
    plans, nothing = [(1, trajectory())], []
    topics = [("/asked", JOINT_TRAJECTORY, nothing), ("/joint_states", JOINT_STATE, nothing)]
    bag = write_bag(tmp_path / "bag", [*topics, ("/sent", JOINT_TRAJECTORY, plans)])
    np.testing.assert_array_equal(read_samples(bag, None, pytest.fail).position, POSITIONS)
    assert len([*read_trajectories(bag, None, pytest.fail)]) == 1
    with pytest.raises(RecordingError, match="expected a trajectory, got none"):
        read_samples(bag, "/asked", pytest.fail)
    for topic in (None, "/joint_states"):
        with pytest.raises(RecordingError, match="expected joint states with positions, got no messages"):
            read_samples(write_bag(tmp_path / f"empty{topic is None}", topics), topic, pytest.fail)


def test_types_without_a_definition_hide_nothing(tmp_path: Path) -> None:
    """Rosbag2 before Iron records types in this way."""
    unknown = "/display", DISPLAY_TRAJECTORY, [(1, WITH_TRAJECTORIES[DISPLAY_TRAJECTORY])]
    bags = [
        write_bag(tmp_path / "some", [unknown, ("/plan", JOINT_TRAJECTORY, [(1, trajectory())])]),
        write_bag(tmp_path / "all", [unknown]),
    ]
    for bag in bags:
        with sqlite3.connect(next(bag.glob("*.db3"))) as recording:
            recording.execute("DELETE FROM message_definitions")
    np.testing.assert_array_equal(read_samples(bags[0], None, pytest.fail).position, POSITIONS)
    for read in (read_samples, lambda *given: [*read_trajectories(*given)]):
        with pytest.raises(RecordingError, match=rf"got /display \({DISPLAY_TRAJECTORY}\)"):
            read(bags[1], None, pytest.fail)
