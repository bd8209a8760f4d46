"""Action sequences and position trajectories as plain arrays, for programs that have no messages. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import whole_ns
from .position_trajectory import PositionFields
from .sequences import SequenceFields

_NONE = np.zeros(0, np.float32)
_NO_INDEX = np.zeros(0, np.uint32)


class Actions(NamedTuple):
    """One trajectory of an ActionSequence; joints in the order of the parameter joint_names."""

    stamp_ns: int
    """When the first step begins, ns of the caller's clock; 0: as soon as possible."""
    space: int
    """A value of `ControlSpace`; 0: that of the parameter."""
    dt: float
    """Duration of each step, s; 0: that of the parameter."""
    data: np.ndarray
    """The actions, `[H, D]`, in the unit of the control space; converted to float32."""
    start: Sequence[np.ndarray] = ()
    """Position, velocity and acceleration at the start, `[D]` each, or the first of them; empty: the robot's state."""

    @property
    def fields(self) -> SequenceFields:
        """Return the fields in the form in which requests are checked."""
        start = *(np.asarray(part, np.float32) for part in self.start), *[_NONE] * (3 - len(self.start))
        dt, data = np.full(int(self.dt != 0), self.dt, np.float32), np.asarray(self.data, np.float32)
        return SequenceFields((), int(self.space), 1, len(data), dt, *start, _NO_INDEX, data.ravel())


class Positions(NamedTuple):
    """Contents of a JointTrajectory on ~/position_trajectory; joints in the order of the parameter joint_names."""

    stamp_ns: int
    """Time to which `times` are relative, ns of the caller's clock; 0: as soon as possible."""
    times: Sequence[float]
    """Time of each point, s, `[N]`."""
    positions: np.ndarray
    """Positions, rad, `[N, D]`."""
    velocities: Sequence[np.ndarray] = ()
    """Velocities, rad/s, `[N, D]`; a point without a velocity has an empty row. Empty if no point has one."""
    accelerations: Sequence[np.ndarray] = ()
    """Accelerations, rad/s^2, in the same form."""
    end: str | None = None
    """End of the plan: "goal" (at rest at its last position), "stream" (more may follow), or None (the parameter's)."""

    def fields(self, joint_names: Sequence[str]) -> PositionFields:
        """Return the fields in the form in which plans are checked."""
        time_ns = [whole_ns(time) for time in self.times]
        parts = self.positions, self.velocities, self.accelerations
        rows = ([np.asarray(row, np.float64) for row in part] for part in parts)
        return PositionFields(joint_names, self.stamp_ns, len(time_ns), time_ns, *rows)
