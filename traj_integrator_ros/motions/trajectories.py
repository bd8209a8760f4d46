"""JointTrajectory messages as they are, however wrong: of ROS, of a file, or made of samples. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .extras import load_yaml
from .samples import Nature, RecordingError, Samples, samples_of

if TYPE_CHECKING:
    from trajectory_msgs.msg import JointTrajectory

FIELDS = {"positions": "position", "velocities": "velocity", "accelerations": "acceleration"}
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Point:
    """One point; absent fields are empty."""

    time_ns: int | None
    """None if the time is not a finite number, as may be the case in a file."""
    positions: Sequence[float]
    velocities: Sequence[float] = ()
    accelerations: Sequence[float] = ()
    effort: Sequence[float] = ()


@dataclass(frozen=True)
class PlannedTrajectory:
    """The fields of a trajectory_msgs/JointTrajectory; `stamp_ns` 0 means that it starts on arrival."""

    joint_names: tuple[str, ...]
    stamp_ns: int
    points: tuple[Point, ...]

    def rows(self, field: str) -> np.ndarray | None:
        """One field of all points as float64 [N, D], None if it is empty; lengths must have been checked."""
        rows = [getattr(point, field) for point in self.points]
        return np.array(rows, np.float64) if len(rows[0]) else None


def planned_trajectory(message: JointTrajectory) -> PlannedTrajectory:
    """The fields of a JointTrajectory message, or of any object with its fields."""
    points = tuple(
        Point(_ns(point.time_from_start), point.positions, point.velocities, point.accelerations, point.effort)
        for point in message.points
    )
    return PlannedTrajectory(tuple(message.joint_names), _ns(message.header.stamp), points)


def trajectory_of_samples(samples: Samples) -> PlannedTrajectory:
    """Samples as a trajectory."""
    nothing = np.empty((len(samples.time), 0))
    rows = (nothing if values is None else values for values in (samples.velocity, samples.acceleration))
    points = zip(map(_nanoseconds, samples.time.tolist()), samples.position, *rows, strict=True)
    return PlannedTrajectory(samples.joint_names, 0, tuple(Point(*point) for point in points))


def samples_of_trajectory(trajectory: PlannedTrajectory, source: str) -> Samples:
    """A trajectory as samples. Raises RecordingError where its numbers are not finite, incomplete or out of order."""
    dof = len(trajectory.joint_names)
    for field in FIELDS:
        lengths = {len(getattr(point, field)) for point in trajectory.points}
        if lengths not in ({dof}, {0}) or (field == "positions" and lengths == {0}):
            raise RecordingError(f"{source}: expected {dof} {field} in every point, got {sorted(lengths)}")
    times = np.array([math.nan if point.time_ns is None else point.time_ns * 1e-9 for point in trajectory.points])
    rows = list(map(trajectory.rows, FIELDS))
    names = trajectory.joint_names
    return samples_of(source, names, times, rows, "planned trajectory", Nature.SET_POINTS).checked()


def trajectories_in_yaml(path: Path) -> Iterator[PlannedTrajectory]:
    """JointTrajectory or RobotTrajectory messages as `ros2 topic echo` prints them, times in s or {sec, nanosec}.

    Nothing about them is checked. Raises RecordingError for a file that is none.
    """
    expected = "expected JointTrajectory messages with joint_names and points, as ros2 topic echo prints them"
    for document in load_yaml(path) or [None]:
        message = document.get("joint_trajectory", document) if isinstance(document, dict) else None
        if not isinstance(message, dict):
            raise RecordingError(f"{path}: {expected}")
        try:
            yield _of_yaml(message)
        except KeyError as error:
            raise RecordingError(f"{path}: {expected}; {error} is missing") from None
        except (AttributeError, TypeError, ValueError) as error:
            raise RecordingError(f"{path}: {expected}: {error}") from None


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
        raise ValueError("header.stamp is not a number")
    return PlannedTrajectory(tuple(str(name) for name in message["joint_names"]), stamp, points)


def _yaml_ns(value: object) -> int | None:
    if isinstance(value, dict):
        return int(value["sec"]) * SECOND_NS + int(value["nanosec"])
    return _nanoseconds(float(value))  # type: ignore[arg-type]


def _nanoseconds(seconds: float) -> int | None:
    return round(seconds * SECOND_NS) if math.isfinite(seconds) else None


def _ns(time: Any) -> int:
    """Of a Time or Duration message."""
    return time.sec * SECOND_NS + time.nanosec
