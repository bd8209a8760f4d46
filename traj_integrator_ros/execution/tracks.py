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
        with_accelerations: see `Motion`.
        ends_at_rest: see `Motion`.

    """
    distinct = {id(track.knots): track.knots for track in tracks}
    knots = spaced(np.unique(np.concatenate(list(distinct.values()))))
    begins, middles = knots[:-1], (knots[:-1] + knots[1:]) / 2
    coefficients = np.zeros((len(begins), DEGREE + 1, len(tracks)))
    placed: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for joint, track in enumerate(tracks):
        place = placed.get(id(track.knots))
        if place is None:
            piece = np.searchsorted(track.knots, middles, side="right") - 1  # dropped knots lie near the ends
            over = piece >= len(track.coefficients)
            piece = np.where(over, len(track.coefficients) - 1, piece)
            at = np.where(over, track.knots[-1], begins) - track.knots[piece]
            place = placed[id(track.knots)] = (piece, taylor_shift(at, DEGREE), over)
        piece, shift, over = place
        column = np.einsum("nkm,nm->nk", shift, track.coefficients[piece])
        column[over, 1:] = 0.0
        coefficients[:, :, joint] = column
    return Motion(knots, coefficients, with_accelerations, ends_at_rest)


def spaced(knots: np.ndarray) -> np.ndarray:
    """Knots without those that are less than a microsecond after another one; the first and the last are kept."""
    gaps = np.diff(knots)
    if len(gaps) < 2 or gaps.min() >= SHORTEST_GAP:
        return knots
    kept = [float(knots[0])]
    for knot in knots[1:-1].tolist():
        if knot - kept[-1] >= SHORTEST_GAP and knots[-1] - knot >= SHORTEST_GAP:
            kept.append(knot)
    return np.array([*kept, knots[-1]])


def without_slivers(motion: Motion) -> Motion:
    """The motion without pieces that are shorter than a microsecond: those after them begin earlier instead."""
    knots = spaced(motion.knots)
    if len(knots) == len(motion.knots):
        return motion
    first = np.searchsorted(motion.knots, (knots[:-1] + knots[1:]) / 2, side="right") - 1
    shift = taylor_shift(knots[:-1] - motion.knots[first], motion.degree)
    return Motion(knots, shift @ motion.coefficients[first], motion.with_accelerations, motion.ends_at_rest)
