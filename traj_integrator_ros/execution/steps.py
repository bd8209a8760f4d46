"""Steps of joints that are switched: they hold a value, and jump to the next one at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .motion import Motion, resting, united
from .polynomials import powers_of
from .tolerances import MOMENT_S, NANOSECOND_S

_JUMP_S = 1e-5
"""Time before and after a step, s, of points with both values: a controller's cycles are a hundred times as long."""


class Steps(NamedTuple):
    """Values of switched joints, `[N, k]`, each from its time on, s `[N]`; the times increase."""

    joints: np.ndarray
    """Indices of the joints, `[k]`."""
    times: np.ndarray
    values: np.ndarray


def with_steps(motion: Motion, steps: Steps) -> Motion:
    """Return a motion with steps, in place of what their joints do in it.

    Until the next step, joints keep the value with which the motion begins: they would switch to and fro if rows that
    are over counted, too, which lie beside those of the plan before. The motion becomes longer if it ends at rest
    before the last step; otherwise that step comes just before its end.
    """
    joints, ahead = steps.joints, steps.times > -NANOSECOND_S
    steps = Steps(joints, steps.times[ahead], steps.values[ahead])
    values = np.vstack([motion.begin.position[joints], steps.values])
    changes = np.flatnonzero((np.diff(values, axis=0) != 0).any(axis=1))
    times = np.maximum(steps.times[changes], _JUMP_S)
    missing = times.max(initial=0.0) + MOMENT_S - motion.duration
    if missing > 0 and motion.ends_at_rest:
        motion = motion.then(resting(motion.end.position, missing))
    times = np.minimum(times, motion.duration - 2 * _JUMP_S)
    beside = times + _JUMP_S * np.array([[-1.0], [0.0], [1.0]])
    knots = np.unique(np.concatenate([[0.0, motion.duration], beside.ravel().clip(0.0)]))
    held = np.vstack([values[:1], values[1:][changes]])[times.searchsorted((knots[:-1] + knots[1:]) / 2)]
    tracks = {int(joint): Motion(knots, powers_of([held[:, [k]]]), ends_at_rest=True) for k, joint in enumerate(joints)}
    return united(tracks, motion)


def steps_of(motion: Motion, joints: np.ndarray) -> Steps:
    """Return the steps of some joints in a motion."""
    values = motion.coefficients[:, 0, joints]
    begins = np.append(True, (np.diff(values, axis=0) != 0).any(axis=1))
    return Steps(joints, motion.knots[:-1][begins], values[begins])


def without_steps(motion: Motion, joints: np.ndarray) -> Motion:
    """Return a motion in which some joints keep the value with which it begins."""
    coefficients = motion.coefficients.copy()
    coefficients[:, 1:, joints] = 0.0
    coefficients[:, 0, joints] = coefficients[0, 0, joints]
    return motion._replace(coefficients=coefficients)
