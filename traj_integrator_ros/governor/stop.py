"""How a plan ends: at rest by itself, or by the fastest stop of each joint within its limits. No ROS."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import LONGEST_BRAKE_S, keeping, keeps
from ..execution.motion import Motion, State, united
from ..execution.rows import brought_to_rest
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S, ROUNDING, SECOND_NS
from ..requests.rejection import Rejected, RejectionReason

_SETTLING_S = 0.25
"""Longest time, s, in which a small velocity at the end is removed from a plan."""
_SHORTEST_SETTLING_S = 0.03
"""Shortest such time, s."""
_TURNS = 10.0
"""Multiple of the rest tolerance by which the acceleration at the end may change a velocity within that time. A joint
that would still be faster is turning, not resting: removing that would move the plan by more than removing the velocity
does.
"""
_DOUBLINGS = 8
"""Number of times that the search doubles the time before the end at which a joint leaves its plan."""
_HALVINGS = 20
"""Number of times that the search halves the last interval: the time is found to 4e-9 of the duration."""


def stopped_at_end(motion: Motion, bounds: Bounds, rest_tolerance: float, joint_names: Sequence[str] = ()) -> Motion:
    """Bring a motion to rest after its end, each joint by itself and as fast as it may.

    A velocity at the end up to the tolerance, rad/s, is removed within the plan, if that keeps the bounds. A joint
    whose stop would pass a limit of position, or be too fast, leaves its plan earlier if it can then stop within the
    limits.

    Raises:
        Rejected: brake_impossible.

    """
    if motion.ends_at_rest:
        return motion
    end = motion.end
    if np.abs(end.velocity).max() <= rest_tolerance:
        if not motion.with_accelerations:
            return brought_to_rest(motion, _SETTLING_S)
        turning = np.abs(end.acceleration).max() / max(_TURNS * rest_tolerance, ROUNDING)
        within = 1 / max(turning, 1 / _SETTLING_S)
        settled = brought_to_rest(motion, max(within, _SHORTEST_SETTLING_S))
        if within >= _SHORTEST_SETTLING_S and bounds.kept_by(settled).all():
            return settled
    stop, kept = _stop(end, bounds, joint_names)
    whole = motion.then(stop)._replace(plan_until=motion.duration)
    if kept.all():
        return whole
    inside = (end.position >= bounds.position_min) & (end.position <= bounds.position_max)
    inside &= np.abs(end.velocity) <= bounds.velocity  # A plan that is too fast itself is refused, not cut.
    early = {joint: _stopped_early(motion.of(joint), bounds.of(joint)) for joint in np.flatnonzero(inside & ~kept)}
    tracks = {joint: track for joint, track in early.items() if track is not None}
    return united(tracks, whole) if tracks else whole


def _stop(end: State, bounds: Bounds, joint_names: Sequence[str]) -> tuple[Motion, np.ndarray]:
    """Return the stop of each joint, gentle where there is room for that, and which are within bounds, bool `[dof]`.

    Raises Rejected: brake_impossible.
    """
    takes = None
    with suppress(ValueError):  # It takes forever, or begins beyond all measure.
        stop = fastest_stop(end, bounds.gentle)
        if not (kept := keeping(stop, bounds.of_stops)).all():
            hard = fastest_stop(end, bounds)
            stop = united({joint: hard.of(joint) for joint in np.flatnonzero(~kept).tolist()}, stop)
            kept = keeping(stop, bounds.of_stops)
        if stop.duration <= LONGEST_BRAKE_S:
            return stop, kept
        takes = stop.duration
    durations = bounds.stop_durations(end.velocity)
    longest = int(durations.argmax())
    name = joint_names[longest] if len(joint_names) else f"joint {longest}"
    raise Rejected(
        RejectionReason.BRAKE_IMPOSSIBLE,
        f"end: {name} moves at {end.velocity[longest]:g}, and the brake within limits.acceleration and limits.jerk "
        f"takes {takes or durations[longest]:g} s, expected at most {LONGEST_BRAKE_S:g} s",
    )


def _stopped_early(motion: Motion, bounds: Bounds) -> Motion | None:
    """Let a joint leave its plan as late as possible for a stop within limits; None if there is none."""

    def stopping(time: float) -> Motion | None:
        """The stop that begins at a time, s, if it keeps its bounds."""
        stop = fastest_stop(motion.state_at(time), bounds)
        return stop if keeps(stop, bounds.of_stops) else None

    times = motion.duration * (1 - 0.5 ** np.arange(_DOUBLINGS, -1, -1))
    first = next((index for index, time in enumerate(times) if stopping(time)), None)
    if first is None:
        return None
    low, high = times[first], times[first - 1] if first else motion.duration
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if stopping(middle) else (low, middle)
    at = np.floor(low * SECOND_NS) * NANOSECOND_S  # Messages count nanoseconds.
    stop = stopping(at) or stopping(low)
    return motion.until(at).then(stop) if at > 0 else None
