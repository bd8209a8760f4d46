"""JointTrajectory messages, unchecked: from ROS, from a file, or made of samples. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .joint_states import Tell
from .samples import Nature, RecordingError, Samples, samples_of

if TYPE_CHECKING:
    from trajectory_msgs.msg import JointTrajectory

FIELDS = {"positions": "position", "velocities": "velocity", "accelerations": "acceleration"}
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Point:
    """One point; absent fields are empty."""

    time_ns: int | None
    """Time, ns; None if it is not a finite number, as may occur in a file."""
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
        """One field of all points as float64 [N, D], NaN where a point has none, None if no point has any.

        Lengths must have been checked.
        """
        given = self.has(field)
        if not given.any():
            return None
        rows = np.full((len(given), len(self.joint_names)), np.nan)
        rows[given] = [values for point in self.points if len(values := getattr(point, field))]
        return rows

    def has(self, field: str) -> np.ndarray:
        """Return which points have a field, bool [N]."""
        return np.array([len(getattr(point, field)) > 0 for point in self.points])


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
    points = zip(map(nanoseconds, samples.time.tolist()), samples.position, *rows, strict=True)
    return PlannedTrajectory(samples.joint_names, 0, tuple(Point(*point) for point in points))


def samples_of_trajectory(trajectory: PlannedTrajectory, source: str, tell: Tell) -> Samples:
    """A trajectory as samples, without fields that only some points have.

    Raises RecordingError where its numbers are not finite, incomplete or out of order.
    """
    dof, rows = len(trajectory.joint_names), []
    for field in FIELDS:
        lengths = sorted({len(getattr(point, field)) for point in trajectory.points})
        if not {dof, 0}.issuperset(lengths) or (field == "positions" and 0 in lengths):
            raise RecordingError(f"{source}: expected {dof} {field} in every point, got {lengths}")
        given = trajectory.has(field)
        if not given.all() and given.any():
            tell(f"{field} left out, which only {given.sum()} of {len(given)} points have")
        rows.append(trajectory.rows(field) if given.all() else None)
    times = np.array([math.nan if point.time_ns is None else point.time_ns * 1e-9 for point in trajectory.points])
    names = trajectory.joint_names
    return samples_of(source, names, times, rows, "planned trajectory", Nature.SET_POINTS).checked()


def nanoseconds(seconds: float) -> int | None:
    """A time in ns; None if it is not finite."""
    return round(seconds * SECOND_NS) if math.isfinite(seconds) else None


def _ns(time: Any) -> int:
    """Nanoseconds of a Time or Duration message."""
    return time.sec * SECOND_NS + time.nanosec
