"""The end of a motion: at rest, by a brake if the plan does not stop. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..execution.brake import FastestBrake, fastest_brake
from ..execution.motion import Motion, State
from ..execution.rest import brought_to_rest
from .rejection import Rejected, RejectionReason

LONGEST_BRAKE_S = 30.0
"""A brake that takes longer means that the limits cannot be those of a robot."""
_SHORTEST_SPACING_S = 1e-3
"""Least spacing of a brake's points: no controller has shorter cycles."""
_MOST_PIECES = 1000


@dataclass(frozen=True)
class Braking:
    """The settings by which joints are brought to rest."""

    joint_names: tuple[str, ...]
    rest_tolerance: float
    """rad/s; an end velocity up to this counts as rest, and is removed over the last `time`."""
    time: float
    """Duration of a brake without limits, s."""
    acceleration: np.ndarray | None
    """Limits `[dof]`; None: no limits; the same for jerk."""
    jerk: np.ndarray | None


class StoppingMotion(NamedTuple):
    """A motion that ends at rest."""

    motion: Motion
    brakes_at: float | None
    """When the plan ends and the brake begins, s; None: the plan itself ends at rest."""


def stopping(motion: Motion, braking: Braking) -> StoppingMotion:
    """Bring a motion to rest after its end.

    Raises:
        Rejected: brake_impossible.

    """
    if motion.ends_at_rest:
        return StoppingMotion(motion, None)
    end = motion.end
    if np.abs(end.velocity).max() <= braking.rest_tolerance:
        return StoppingMotion(brought_to_rest(motion, braking.time), None)
    spacing = float(motion.knots[-1] - motion.knots[-2])
    return StoppingMotion(motion.then(brake_from(end, spacing, braking)), motion.duration)


def brake_from(state: State, spacing: float, braking: Braking) -> Motion:
    """Return the brake from a state.

    Args:
        state: rad, rad/s, rad/s^2.
        spacing: of the plan's points, s.
        braking: limits and time.

    Raises:
        Rejected: brake_impossible.

    """
    fastest = _fastest(state, braking)
    durations = fastest.durations
    longest = int(durations.argmax())
    duration = float(durations[longest])
    if not duration <= LONGEST_BRAKE_S:
        raise Rejected(
            RejectionReason.BRAKE_IMPOSSIBLE,
            f"end: {braking.joint_names[longest]} moves at {state.velocity[longest]:g}, and the brake within "
            f"limits.acceleration and limits.jerk takes {duration:g} s, expected at most {LONGEST_BRAKE_S:g} s",
        )
    spacing = max(spacing, _SHORTEST_SPACING_S, duration / _MOST_PIECES)
    return fastest.on_grid(spacing)


def brake_durations(velocity: np.ndarray, braking: Braking) -> np.ndarray:
    """Time to rest of each joint, s `[dof]`, from a constant velocity."""
    return _fastest(State(np.zeros_like(velocity), velocity), braking).durations


def _fastest(state: State, braking: Braking) -> FastestBrake:
    with np.errstate(all="ignore"):
        return fastest_brake(state, acceleration=braking.acceleration, jerk=braking.jerk, brake_time=braking.time)
