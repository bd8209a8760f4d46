"""Action sequences and position trajectories as plain arrays, for programs that have no messages. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import whole_ns
from .position_trajectory import PositionFields
from .sequences import SequenceFields

_NONE, _NO_INDEX = np.zeros(0, np.float32), np.zeros(0, np.uint32)


class Actions(NamedTuple):
    """One trajectory of an ActionSequence; joints in the order of the parameter joint_names."""

    stamp_ns: int
    """Time at which the first step begins, ns of the caller's clock; 0: as soon as possible."""
    space: int
    """A value of `ControlSpace`; 0: the parameter's."""
    dt: float
    """Length of each step, s; 0: the parameter's."""
    data: np.ndarray
    """`[H, D]` in the unit of the control space; used as float32."""
    start: Sequence[np.ndarray] = ()
    """Position, velocity and acceleration, `[D]` each, or fewer of them; empty: the robot's own."""

    @property
    def fields(self) -> SequenceFields:
        """The fields in the form in which requests are checked."""
        start = *(np.asarray(part, np.float32) for part in self.start), *[_NONE] * (3 - len(self.start))
        dt, data = np.full(int(self.dt != 0), self.dt, np.float32), np.asarray(self.data, np.float32)
        return SequenceFields((), int(self.space), 1, len(data), dt, *start, _NO_INDEX, data.ravel())


class Positions(NamedTuple):
    """Contents of a JointTrajectory on ~/position_trajectory; joints in the order of the parameter joint_names."""

    stamp_ns: int
    """The time from which `times` count, ns of the caller's clock; 0: as soon as possible."""
    times: Sequence[float]
    """s, `[N]`."""
    positions: np.ndarray
    """rad, `[N, D]`."""
    velocities: Sequence[np.ndarray] = ()
    """rad/s, `[N, D]`; rows without values where a point has none; empty: no point has any."""
    accelerations: Sequence[np.ndarray] = ()
    """Accelerations in the same form, rad/s^2."""
    end: str | None = None
    """"goal": it ends at rest at its last position; "stream": more may follow; None: as the parameters say."""

    def fields(self, joint_names: Sequence[str]) -> PositionFields:
        """The fields in the form in which plans are checked."""
        time_ns = [whole_ns(time) for time in self.times]
        parts = self.positions, self.velocities, self.accelerations
        rows = ([np.asarray(row, np.float64) for row in part] for part in parts)
        return PositionFields(joint_names, self.stamp_ns, len(time_ns), time_ns, *rows)
