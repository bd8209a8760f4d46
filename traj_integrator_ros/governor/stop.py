"""How a plan ends: at rest by itself, or by the fastest stop of each joint within its limits. No ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import LONGEST_BRAKE_S, keeping, keeps
from ..execution.motion import Motion, united
from ..execution.rows import brought_to_rest
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S, ROUNDING, SECOND_NS
from ..requests.rejection import Rejected, RejectionReason

_SETTLING_S = 0.25, 0.12, 0.06, 0.03
"""Times, s, within which a small velocity at the end is removed from a plan, tried in this order: the gentlest first.
"""
_TURNS = 10.0
"""Multiple of the rest tolerance. A joint whose acceleration at the end would change its velocity by more than that
while it settles is turning, not resting: removing that would move the plan by more than removing the velocity does.
"""
_RAMP_S = 0.02
"""Shortest time, s, in which a stop after a plan reaches its acceleration where it has room: the interval of blends."""
_OF_STOP = 0.98
"""Share of the acceleration that such a stop uses: the blend to a plan that ends beyond limits needs some room."""
_DOUBLINGS = 8
"""Number of times that the search doubles the time before the end at which a joint leaves its plan."""
_HALVINGS = 20
"""Number of times that the search halves the last interval: the time is found to 4e-9 of the duration."""


def stopped_at_end(motion: Motion, bounds: Bounds, rest_tolerance: float, joint_names: Sequence[str] = ()) -> Motion:
    """Bring a motion to rest after its end, each joint by itself and as fast as it may.

    A velocity at the end up to the tolerance is removed within the plan, if that keeps the bounds. A joint whose stop
    would pass a limit of position, or be too fast, leaves its plan earlier if it can then stop within the limits.

    Args:
        motion: a plan.
        bounds: of the stop.
        rest_tolerance: speed that counts as rest, rad/s.
        joint_names: for errors.

    Raises:
        Rejected: brake_impossible.

    """
    if motion.ends_at_rest:
        return motion
    end = motion.end
    if np.abs(end.velocity).max() <= rest_tolerance:
        if not motion.with_accelerations:
            return brought_to_rest(motion, _SETTLING_S[0])
        for within in _SETTLING_S:
            if np.abs(end.acceleration).max() * within > _TURNS * rest_tolerance:
                continue
            settled = brought_to_rest(motion, within)
            if bounds.demands_of(settled).max() <= 1 + ROUNDING:
                return settled
    jerk = np.minimum(bounds.jerk, bounds.acceleration / _RAMP_S)
    gentle = replace(bounds, acceleration=_OF_STOP * bounds.acceleration, jerk=jerk)
    try:
        stop = fastest_stop(end, gentle)
        kept = keeping(stop, bounds.of_stops)
        if not kept.all():
            hard = fastest_stop(end, bounds)
            stop = united({joint: hard.of(joint) for joint in np.flatnonzero(~kept).tolist()}, stop)
            kept = keeping(stop, bounds.of_stops)
    except ValueError:  # It takes forever, or begins beyond all measure.
        stop = None
    if stop is None or not stop.duration <= LONGEST_BRAKE_S:
        durations = bounds.stop_durations(end.velocity)
        longest, takes = int(durations.argmax()), durations.max() if stop is None else stop.duration
        name = joint_names[longest] if len(joint_names) else f"joint {longest}"
        raise Rejected(
            RejectionReason.BRAKE_IMPOSSIBLE,
            f"end: {name} moves at {end.velocity[longest]:g}, and the brake within limits.acceleration and limits.jerk "
            f"takes {takes:g} s, expected at most {LONGEST_BRAKE_S:g} s",
        )
    # Joints leave their plans earlier to stop within limits.
    whole = motion.then(stop)._replace(plan_until=motion.duration)
    if kept.all():
        return whole
    inside = (end.position >= bounds.position_min) & (end.position <= bounds.position_max)
    inside &= np.abs(end.velocity) <= bounds.velocity  # A plan that is too fast itself is refused, not cut.
    early = np.flatnonzero(inside & ~kept)
    return _stopped_early(motion, whole, early, bounds) if len(early) else whole


def _stopped_early(motion: Motion, whole: Motion, joints: np.ndarray, bounds: Bounds) -> Motion:
    """Let some joints leave their plan as late as possible for a stop within limits."""
    tracks: dict[int, Motion] = {}
    for joint in joints.tolist():
        of_joint = bounds.of(joint)

        def stopping(time: float, joint: int = joint, of_joint: Bounds = of_joint) -> Motion | None:
            """The stop that begins at a time, s, if it keeps its bounds."""
            stop = fastest_stop(motion.state_at(time).of(joint), of_joint)
            return stop if keeps(stop, of_joint.of_stops) else None

        low = high = motion.duration
        begun = None
        for k in range(_DOUBLINGS, -1, -1):
            high, low = low, motion.duration * (1 - 1 / 2**k)
            if begun := stopping(low):
                break
        if begun is None:
            continue
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if found := stopping(middle):
                low, begun = middle, found
            else:
                high = middle
        if low <= 0:
            continue
        low = np.floor(low * SECOND_NS) * NANOSECOND_S  # Messages count nanoseconds.
        begun = stopping(low) or begun
        tracks[joint] = motion.until(low).of(joint).raised().then(begun)
    return united(tracks, whole) if tracks else whole
