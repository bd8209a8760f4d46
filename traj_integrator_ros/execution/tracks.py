"""Motions of single joints, each with knots of its own, and their union: one motion of all joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .motion import Motion, raised, taylor_shift

DEGREE = 5
"""Highest degree of a piece: what a controller reproduces from the states at its ends."""
SHORTEST_GAP = 1e-6
"""s; knots closer together become one. With longer gaps, a piece of the union would bridge a jump of the jerk."""


class Track(NamedTuple):
    """The motion of one joint; at rest at its last position from its last knot on."""

    knots: np.ndarray
    """s, `[n + 1]`, from 0."""
    coefficients: np.ndarray
    """`[n, 6]`, of the powers of the time since the piece began."""


def track_of(motion: Motion, joint: int) -> Track:
    """One joint of a motion."""
    return Track(motion.knots, raised(motion.coefficients, DEGREE)[:, :, joint])


def united(tracks: Sequence[Track], *, with_accelerations: bool = True, ends_at_rest: bool = True) -> Motion:
    """Return the motion of all joints, with a knot wherever any of them has one.

    Args:
        tracks: one for each joint.
        with_accelerations, ends_at_rest: see `Motion`.

    """
    distinct = {id(track.knots): track.knots for track in tracks}
    knots = np.unique(np.concatenate(list(distinct.values())))
    keep = np.ones(len(knots), bool)
    keep[:-1] = np.diff(knots) >= SHORTEST_GAP  # of two, the later one: the end stays where it is
    keep[0] = True
    if len(knots) > 2 and not keep[1:].all():
        keep[1] = keep[1] and knots[1] - knots[0] >= SHORTEST_GAP
    knots = knots[keep]
    begins = knots[:-1]
    coefficients = np.zeros((len(begins), DEGREE + 1, len(tracks)))
    placed: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for joint, track in enumerate(tracks):
        place = placed.get(id(track.knots))
        if place is None:
            piece = np.searchsorted(track.knots, begins + SHORTEST_GAP / 2, side="right") - 1
            over = piece >= len(track.coefficients)
            piece = np.where(over, len(track.coefficients) - 1, piece)
            at = np.where(over, track.knots[-1], begins) - track.knots[piece]
            place = placed[id(track.knots)] = (piece, taylor_shift(at, DEGREE), over)
        piece, shift, over = place
        column = np.einsum("nkm,nm->nk", shift, track.coefficients[piece])
        column[over, 1:] = 0.0
        coefficients[:, :, joint] = column
    return Motion(knots, coefficients, with_accelerations, ends_at_rest)
