"""Recordings of rosbag2: what is in them is read, and what a recorder or damage left out is told."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from damaged_files import FORMATS, assert_read_or_refused, damaged, killed_recorder, write_whole
from joint_state_rows import joint_state, states
from recorded_messages import JOINT_STATE, JOINT_TRAJECTORY, TRAJECTORY_BATCH, Message, write_bag

from traj_integrator_ros.motions.door import each_read, reading
from traj_integrator_ros.motions.files import read_samples, read_trajectories
from traj_integrator_ros.motions.samples import QUANTITIES, RecordingError

POSITIONS = np.array([[0.0, 0.5], [0.1, 0.4], [0.3, 0.2]])
TIMES_NS = 0, 250_000_000, 1_500_000_000
COUNT = 100


def trajectory(scale: float = 1.0) -> Message:
    times = [{"sec": time // 10**9, "nanosec": time % 10**9} for time in TIMES_NS]
    points = [{"positions": scale * row, "time_from_start": time} for row, time in zip(POSITIONS, times, strict=True)]
    return {"joint_names": ["a", "b"], "points": points}


BATCH = {
    "joint_names": ["a", "b"],
    "batch": 2,
    "horizon": 3,
    "time_from_start": [time * 1e-9 for time in TIMES_NS],
    **{name: np.concatenate([POSITIONS, 2 * POSITIONS]).ravel() for name in QUANTITIES},
}


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    recorded = [(row.recorded_ns, joint_state(row)) for row in states()]
    return write_bag(tmp_path / "bag", [("/joint_states", JOINT_STATE, recorded)], storage="SQLITE3")


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_joint_states_or_trajectories_of_a_bag_come_first_as_asked(tmp_path: Path, storage: str) -> None:
    recorded = [(row.recorded_ns, joint_state(row)) for row in states()]
    plans = [(1, trajectory()), (2, trajectory(2.0))]
    topics = [("/joint_states", JOINT_STATE, recorded), ("/plan", JOINT_TRAJECTORY, plans)]
    bag = write_bag(tmp_path / "bag", topics, storage=storage)
    assert len(read_samples(bag, None, pytest.fail).time) == COUNT
    second = read_samples(bag, None, pytest.fail, 1, states_first=False)
    np.testing.assert_array_equal(second.position, 2 * POSITIONS)
    np.testing.assert_allclose(second.time, np.array(TIMES_NS) * 1e-9)
    np.testing.assert_array_equal(read_samples(bag, "/plan", pytest.fail, 0).position, POSITIONS)
    assert [len(one.points) for one in read_trajectories(bag, None, pytest.fail)] == [3, 3]
    assert [len(one.points) for one in read_trajectories(bag, "/joint_states", pytest.fail)] == [COUNT]
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
    both = write_bag(tmp_path / "both", [*topics, ("/plan", JOINT_TRAJECTORY, [(1, trajectory())])])
    assert len([*read_trajectories(both, None, pytest.fail)]) == 1
    assert len([*read_trajectories(both, "/batch", pytest.fail)]) == 4


def test_topics_that_somebody_only_subscribes_to_are_no_choice(tmp_path: Path) -> None:
    """Rosbag2 records such topics without messages."""
    topics = [("/asked", JOINT_TRAJECTORY, []), ("/joint_states", JOINT_STATE, [])]
    bag = write_bag(tmp_path / "bag", [*topics, ("/sent", JOINT_TRAJECTORY, [(1, trajectory())])])
    np.testing.assert_array_equal(read_samples(bag, None, pytest.fail).position, POSITIONS)
    with pytest.raises(RecordingError, match="expected a trajectory, got none"):
        read_samples(bag, "/asked", pytest.fail)
    with pytest.raises(RecordingError, match="expected joint states with positions, got no messages"):
        read_samples(write_bag(tmp_path / "empty", topics), None, pytest.fail)


@pytest.mark.parametrize("has_metadata", [True, False])
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_the_log_of_a_killed_recorder_is_read(bag: Path, has_metadata: bool, whole: bool) -> None:
    killed, notes = killed_recorder(bag), []
    if not has_metadata:
        (killed / "metadata.yaml").unlink()
    before = {one: one.read_bytes() for one in killed.iterdir()}
    assert len(read_samples(killed if whole else next(killed.glob("*.db3")), None, notes.append).time) == COUNT
    assert notes == ["bag.db3 was not closed: read with its write-ahead log"]
    assert {one: one.read_bytes() for one in killed.iterdir()} == before, "a recording is not changed by reading it"


def test_other_messages_than_the_metadata_counts_are_told_with_both_numbers(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("DELETE FROM messages WHERE id > 60")
    notes: list[str] = []
    assert len(read_samples(bag, None, notes.append).time) == 60
    assert notes == ["60 messages are there, where metadata.yaml counts 100"]


def test_a_split_recording_is_read_as_a_whole(tmp_path: Path) -> None:
    rows = [(row.recorded_ns, joint_state(row)) for row in states()]
    parts = [
        write_bag(tmp_path / f"p{k}", [("/joint_states", JOINT_STATE, rows[50 * k : 50 * k + 50])]) for k in (0, 1)
    ]
    (second,) = parts[1].glob("*.db3")
    shutil.copy(second, parts[0] / "second.db3")
    (parts[0] / "metadata.yaml").unlink()
    assert len(read_samples(parts[0], None, pytest.fail).time) == COUNT


def test_a_message_that_cannot_be_read_is_named_by_its_place(bag: Path) -> None:
    (file,) = bag.glob("*.db3")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE messages SET data = x'00010000ff' WHERE id = 8")
    with pytest.raises(RecordingError, match=rf"{bag}: message 7 of /joint_states cannot be read: "):
        read_samples(bag, None, pytest.fail)


@pytest.mark.parametrize(
    "error", [RecursionError(), MemoryError(), KeyError("x"), EOFError("two\nlines"), OSError(5, "bad")]
)
def test_any_error_of_a_library_is_one_line_with_the_file(error: Exception) -> None:
    with pytest.raises(RecordingError) as told, reading(Path("a.db3")):
        raise error
    assert str(told.value).startswith("a.db3: ") and "\n" not in str(told.value) and told.value.__cause__ is error


def test_errors_of_who_takes_motions_are_left_alone() -> None:
    with pytest.raises(KeyError):
        for _ in each_read(Path("a"), iter([1])):
            raise KeyError


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    whole = write_whole(tmp_path / "whole", kind)
    random = np.random.default_rng(5)
    for number in range(12):
        assert_read_or_refused(damaged(whole, tmp_path / f"{number}", random))
