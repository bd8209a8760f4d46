"""What a controller would command between the points of a trajectory, and how far that is from its points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..execution.extremes import QUANTITIES, bernstein, extremes, extremes_of_piece
from ..execution.limits import Violation
from ..execution.motion import Motion
from ..execution.points import Points, motion_of_points
from ..handling.limits import JointLimits
from ..motions.units import JointUnits

_PLATEAU = 1e-7
"""Relative difference from the worst value beyond which other pieces are not searched: hundreds lie on a plateau."""


@dataclass(frozen=True)
class Peaks:
    """Largest velocity, acceleration and jerk of any of some joints, SI units."""

    units: tuple[str, str, str, str]
    commanded: dict[str, float]
    at_points: dict[str, float | None]
    """None if the points do not have it; always None for jerk."""

    def __str__(self) -> str:
        return ", ".join(
            f"{value:.4g} {unit}" + self._against_points(name)
            for (name, value), unit in zip(self.commanded.items(), self.units[1:], strict=True)
        )

    def _against_points(self, name: str) -> str:
        planned = self.at_points[name]
        return f" ({self.commanded[name] / planned:.2f} x the points')" if planned else ""


def commanded_motion(
    time_ns: np.ndarray, positions: np.ndarray, velocities: np.ndarray | None, accelerations: np.ndarray | None
) -> Motion | None:
    """The motion that joint_trajectory_controller interpolates; None for one point, or unordered or NaN ones.

    Args:
        time_ns: `[N]`, int64.
        positions: `[N, D]`, rad.
        velocities: the same in rad/s, or None.
        accelerations: the same in rad/s^2, or None.

    """
    fields = [values for values in (positions, velocities, accelerations) if values is not None]
    if len(time_ns) < 2 or (np.diff(time_ns) <= 0).any() or not all(np.isfinite(values).all() for values in fields):
        return None
    return motion_of_points(Points(time_ns, positions, velocities, accelerations if velocities is not None else None))


def peaks_of(
    motion: Motion,
    velocities: np.ndarray | None,
    accelerations: np.ndarray | None,
    joint_names: tuple[str, ...],
    units: JointUnits | None = None,
) -> list[Peaks]:
    """The exact peaks of a motion, and those of the points `[N, D]` that it interpolates, for each kind of joint."""
    largest = np.abs(extremes(motion)).max(axis=0)
    points = {"velocity": velocities, "acceleration": accelerations, "jerk": None}
    at_points = {name: None if values is None else np.abs(values).max(axis=0) for name, values in points.items()}
    return [
        Peaks(
            kind,
            {name: float(largest[order, joints].max()) for order, name in enumerate(QUANTITIES) if order},
            {name: None if values is None else float(values[joints].max()) for name, values in at_points.items()},
        )
        for kind, joints in (units or JointUnits()).kinds(joint_names).items()
    ]


def worst_excesses(motion: Motion, joints: Sequence[str], limits: JointLimits) -> list[Violation]:
    """Where each joint exceeds the limits of each quantity most, by exact extremes.

    Joints that the limits do not name have none. The start state is where the robot is rather than part of the plan:
    the first piece may begin outside the limits.
    """
    if limits.of_motion.slackened is None:
        return []
    found = []
    for order, quantity in enumerate(QUANTITIES):
        control = bernstein(motion.coefficients, motion.steps, order)
        allowed = (side[order] for side in limits.of_motion.slackened)
        sides = list(zip((-1.0, 1.0), limits.bounds(quantity), allowed, strict=True))
        for joint, name in enumerate(joints):
            if name not in limits.joint_names:
                continue
            column = limits.joint_names.index(name)
            worst = [
                _worst(motion, control[:, :, joint], order, joint, sign, *map(float, (bounds[column], most[column])))
                for sign, bounds, most in sides
                if bounds is not None
            ]
            beyond = [one for one in worst if one is not None]
            found += [max(beyond, key=lambda one: abs(one.value - one.bound))] if beyond else []
    return found


def _worst(
    motion: Motion, control: np.ndarray, order: int, joint: int, sign: float, bound: float, slackened: float
) -> Violation | None:
    """The value of a derivative of a joint that is furthest beyond a bound with its slack; `sign` 1: the highest."""
    reach = (sign * control).max(axis=1)  # each piece's values are at most this
    worst: Violation | None = None
    for piece in np.argsort(-reach):
        if reach[piece] <= (sign * slackened if worst is None else sign * worst.value + _PLATEAU * abs(worst.value)):
            break
        times, values = extremes_of_piece(motion.coefficients[piece, :, joint], float(motion.steps[piece]), order)
        k = int((sign * values).argmax())
        may_begin_there = piece == 0 and order < 3
        allowed = max(sign * slackened, sign * float(control[0, 0])) if may_begin_there else sign * slackened
        if sign * values[k] > allowed and (worst is None or sign * values[k] > sign * worst.value):
            time = float(motion.knots[piece] + times[k])
            worst = Violation(joint, QUANTITIES[order], time, float(values[k]), bound)
    return worst
