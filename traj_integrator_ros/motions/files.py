"""Opens a motion in any supported format: rosbag2, a CSV table, an NPZ archive, or a planned trajectory in YAML."""

from __future__ import annotations

from pathlib import Path

from .samples import RecordingError, Samples

BAG_SUFFIXES = (".db3", ".mcap")
TABLE_SUFFIXES = (".csv", ".txt")
ARRAY_SUFFIXES = (".npz",)
YAML_SUFFIXES = (".yaml", ".yml")


def is_bag(path: Path) -> bool:
    """Whether this is a rosbag2 recording: a folder, or a bare file of its storage."""
    return path.is_dir() or path.suffix in BAG_SUFFIXES


def read_samples(path: Path, topic: str | None = None) -> Samples:
    """The motion in `path`; `topic` names the JointState topic of a bag.

    Raises RecordingError with one line that says what is wrong.
    """
    if not path.exists():
        raise RecordingError(f"{path}: no such file or folder")
    if is_bag(path):
        from .read_bag import read_bag

        return read_bag(path, topic)
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        from .read_csv import read_csv

        return read_csv(path)
    if suffix in ARRAY_SUFFIXES:
        from .read_npz import read_npz

        return read_npz(path)
    if suffix in YAML_SUFFIXES:
        from .read_robot_trajectory import read_robot_trajectory

        return read_robot_trajectory(path)
    known = ", ".join((*BAG_SUFFIXES, *TABLE_SUFFIXES, *ARRAY_SUFFIXES, *YAML_SUFFIXES))
    raise RecordingError(f"{path}: expected a rosbag2 folder or a file ending in {known}")
