"""How far what a controller would command between the points of a trajectory is from its points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..execution.extremes import QUANTITIES, extremes
from ..execution.motion import Motion
from ..motions.units import JointUnits


@dataclass(frozen=True)
class Peaks:
    """Largest velocity, acceleration and jerk of any of some joints, SI units."""

    units: tuple[str, str, str, str]
    commanded: dict[str, float]
    at_points: dict[str, float | None]
    """None if the points do not have it; always None for jerk."""

    def __str__(self) -> str:
        return ", ".join(
            f"{value:.4g} {unit}" + self._against_points(name)
            for (name, value), unit in zip(self.commanded.items(), self.units[1:], strict=True)
        )

    def _against_points(self, name: str) -> str:
        planned = self.at_points[name]
        return f" ({self.commanded[name] / planned:.2f} x the points')" if planned else ""


def peaks_of(
    motion: Motion,
    velocities: np.ndarray | None,
    accelerations: np.ndarray | None,
    joint_names: tuple[str, ...],
    units: JointUnits | None = None,
) -> list[Peaks]:
    """The exact peaks of a motion, and those of the points `[N, D]` that it interpolates, for each kind of joint."""
    largest = np.abs(extremes(motion)).max(axis=0)
    points = {"velocity": velocities, "acceleration": accelerations, "jerk": None}
    at_points = {name: None if values is None else np.abs(values).max(axis=0) for name, values in points.items()}
    return [
        Peaks(
            kind,
            {name: float(largest[order, joints].max()) for order, name in enumerate(QUANTITIES) if order},
            {name: None if values is None else float(values[joints].max()) for name, values in at_points.items()},
        )
        for kind, joints in (units or JointUnits()).kinds(joint_names).items()
    ]
