"""From an integrated trajectory to the points that joint_trajectory_controller accepts. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rejection import Rejected, RejectionReason

END_STOP = "stop"
END_AS_PLANNED = "as_planned"
_NANOSECONDS = 1e9
_LONGEST_NS = (2**31 - 1) * 1_000_000_000  # a duration message counts its seconds in int32


@dataclass(frozen=True)
class TimedPoints:
    """Points of one trajectory: times from its start, int64 ns `[N]`, and float64 `[N, dof]` arrays, SI units."""

    time_ns: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray


def publishable_points(
    time_s: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    *,
    end: str = END_STOP,
    rest_tolerance: float = 0.0,
) -> TimedPoints:
    """Arrange one trajectory as the points to publish.

    Points before the start (a central difference has one) are left out; times become whole nanoseconds. With `end` =
    "stop", the last velocity becomes exactly 0 where it is within `rest_tolerance`, else one more point, a last step
    later, holds the last position at rest.

    Args:
        time_s: `[H]`, s from the start state, float64.
        position: `[H, dof]`, rad; likewise velocity, rad/s, and acceleration, rad/s^2.
        velocity: see position.
        acceleration: see position.
        end: "stop" or "as_planned".
        rest_tolerance: rad/s.

    Raises:
        Rejected: invalid_times, for steps that are no whole nanosecond or an end beyond 2^31 s.

    """
    first = int(np.argmax(time_s >= 0))
    seconds = time_s[first:]
    if not seconds[-1] * _NANOSECONDS < _LONGEST_NS:
        raise Rejected(RejectionReason.INVALID_TIMES, f"dt: the trajectory ends after {seconds[-1]:g} s, beyond 2^31 s")
    time_ns = np.rint(seconds * _NANOSECONDS).astype(np.int64)
    if (np.diff(time_ns) <= 0).any():
        raise Rejected(RejectionReason.INVALID_TIMES, "dt: expected steps of at least one nanosecond")
    # Copies: what comes in are views of buffers that the next integration overwrites.
    rows = (np.array(values[first:], np.float64) for values in (position, velocity, acceleration))
    points = TimedPoints(time_ns, *rows)
    return come_to_rest(points, rest_tolerance) if end == END_STOP else points


def come_to_rest(points: TimedPoints, rest_tolerance: float) -> TimedPoints:
    """Make the last velocity exactly 0, by rounding it or by one more point; may change `points` in place."""
    last = points.velocity[-1]
    if (np.abs(last) <= rest_tolerance).all():
        last[:] = 0.0
        return points
    single = len(points.time_ns) == 1
    step_ns = 1_000_000 if single else int(points.time_ns[-1] - points.time_ns[-2])
    rest = np.zeros_like(points.velocity[-1:])
    return TimedPoints(
        np.append(points.time_ns, points.time_ns[-1] + step_ns),
        np.concatenate([points.position, points.position[-1:]]),
        np.concatenate([points.velocity, rest]),
        np.concatenate([points.acceleration, rest]),
    )


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
