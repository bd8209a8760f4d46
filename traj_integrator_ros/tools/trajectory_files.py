"""Trajectories in files: JointTrajectory messages in a bag or in YAML, or a motion in a table or archive."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..motions.extras import load_yaml
from ..motions.files import format_of
from ..motions.read_bag import open_bag
from ..motions.read_csv import read_csv
from ..motions.read_npz import read_npz_batch
from ..motions.samples import Nature, RecordingError, Samples, checked_samples
from .checker import FIELDS, PlannedTrajectory, Point, field_array, planned_trajectory

JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
_NS = 1_000_000_000


def read_trajectories(path: Path, topic: str | None = None) -> Iterator[PlannedTrajectory]:
    """Every trajectory in a file, as it is: nothing about it is checked. Raises RecordingError.

    A bag has its JointTrajectory messages (of `topic`, or of the only such topic), YAML those that `ros2 topic echo`
    printed, a table is one trajectory, an archive one for each of its batch.
    """
    format_ = format_of(path)
    if format_ == "bag":
        yield from _in_bag(path, topic)
    elif format_ == "yaml":
        yield from _in_yaml(path)
    elif format_ == "archive":
        yield from map(_of_samples, read_npz_batch(path, as_is=True))
    else:
        yield _of_samples(read_csv(path, as_is=True))


def has_trajectories(path: Path, topic: str | None = None) -> bool:
    """Whether a file has JointTrajectory messages (of `topic`). Raises RecordingError."""
    if (format_ := format_of(path)) != "bag":
        return format_ == "yaml"
    with open_bag(path) as reader:
        return any(c.msgtype == JOINT_TRAJECTORY and topic in (None, c.topic) for c in reader.connections)


def samples_of(trajectory: PlannedTrajectory, source: str) -> Samples:
    """A trajectory as samples. Raises RecordingError where its numbers are not finite, incomplete or out of order."""
    dof = len(trajectory.joint_names)
    for field in FIELDS:
        lengths = {len(getattr(point, field)) for point in trajectory.points}
        if lengths not in ({dof}, {0}) or (field == "positions" and lengths == {0}):
            raise RecordingError(f"{source}: expected {dof} {field} in every point, got {sorted(lengths)}")
    times = [math.nan if point.time_ns is None else point.time_ns * 1e-9 for point in trajectory.points]
    return checked_samples(
        Path(source),
        trajectory.joint_names,
        np.array(times),
        *(field_array(trajectory, field) for field in FIELDS),
        kind="joint trajectory",
        nature=Nature.SET_POINTS,
    )


def _in_bag(path: Path, topic: str | None) -> Iterator[PlannedTrajectory]:
    with open_bag(path) as reader:
        found = sorted({c.topic for c in reader.connections if c.msgtype == JOINT_TRAJECTORY})
        if topic is None and len(found) > 1:
            raise RecordingError(f"{path}: several JointTrajectory topics, choose one by --topic: {', '.join(found)}")
        chosen = topic or (found[0] if found else None)
        if chosen not in found:
            listed = ", ".join(sorted(f"{c.topic} ({c.msgtype})" for c in reader.connections)) or "no topic"
            raise RecordingError(
                f"{path}: expected a JointTrajectory topic{f' {topic}' if topic else ''}, got {listed}"
            )
        connections = [c for c in reader.connections if c.topic == chosen]
        for connection, _, raw in reader.messages(connections=connections):
            yield planned_trajectory(reader.deserialize(raw, connection.msgtype))


def _in_yaml(path: Path) -> Iterator[PlannedTrajectory]:
    for document in load_yaml(path) or [None]:
        message = document.get("joint_trajectory", document) if isinstance(document, dict) else None
        try:
            yield _of_yaml(message)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise RecordingError(
                f"{path}: expected JointTrajectory messages with joint_names and points, as ros2 topic echo prints them"
            ) from None


def _of_yaml(message: dict[str, Any]) -> PlannedTrajectory:
    points = tuple(
        Point(
            _yaml_ns(point["time_from_start"]),
            *([float(value) for value in point.get(field) or []] for field in (*FIELDS, "effort")),
        )
        for point in message["points"]
    )
    stamp = _yaml_ns((message.get("header") or {}).get("stamp") or 0)
    if stamp is None:
        raise ValueError("header.stamp")
    return PlannedTrajectory(tuple(str(name) for name in message["joint_names"]), stamp, points)


def _yaml_ns(value: object) -> int | None:
    if isinstance(value, dict):
        return int(value["sec"]) * _NS + int(value["nanosec"])
    return _nanoseconds(float(value))  # type: ignore[arg-type]


def _nanoseconds(seconds: float) -> int | None:
    return round(seconds * _NS) if math.isfinite(seconds) else None


def _of_samples(samples: Samples) -> PlannedTrajectory:
    nothing = np.empty((len(samples.time), 0))
    rows = (nothing if values is None else values for values in (samples.velocity, samples.acceleration))
    points = zip(map(_nanoseconds, samples.time.tolist()), samples.position, *rows, strict=True)
    return PlannedTrajectory(samples.joint_names, 0, tuple(Point(*point) for point in points))
