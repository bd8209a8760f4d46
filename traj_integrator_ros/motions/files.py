"""Opens motions in any supported format: rosbag2, a CSV table, an NPZ archive, or planned trajectories in YAML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .read_bag import JOINT_TRAJECTORY, open_bag, read_bag, topic_in
from .read_csv import read_csv
from .read_npz import read_npz
from .samples import RecordingError, Samples
from .trajectories import (
    PlannedTrajectory,
    planned_trajectory,
    samples_of_trajectory,
    trajectories_in_yaml,
    trajectory_of_samples,
)

FORMATS = {
    **dict.fromkeys((".db3", ".mcap"), "bag"),
    **dict.fromkeys((".csv", ".txt"), "table"),
    ".npz": "archive",
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
}


def format_of(path: Path) -> str:
    """One of FORMATS; a folder is a bag. Raises RecordingError where there is nothing, or something else."""
    if not path.exists():
        raise RecordingError(f"{path}: no such file or folder")
    found = "bag" if path.is_dir() else FORMATS.get(path.suffix.lower())
    if found is None:
        raise RecordingError(f"{path}: expected a rosbag2 folder or a file ending in {', '.join(FORMATS)}")
    return found


def read_samples(path: Path, topic: str | None = None, row: int = 0) -> Samples:
    """The motion in `path`; `topic` names the JointState topic of a bag, `row` the trajectory of an archive.

    Raises RecordingError with one line that says what is wrong.
    """
    found = format_of(path)
    if found == "bag":
        return read_bag(path, topic).checked()
    if found == "table":
        return read_csv(path).checked()
    if found == "archive":
        if row >= len(motions := list(read_npz(path))):
            raise RecordingError(f"{path}: expected a trajectory below {len(motions)}, got {row}")
        return motions[row].checked()
    trajectories = list(trajectories_in_yaml(path))
    if len(trajectories) > 1:
        raise RecordingError(f"{path}: expected one joint_trajectory, got {len(trajectories)}")
    return samples_of_trajectory(trajectories[0], str(path))


def read_trajectories(path: Path, topic: str | None = None) -> Iterator[PlannedTrajectory]:
    """Every trajectory in a file, as it is: nothing about it is checked. Raises RecordingError.

    A bag has its JointTrajectory messages (of `topic`, or of the only such topic), YAML those that `ros2 topic echo`
    printed, a table is one trajectory, an archive one for each of its batch.
    """
    found = format_of(path)
    if found == "bag":
        with open_bag(path) as reader:
            connections = topic_in(path, reader, JOINT_TRAJECTORY, topic)
            for connection, _, raw in reader.messages(connections=connections):
                yield planned_trajectory(reader.deserialize(raw, connection.msgtype))
    elif found == "yaml":
        yield from trajectories_in_yaml(path)
    elif found == "archive":
        yield from map(trajectory_of_samples, read_npz(path))
    else:
        yield trajectory_of_samples(read_csv(path))


def has_trajectories(path: Path, topic: str | None) -> bool:
    """Whether a file has JointTrajectory messages (of `topic`). Raises RecordingError."""
    if (found := format_of(path)) != "bag":
        return found == "yaml"
    with open_bag(path) as reader:
        return any(c.msgtype == JOINT_TRAJECTORY and topic in (None, c.topic) for c in reader.connections)
