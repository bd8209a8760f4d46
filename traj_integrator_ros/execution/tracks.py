"""Motions of single joints, each with knots of its own, and their union: one motion of all joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from . import native
from .motion import Motion, raised, taylor_shift

DEGREE = 5
"""Highest degree of a piece: what a controller reproduces from the states at its ends."""
SHORTEST_GAP = 1e-6
"""s; knots closer together become one. Beside a longer gap, a piece bridges a jump of the jerk too far; in a shorter
one, whole nanoseconds are too coarse for a profile.
"""


class Track(NamedTuple):
    """The motion of one joint; at rest at its last position from its last knot on."""

    knots: np.ndarray
    """s, `[n + 1]`, from 0."""
    coefficients: np.ndarray
    """`[n, 6]`, of the powers of the time since the piece began."""


def track_of(motion: Motion, joint: int) -> Track:
    """One joint of a motion."""
    return Track(motion.knots, raised(motion.coefficients, DEGREE)[:, :, joint])


def united(
    tracks: Mapping[int, Track],
    others: Motion | None = None,
    *,
    with_accelerations: bool = True,
    ends_at_rest: bool = True,
) -> Motion:
    """Return the motion of all joints, with a knot at the whole nanosecond next to each of theirs.

    Args:
        tracks: of some joints.
        others: motion of all joints, from which those are taken that have no track; None: all have one.
        with_accelerations: see `Motion`.
        ends_at_rest: see `Motion`.

    """
    dof = len(tracks) if others is None else others.dof
    knots = _united_knots([track.knots for track in tracks.values()] + ([] if others is None else [others.knots]))
    coefficients = np.empty((len(knots) - 1, DEGREE + 1, dof))
    joints = np.arange(dof)
    for joint, track in tracks.items():
        one = Motion(track.knots, track.coefficients[:, :, None])
        place(one, joints[:1], joints[joint : joint + 1], knots, coefficients)
    if others is not None:
        rest = np.array([joint for joint in range(dof) if joint not in tracks], np.int64)
        place(others, rest, rest, knots, coefficients)
    return Motion(knots, coefficients, with_accelerations, ends_at_rest)


def _united_knots(sources: Sequence[np.ndarray]) -> np.ndarray:
    times = np.concatenate(sources)
    count = native.united_knots(times, SHORTEST_GAP)
    if count is not None:
        return times[:count]
    knots = np.rint(np.unique(times) * 1e9) * 1e-9
    knots[-1] = max(knots[-1], SHORTEST_GAP)
    return spaced(knots)


def place(motion: Motion, columns: np.ndarray, places: np.ndarray, knots: np.ndarray, out: np.ndarray) -> None:
    """Write joints of a motion at other knots: each piece is the one in its middle, and rests after the end.

    Args:
        motion: of degree 5 at most.
        columns: joints of the motion, `[M]`.
        places: joints of `out`, `[M]`.
        knots: `[N + 1]`, s.
        out: coefficients `[N, 6, D]`.

    """
    source = np.ascontiguousarray(motion.coefficients)
    if native.place(source, motion.knots, columns, places, knots, out):
        return
    piece = np.searchsorted(motion.knots, (knots[:-1] + knots[1:]) / 2, side="right") - 1
    over = piece >= len(source)
    piece = np.minimum(piece, len(source) - 1)
    at = np.where(over, motion.knots[-1], knots[:-1]) - motion.knots[piece]
    shift = taylor_shift(at, DEGREE)
    moved = shift @ raised(source, DEGREE)[:, :, columns][piece]
    moved[over, 1:] = 0.0
    out[:, :, places] = moved


def spaced(knots: np.ndarray) -> np.ndarray:
    """Knots without those that are less than `SHORTEST_GAP` after another one; the first and the last are kept."""
    gaps = np.diff(knots)
    if len(gaps) < 2 or gaps.min() >= SHORTEST_GAP:
        return knots
    kept = [float(knots[0])]
    for knot in knots[1:-1].tolist():
        if knot - kept[-1] >= SHORTEST_GAP and knots[-1] - knot >= SHORTEST_GAP:
            kept.append(knot)
    return np.array([*kept, knots[-1]])


def without_slivers(motion: Motion) -> Motion:
    """The motion without pieces shorter than `SHORTEST_GAP`: those after them begin earlier instead."""
    knots = spaced(motion.knots)
    if len(knots) == len(motion.knots):
        return motion
    first = np.searchsorted(motion.knots, (knots[:-1] + knots[1:]) / 2, side="right") - 1
    shift = taylor_shift(knots[:-1] - motion.knots[first], motion.degree)
    return Motion(knots, shift @ motion.coefficients[first], motion.with_accelerations, motion.ends_at_rest)
