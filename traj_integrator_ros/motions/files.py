"""Opens a motion in any supported format: rosbag2, a CSV table, an NPZ archive, or a planned trajectory in YAML."""

from __future__ import annotations

from pathlib import Path

from .read_bag import read_bag
from .read_csv import read_csv
from .read_npz import read_npz
from .read_robot_trajectory import read_robot_trajectory
from .samples import RecordingError, Samples

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


def read_samples(path: Path, topic: str | None = None) -> Samples:
    """The motion in `path`; `topic` names the JointState topic of a bag.

    Raises RecordingError with one line that says what is wrong.
    """
    found = format_of(path)
    if found == "bag":
        return read_bag(path, topic)
    return {"table": read_csv, "archive": read_npz, "yaml": read_robot_trajectory}[found](path)
