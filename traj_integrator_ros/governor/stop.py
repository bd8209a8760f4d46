"""How a plan ends: at rest by itself, or by the fastest stop of each joint. No ROS."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import LONGEST_BRAKE_S
from ..execution.motion import Motion
from ..execution.rows import brought_to_rest
from ..execution.stopping import fastest_stop
from ..execution.tolerances import ROUNDING
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


def stopped_at_end(motion: Motion, bounds: Bounds, rest_tolerance: float, joint_names: Sequence[str] = ()) -> Motion:
    """Bring a motion to rest after its end, each joint by itself and as fast as it may.

    A velocity at the end up to the tolerance, rad/s, is removed within the plan, if that keeps the bounds. The blend
    leaves the plan earlier where the stop leads beyond bounds.

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
    with suppress(ValueError):  # It takes forever, or begins beyond all measure.
        stop = fastest_stop(end, bounds.gentle)
        if not bounds.kept_by(stop).all():  # There is no room for that.
            stop = fastest_stop(end, bounds)
        if stop.duration <= LONGEST_BRAKE_S:
            return motion.then(stop)._replace(plan_until=motion.duration)
    durations = bounds.stop_durations(end.velocity)
    longest = int(durations.argmax())
    name = joint_names[longest] if len(joint_names) else f"joint {longest}"
    raise Rejected(
        RejectionReason.BRAKE_IMPOSSIBLE,
        f"end: {name} moves at {end.velocity[longest]:g}, and the brake within limits.acceleration and limits.jerk "
        f"takes {durations[longest]:g} s, expected at most {LONGEST_BRAKE_S:g} s",
    )
