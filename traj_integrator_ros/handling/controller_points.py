"""From an integrated trajectory to the points that joint_trajectory_controller accepts. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .time_grid import TimeGrid

END_STOP = "stop"
END_AS_PLANNED = "as_planned"


class TimedPoints(NamedTuple):
    """Points of one trajectory."""

    time_ns: np.ndarray
    """Times from its start, int64 `[N]`; never changed, so that what is made of them can be kept."""
    motion: np.ndarray
    """Position, velocity and acceleration, float64 `[3, N, dof]`, SI units."""

    @property
    def position(self) -> np.ndarray:
        """`[N, dof]`."""
        return self.motion[0]

    @property
    def velocity(self) -> np.ndarray:
        """`[N, dof]`."""
        return self.motion[1]

    @property
    def acceleration(self) -> np.ndarray:
        """`[N, dof]`."""
        return self.motion[2]


def publishable_points(
    times: TimeGrid, motion: np.ndarray, *, end: str = END_STOP, rest_tolerance: float = 0.0
) -> TimedPoints:
    """Arrange one trajectory as the points to publish.

    Points before the start (a central difference has one) are left out; times become whole nanoseconds. With `end` =
    "stop", the last velocity becomes exactly 0 where it is within `rest_tolerance`, else one more point, a last step
    later, holds the last position at rest.

    Args:
        times: of `H` points.
        motion: position, rad, velocity, rad/s, and acceleration, rad/s^2: `[3, H, dof]`.
        end: "stop" or "as_planned".
        rest_tolerance: rad/s.

    Raises:
        Rejected: invalid_times, for steps that are no whole nanosecond or an end beyond 2^31 s.

    """
    first, time_ns = times.whole
    count, dof = len(time_ns), motion.shape[2]
    stops = end == END_STOP
    at_rest = stops and max(map(abs, motion[1, -1].tolist())) <= rest_tolerance
    rests_later = stops and not at_rest
    if rests_later:
        time_ns = times.whole_with_rest
    # A copy: what comes in are views of buffers that the next integration overwrites.
    rows = np.zeros((3, len(time_ns), dof))
    rows[:, :count] = motion[:, first:]
    if at_rest:
        rows[1, -1] = 0.0
    elif rests_later:
        rows[0, -1] = rows[0, -2]
    return TimedPoints(time_ns, rows)


def interpolate(points: TimedPoints, time_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return position, velocity and acceleration `[dof]` at a time within the points.

    Follows the quintic through position, velocity and acceleration of the points on either side, as
    joint_trajectory_controller does between points that have all three.
    """
    right = int(np.searchsorted(points.time_ns, time_ns, side="right"))
    right = min(max(right, 1), len(points.time_ns) - 1)
    left = right - 1
    if right == 0:  # a single point
        return points.position[0], points.velocity[0], points.acceleration[0]
    span = (points.time_ns[right] - points.time_ns[left]) * 1e-9
    t = (time_ns - points.time_ns[left]) * 1e-9
    p0, v0, a0 = points.position[left], points.velocity[left], points.acceleration[left]
    p1, v1, a1 = points.position[right], points.velocity[right], points.acceleration[right]
    # Coefficients of p0 + v0 t + a0 t^2/2 + c3 t^3 + c4 t^4 + c5 t^5, from what is left to cover at the right end.
    dp = (p1 - p0 - v0 * span - a0 * span**2 / 2) / span**3
    dv = (v1 - v0 - a0 * span) / span**2
    da = (a1 - a0) / span
    c3 = 10 * dp - 4 * dv + da / 2
    c4 = (-15 * dp + 7 * dv - da) / span
    c5 = (6 * dp - 3 * dv + da / 2) / span**2
    position = p0 + t * (v0 + t * (a0 / 2 + t * (c3 + t * (c4 + t * c5))))
    velocity = v0 + t * (a0 + t * (3 * c3 + t * (4 * c4 + t * 5 * c5)))
    acceleration = a0 + t * (6 * c3 + t * (12 * c4 + t * 20 * c5))
    return position, velocity, acceleration
