"""How a plan ends: by itself, or by a stop of each joint, as fast as it may and not beyond a limit. No ROS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import LONGEST_BRAKE_S, extremes, keeping, keeps
from ..execution.motion import Motion, State, united
from ..execution.reaching import RETREAT, RETREAT_RAD
from ..execution.rows import brought_to_rest
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S, ROUNDING, SECOND_NS
from ..requests.rejection import Rejected, RejectionReason

_SETTLING_S = 0.25, 0.12, 0.06, 0.03
"""Within which a small last velocity is taken out of a plan: as gently as bounds allow."""
_DOUBLINGS, _HALVINGS = 8, 20
"""Of the time before the end at which a joint leaves its plan, then of the last step: to 4e-9 of the plan."""
_TURNED_WITHIN = 4.0
"""Times that it takes to take an acceleration back: the earliest that a joint leaves its plan in order not to turn."""


def stopped_at_end(motion: Motion, bounds: Bounds, rest_tolerance: float, joint_names: Sequence[str] = ()) -> Motion:
    """Bring a motion to rest after its end, each joint by itself and as fast as it may.

    A last velocity up to the tolerance is removed within the plan, if that keeps the bounds. A joint whose stop would
    pass a limit of position, be too fast, or lead back, leaves its plan earlier if it can stop as it should then.

    Args:
        motion: a plan.
        bounds: of the stop.
        rest_tolerance: rad/s.
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
            settled = brought_to_rest(motion, within)
            if bounds.demands_of(settled).max() <= 1 + ROUNDING:
                return settled
    try:
        stop = fastest_stop(end, bounds)
    except ValueError:  # it takes forever, or begins beyond all measure
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
    # Joints leave their plans earlier to stop within limits, and not back.
    whole, turning = motion.then(stop), _turning(motion, end, stop, bounds)
    kept = keeping(stop, bounds.of_stops)
    if kept.all() and not np.count_nonzero(turning):
        return whole
    turning[~kept] = 0.0
    inside = (end.position >= bounds.position_min) & (end.position <= bounds.position_max)
    inside &= np.abs(end.velocity) <= bounds.velocity  # a plan that is too fast itself is refused, not cut
    early = np.flatnonzero((inside & ~kept) | (turning != 0))
    return _stopped_early(motion, whole, early, bounds, turning) if len(early) else whole


def _turning(motion: Motion, last: State, stop: Motion, bounds: Bounds) -> np.ndarray:
    """Where joints go (1, -1) whose stop would lead back, although their plans do not; 0 for the others, `[dof]`.

    Such a plan ends almost at rest, while it slows down: its acceleration cannot be taken back before the joint turns.
    """
    end, velocity, acceleration = last
    states = (part.tolist() for part in (end - motion.coefficients[-1, 0], velocity, acceleration, bounds.jerk))
    goes = [  # faster than numpy for a few numbers
        a != 0 and a * direction <= 0 and (v * a > 0 or a * a > 2 * jerk * abs(v))
        for direction, v, a, jerk in zip(*states, strict=True)
    ]
    if not any(goes):
        return np.zeros(stop.dof)
    forward = -np.sign(acceleration)
    goes = np.array(goes)
    goes &= _way_back(stop, forward) > RETREAT * _way_back(motion, forward) + RETREAT_RAD
    for joint in np.flatnonzero(goes).tolist():
        earliest = max(motion.duration - _TURNED_WITHIN * abs(acceleration[joint]) / bounds.jerk[joint], 0.0)
        goes[joint] = motion.state_at(earliest).velocity[joint] * forward[joint] > 0
    return forward * goes


def _way_back(motion: Motion, forward: np.ndarray) -> np.ndarray:
    """From its furthest point in a direction to its end, rad, `[dof]`; 0 where that is 0."""
    least, most = extremes(motion)[:, 0]
    return np.maximum(forward * least, forward * most) - forward * motion.end.position


def _stopped_early(motion: Motion, whole: Motion, joints: np.ndarray, bounds: Bounds, turning: np.ndarray) -> Motion:
    """The motion in which some joints leave their plan as late as they can to stop within limits, and not back."""
    tracks: dict[int, Motion] = {}
    for joint in joints.tolist():
        of_joint, forward = bounds.of(joint), turning[joint : joint + 1]

        def stopping(time: float, joint: int = joint, of_joint: Bounds = of_joint, forward=forward) -> Motion | None:
            """The stop that begins at a time, s, if it does as it should."""
            stop = fastest_stop(motion.state_at(time).of(joint), of_joint)
            return stop if keeps(stop, of_joint.of_stops) and _way_back(stop, forward)[0] <= ROUNDING else None

        most = motion.duration
        if turning[joint]:
            most = min(_TURNED_WITHIN * abs(motion.end.acceleration[joint]) / of_joint.jerk[0], most)
        low = high = motion.duration
        begun = None
        for k in range(_DOUBLINGS, -1, -1):
            high, low = low, motion.duration - most / 2**k
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
        low = np.floor(low * SECOND_NS) * NANOSECOND_S  # messages count nanoseconds
        begun = stopping(low) or begun
        tracks[joint] = motion.until(low).of(joint).raised().then(begun)
    return united(tracks, whole, with_accelerations=motion.with_accelerations) if tracks else whole
