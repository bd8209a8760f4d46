"""The end of a motion: at rest, by a stop if the plan does not end so. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..execution.extremes import extremes, surely_keeps
from ..execution.join import Bounds
from ..execution.motion import Motion, State
from ..execution.profiles import stop_tracks
from ..execution.rest import brought_to_rest
from ..execution.tracks import Track, track_of, united
from .rejection import Rejected, RejectionReason

LONGEST_BRAKE_S = 30.0
"""A brake that takes longer means that the limits cannot be those of a robot."""
_SETTLING_S = 0.25
"""Within which a small last velocity is taken out of a plan."""
_HALVINGS = 20
_INSIDE = 1e-9


def stopped_at_end(motion: Motion, bounds: Bounds, rest_tolerance: float, joint_names: Sequence[str] = ()) -> Motion:
    """Bring a motion to rest after its end, each joint by itself and as fast as it may.

    A last velocity up to the tolerance is removed within the plan, if that keeps the bounds. A joint whose stop would
    pass a position limit leaves its plan earlier, if it can still stop before the limit then; and so where its stop
    would be too fast.

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
        settled = brought_to_rest(motion, _SETTLING_S)
        if not motion.with_accelerations or bounds.demand_of(settled) <= 1 + _INSIDE:
            return settled
    bounds = _not_faster(bounds, end)
    try:
        tracks = stop_tracks(end, bounds.stopping, bounds.jerk)
        durations = np.array([track.knots[-1] for track in tracks])
    except ValueError:  # it takes longer than ruckig can think, or begins beyond all measure
        tracks, durations = [], stop_durations(end.velocity, bounds)
    longest = int(durations.argmax())
    if not tracks or not durations[longest] <= LONGEST_BRAKE_S:
        name = joint_names[longest] if len(joint_names) else f"joint {longest}"
        raise Rejected(
            RejectionReason.BRAKE_IMPOSSIBLE,
            f"end: {name} moves at {end.velocity[longest]:g}, and the brake within limits.acceleration and limits.jerk "
            f"takes {durations[longest]:g} s, expected at most {LONGEST_BRAKE_S:g} s",
        )
    stop = united(dict(enumerate(tracks)), with_accelerations=motion.with_accelerations)
    whole, beyond = motion.then(stop), ~_keeps(stop, bounds)
    if not beyond.any():
        return whole
    inside = (end.position >= bounds.position_min) & (end.position <= bounds.position_max)
    inside &= np.abs(end.velocity) <= bounds.velocity  # a plan that is too fast itself is refused, not cut
    early = np.flatnonzero(beyond & inside)
    return _stopped_early(motion, whole, early, bounds) if len(early) else whole


def _not_faster(bounds: Bounds, end: State) -> Bounds:
    """Bounds with a jerk, where it is assumed, that takes an acceleration back before it exceeds the velocity."""
    room = bounds.velocity - np.abs(end.velocity)
    gains = (end.velocity * end.acceleration > 0) & (room > 0)
    needed = np.where(gains, end.acceleration**2 / (2 * np.where(gains, room, 1.0)), 0.0)
    if (needed <= bounds.jerk).all():
        return bounds
    return replace(bounds, jerk=np.maximum(bounds.jerk, np.minimum(needed, bounds.most_of(2))))


def _keeps(stop: Motion, bounds: Bounds) -> np.ndarray:
    """Which joints keep their positions and velocities during a stop, bool `[dof]`."""
    lows, highs = np.full((2, 4, stop.dof), np.inf)
    lows[0], highs[0] = bounds.position_min - _INSIDE, bounds.position_max + _INSIDE
    highs[1] = np.maximum(bounds.velocity, bounds.most_of(0)) * (1 + _INSIDE)
    lows[1:] = -highs[1:]
    if surely_keeps(stop, lows, highs):
        return np.ones(stop.dof, bool)
    least, most = extremes(stop)
    return ((least >= lows) & (most <= highs)).all(axis=0)


def _stopped_early(motion: Motion, whole: Motion, joints: np.ndarray, bounds: Bounds) -> Motion:
    """The motion in which some joints leave their plan as late as they can to stop before their position limits."""
    tracks: dict[int, Track] = {}
    for joint in joints.tolist():
        low, high = 0.0, motion.duration
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            state = motion.state_at(middle)
            one = State(*(part[joint : joint + 1] for part in state))
            (track,) = stop_tracks(one, bounds.stopping[joint : joint + 1], bounds.jerk[joint : joint + 1])
            if _keeps(united({0: track}), _of_joint(bounds, joint))[0]:
                low, begun = middle, track
            else:
                high = middle
        if low > 0:
            plan = track_of(motion.until(low), joint)
            knots = np.concatenate([plan.knots, low + begun.knots[1:]])
            tracks[joint] = Track(knots, np.concatenate([plan.coefficients, begun.coefficients]))
    return united(tracks, whole, with_accelerations=motion.with_accelerations)


def _of_joint(bounds: Bounds, joint: int) -> Bounds:
    one = slice(joint, joint + 1)
    parts = (
        getattr(bounds, name)[one] for name in ("position_min", "position_max", "velocity", "acceleration", "jerk")
    )
    most = np.stack([bounds.most_of(order)[one] for order in range(3)])
    return Bounds(*parts, most, None if bounds.deceleration is None else bounds.deceleration[one])


def stop_durations(velocity: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Time to rest of each joint, s `[dof]`, from a constant velocity."""
    v, a, j = np.abs(velocity), bounds.stopping, bounds.jerk
    return np.where(v * j > a * a, v / a + a / j, 2 * np.sqrt(v / j))
