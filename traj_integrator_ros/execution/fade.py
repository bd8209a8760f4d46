"""A difference in position, velocity and acceleration that is carried into a motion and fades to 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .motion import Motion, State, raised, shifted


def join(motion: Motion, state: State, fade_time: float) -> Motion:
    """The motion, begun from `state`: what it lacks of it at its start fades to 0 as a quintic, so the seam is C2.

    Args:
        motion: what is to be followed.
        state: what the robot does when the motion starts; an unknown acceleration is taken to be the motion's.
        fade_time: s. The difference is gone at the last knot within it, at the first if there is none; 0: it is not
            carried over.

    Returns:
        A motion that is `motion` itself from there on.

    """
    if fade_time <= 0:
        return motion
    begin = motion.state_at(0.0)
    lack = [state.position - begin.position, state.velocity - begin.velocity, np.zeros(motion.dof)]
    if state.acceleration is not None and motion.with_accelerations:
        lack[2] = state.acceleration - begin.acceleration
    count = max(int(np.searchsorted(motion.knots, fade_time * (1 + 1e-9), side="right")) - 1, 1)
    quintic = fading_quintic(State(*lack), float(motion.knots[count]))
    coefficients = raised(motion.coefficients, 5).copy()
    for piece in range(count):
        coefficients[piece] += shifted(quintic, float(motion.knots[piece]))
    return replace(motion, coefficients=coefficients)


def fading_quintic(lack: State, span: float) -> np.ndarray:
    """Coefficients `[6, D]` of the quintic that begins with `lack` and ends at 0 with no velocity and acceleration."""
    p, v, a = lack.position, lack.velocity, lack.acceleration
    r, s, q = p + v * span + a * span**2 / 2, v * span + a * span**2, a * span**2 / 2
    return np.stack(
        [
            p,
            v,
            a / 2,
            (-10 * r + 4 * s - q) / span**3,
            (15 * r - 7 * s + 2 * q) / span**4,
            (-6 * r + 3 * s - q) / span**5,
        ]
    )
