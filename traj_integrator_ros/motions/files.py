"""Opens motions in any supported format: rosbag2, a table, an NPZ archive, or YAML as ROS prints messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .joint_states import Tell, motion_of_states, with_velocity
from .printed import motions_printed
from .read_bag import JOINT_TRAJECTORY, kinds_with, open_bag, read_bag, topic_in
from .read_csv import read_csv
from .read_npz import read_npz
from .samples import RecordingError, Samples
from .trajectories import (
    TRAJECTORY,
    PlannedTrajectory,
    planned_trajectory,
    samples_of_trajectory,
    trajectory_of_samples,
    within,
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


def read_samples(path: Path, topic: str | None, tell: Tell, row: int | None = None) -> Samples:
    """The motion in `path`; `topic` names the JointState topic of a bag, `row` one of several motions.

    `tell` takes what was left out, merged or put in order. Raises RecordingError with one line that says what is wrong.
    """
    found = format_of(path)
    if found == "bag":
        return read_bag(path, topic, tell).checked()
    if found == "table":
        return with_velocity(read_csv(path, tell), tell).checked()
    if found == "archive":
        motions = list(read_npz(path))
    else:
        trajectories, states = motions_printed(path, tell)
        if states:
            return motion_of_states(states, str(path), "joint states as ROS prints them", tell).checked()
        if row is None and len(trajectories) > 1:
            raise RecordingError(f"{path}: expected one joint_trajectory, got {len(trajectories)}")
        motions = trajectories
    if row is None and len(motions) > 1:
        tell(f"motion 0 of {len(motions)} taken, the others left out")
    if (row or 0) >= len(motions):
        raise RecordingError(f"{path}: expected a trajectory below {len(motions)}, got {row}")
    chosen = motions[row or 0]
    if isinstance(chosen, Samples):
        return with_velocity(chosen, tell).checked()
    return samples_of_trajectory(chosen, str(path))


def read_trajectories(path: Path, topic: str | None, tell: Tell) -> Iterator[PlannedTrajectory]:
    """Every trajectory in a file, as it is: nothing about it is checked. Raises RecordingError.

    A bag has those of its messages of `topic`, or of the only topic whose messages have any, and YAML those that
    `ros2 topic echo` printed; joint states where there are none, tables and the motions of an archive are one each.
    """
    found = format_of(path)
    if found == "bag" and not has_trajectories(path, topic):
        yield trajectory_of_samples(read_bag(path, topic, tell))
    elif found == "bag":
        with open_bag(path) as reader:
            connections = topic_in(path, reader, kinds_with(reader, JOINT_TRAJECTORY), topic, tell)
            for connection, _, raw in reader.messages(connections=connections):
                yield from map(planned_trajectory, within(reader.deserialize(raw, connection.msgtype), TRAJECTORY))
    elif found == "yaml":
        trajectories, states = motions_printed(path, tell)
        yield from trajectories
        if states:
            yield trajectory_of_samples(motion_of_states(states, str(path), "", tell))
    elif found == "archive":
        yield from map(trajectory_of_samples, read_npz(path))
    else:
        yield trajectory_of_samples(read_csv(path, tell))


def has_trajectories(path: Path, topic: str | None) -> bool:
    """Whether a bag has messages with trajectories (in `topic`). Raises RecordingError."""
    if format_of(path) != "bag":
        return False
    with open_bag(path) as reader:
        kinds = kinds_with(reader, JOINT_TRAJECTORY)
        return any(c.msgtype in kinds and topic in (None, c.topic) for c in reader.connections)
