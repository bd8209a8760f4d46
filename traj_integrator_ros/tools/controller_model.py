"""What joint_trajectory_controller commands while trajectories replace each other: a model of it. Knows no ROS.

A new trajectory replaces the old one at once, as in releases before 6.8, and in later ones with
allow_trajectory_replacement: false. From then until its first point, the command moves there from where the joints are;
its last point is held, at rest. A test holds it against a model that agrees with the controller's own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..execution.motion import Motion, State, resting
from ..execution.rows import Points, motion_of_points
from ..motions.trajectories import FIELDS, planned_trajectory

if TYPE_CHECKING:
    from trajectory_msgs.msg import JointTrajectory

CYCLE_NS = 1_000_000


class ControllerModel:
    """The command as a function of time; each cycle commands the state for the next one.

    Args:
        start: state of the joints until the first trajectory, float64 `[D]` each.
        from_desired: interpolate_from_desired_state: the way to a trajectory that begins later is joined from the last
            command instead of the measured state. The controller takes it for one cycle older than it is.
        cycle_ns: time between two cycles.

    """

    def __init__(self, start: State, *, from_desired: bool = False, cycle_ns: int = CYCLE_NS) -> None:
        self.from_desired, self.cycle_ns = from_desired, cycle_ns
        self.begin_ns = 0
        """When the trajectory in execution begins, or the way to it."""
        self._start = np.stack(start)
        self._motion: Motion | None = None

    def take(self, stamp_ns: int, points: Points, now_ns: int, measured: State | None = None) -> bool:
        """Take a trajectory in the cycle at a time; returns False, and ignores it, if it is already over.

        With `stamp_ns` 0 it begins in this cycle; its points are in the order of our joints. `measured` is the state of
        the joints; None: the command's.
        """
        times_ns, columns = points.time_ns + (stamp_ns or now_ns), points[1:]
        if times_ns[-1] < now_ns:
            return False
        if times_ns[0] > now_ns:
            older_ns = self.cycle_ns if self.from_desired and self._motion is not None else 0
            before = self.at(now_ns) if measured is None or self.from_desired else measured
            times_ns = np.append(now_ns - older_ns, times_ns)
            columns = [None if x is None else np.vstack([one, x]) for one, x in zip(before, columns, strict=True)]
        if len(times_ns) == 1:  # to be there now
            self._motion = resting(columns[0][0], self.cycle_ns * 1e-9)
        else:
            # Seconds since the epoch would be rounded to 0.2 us.
            self._motion = motion_of_points(Points(times_ns - times_ns[0], *columns))
        self.begin_ns = int(times_ns[0])
        return True

    def at(self, time_ns: int) -> State:
        """The command for a time."""
        return State(*self.states(np.array([time_ns]))[:, 0])

    def states(self, times_ns: np.ndarray) -> np.ndarray:
        """Position, velocity and acceleration `[3, T, D]` commanded for times, int64 `[T]`, of this trajectory."""
        if self._motion is None:
            return np.repeat(self._start[:, None], len(times_ns), axis=1)
        return self._motion.states_at((times_ns - self.begin_ns) * 1e-9)[:3]


def scheduled_points(message: JointTrajectory, joint_names: Sequence[str] = ()) -> tuple[int, Points]:
    """Stamp, ns, and points of a JointTrajectory message, in its own order of joints unless another one is given."""
    planned = planned_trajectory(message)
    order = [planned.joint_names.index(name) for name in joint_names or planned.joint_names]
    columns = map(planned.rows, FIELDS)
    times_ns = np.array([point.time_ns for point in planned.points], np.int64)
    return planned.stamp_ns, Points(times_ns, *(None if values is None else values[:, order] for values in columns))
