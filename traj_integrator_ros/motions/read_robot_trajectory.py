"""Reads a planned motion from YAML: a RobotTrajectory or JointTrajectory message as `ros2 topic echo` prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .extras import load_yaml
from .samples import Nature, RecordingError, Samples, checked_samples


def read_robot_trajectory(path: Path) -> Samples:
    """The motion of `joint_names` and `points` (under `joint_trajectory` or at the top), times in s or {sec,
    nanosec}.
    """
    trajectory = _load(path)
    names, points = trajectory.get("joint_names"), trajectory.get("points")
    if not isinstance(names, list) or not names or not isinstance(points, list) or not points:
        raise RecordingError(f"{path}: expected joint_trajectory with joint_names and points")
    try:
        time = np.array([_seconds(point["time_from_start"]) for point in points])
    except (KeyError, TypeError, ValueError):
        raise RecordingError(f"{path}: expected time_from_start in s or as sec and nanosec in every point") from None
    position = _column(path, points, "positions", len(names))
    if position is None:
        raise RecordingError(f"{path}: expected positions in every point, got none")
    return checked_samples(
        path,
        [str(name) for name in names],
        time,
        position,
        _column(path, points, "velocities", len(names)),
        _column(path, points, "accelerations", len(names)),
        kind="planned trajectory (YAML)",
        nature=Nature.SET_POINTS,
    )


def _load(path: Path) -> dict[str, Any]:
    documents = load_yaml(path)
    content = documents[0] if len(documents) == 1 else None
    if not isinstance(content, dict):
        raise RecordingError(f"{path}: expected one joint_trajectory with joint_names and points")
    inner = content.get("joint_trajectory", content)
    return inner if isinstance(inner, dict) else {}


def _seconds(value: object) -> float:
    if isinstance(value, dict):
        return float(value["sec"]) + 1e-9 * float(value["nanosec"])
    return float(value)  # type: ignore[arg-type]


def _column(path: Path, points: list[dict[str, Any]], name: str, dof: int) -> np.ndarray | None:
    """[N, D] of one field, None if every point leaves it out."""
    rows = [point.get(name) or [] for point in points]
    if not any(rows):
        return None
    for k, row in enumerate(rows):
        if len(row) != dof:
            raise RecordingError(f"{path}: expected {dof} {name} in point {k}, got {len(row)}")
    try:
        return np.array(rows, dtype=float)
    except (TypeError, ValueError):
        raise RecordingError(f"{path}: expected numbers in {name}") from None
