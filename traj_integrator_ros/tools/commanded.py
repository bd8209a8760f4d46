"""What a controller would command between the points of a trajectory, and how far that is from its points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..execution.extremes import QUANTITIES, extremes
from ..execution.limits import Limits, Violation, first_violation
from ..execution.motion import Motion
from ..execution.points import Points, motion_of_points
from ..handling.limits import JointLimits

_UNITS = {"velocity": "rad/s", "acceleration": "rad/s^2", "jerk": "rad/s^3"}


@dataclass(frozen=True)
class Peaks:
    """Largest velocity, acceleration and jerk of any joint, SI units."""

    commanded: dict[str, float]
    at_points: dict[str, float | None]
    """None if the points do not have it; always None for jerk."""

    def __str__(self) -> str:
        return ", ".join(
            f"{value:.4g} {_UNITS[name]}" + self._against_points(name) for name, value in self.commanded.items()
        )

    def _against_points(self, name: str) -> str:
        planned = self.at_points[name]
        return f" ({self.commanded[name] / planned:.2f} x the points')" if planned else ""


def commanded_motion(
    time_ns: np.ndarray, positions: np.ndarray, velocities: np.ndarray | None, accelerations: np.ndarray | None
) -> Motion | None:
    """The motion that joint_trajectory_controller interpolates; None for one point, or unordered or NaN ones.

    Args:
        time_ns: `[N]`, int64.
        positions: `[N, D]`, rad.
        velocities: the same in rad/s, or None.
        accelerations: the same in rad/s^2, or None.

    """
    fields = [values for values in (positions, velocities, accelerations) if values is not None]
    if len(time_ns) < 2 or (np.diff(time_ns) <= 0).any() or not all(np.isfinite(values).all() for values in fields):
        return None
    return motion_of_points(Points(time_ns, positions, velocities, accelerations if velocities is not None else None))


def peaks_of(motion: Motion, velocities: np.ndarray | None, accelerations: np.ndarray | None) -> Peaks:
    """The exact peaks of a motion, and those of the points `[N, D]` that it interpolates."""
    largest = np.abs(extremes(motion)).max(axis=(0, 2))
    points = {"velocity": velocities, "acceleration": accelerations, "jerk": None}
    return Peaks(
        {name: float(largest[order]) for order, name in enumerate(QUANTITIES) if order},
        {name: None if values is None else float(np.abs(values).max()) for name, values in points.items()},
    )


def violations_between(motion: Motion, joints: tuple[str, ...], limits: JointLimits) -> list[Violation]:
    """Where each joint first leaves each of its limits; joints that the limits do not name have none."""
    known = [name in limits.joint_names for name in joints]
    columns = [limits.joint_names.index(name) if there else 0 for name, there in zip(joints, known, strict=True)]

    def of_the_motion(bounds: np.ndarray | None, none: float = np.inf) -> np.ndarray | None:
        return None if bounds is None else np.where(known, np.asarray(bounds)[columns], none)

    left = Limits(
        of_the_motion(limits.position_min, -np.inf),
        of_the_motion(limits.position_max),
        of_the_motion(limits.velocity),
        of_the_motion(limits.acceleration),
        of_the_motion(limits.jerk),
    )
    found = []
    while (violation := first_violation(motion, left)) is not None:
        found.append(violation)
        left = _without(left, violation)
    return found


def _without(limits: Limits, violation: Violation) -> Limits:
    names = ("position_min", "position_max") if violation.quantity == "position" else (violation.quantity,)
    changes = {}
    for name in names:
        bounds = getattr(limits, name)
        if bounds is not None:
            changes[name] = bounds.copy()
            changes[name][violation.joint] = -np.inf if name == "position_min" else np.inf
    return replace(limits, **changes)
