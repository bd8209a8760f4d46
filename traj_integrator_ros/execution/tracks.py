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
_BESIDE = 1e-2
"""s from knots that became one, where others are added in pieces more than three times as long: a controller plays the
jump of an acceleration there as a swing of 0.0173 times it and the square of the length, which then is nothing.
"""


class Track(NamedTuple):
    """The motion of one joint; at rest at its last position from its last knot on."""

    knots: np.ndarray
    """s, `[n + 1]`, from 0."""
    coefficients: np.ndarray
    """`[n, 6]`, of the powers of the time since the piece began."""


def track_of(motion: Motion, joint: int) -> Track:
    """One joint of a motion."""
    return Track(motion.knots, np.ascontiguousarray(raised(motion.coefficients, DEGREE)[:, :, joint]))


def united(
    tracks: Mapping[int, Track],
    others: Motion | None = None,
    *,
    with_accelerations: bool = True,
    ends_at_rest: bool = True,
) -> Motion:
    """Return the motion of all joints, with a knot at the whole nanosecond next to each of theirs.

    Knots within `SHORTEST_GAP` become one, and long pieces beside those are cut.

    Args:
        tracks: of some joints.
        others: motion of all joints, from which those are taken that have no track; None: all have one.
        with_accelerations: see `Motion`.
        ends_at_rest: see `Motion`.

    """
    dof = len(tracks) if others is None else others.dof
    most = 3 * (sum(len(track.knots) for track in tracks.values()) + (0 if others is None else len(others.knots)))
    knots, coefficients = np.empty(most), np.empty((most - 1, DEGREE + 1, dof))
    rest = (None, None) if others is None else (np.ascontiguousarray(others.coefficients), others.knots)
    count = native.united(tracks, *rest, SHORTEST_GAP, _BESIDE, knots, coefficients)
    if count is not None:
        knots, coefficients = knots[: count + 1], coefficients[:count]
    else:
        each = {joint: Motion(track.knots, track.coefficients[:, :, None]) for joint, track in tracks.items()}
        knots = _united_knots([one.knots for one in each.values()] + ([] if others is None else [others.knots]))
        found = ((each[joint], 0) if joint in each else (others, joint) for joint in range(dof))
        coefficients = np.stack([_placed(*of_joint, knots) for of_joint in found], axis=2)
    return Motion(knots, coefficients, with_accelerations, ends_at_rest)


def _united_knots(sources: Sequence[np.ndarray]) -> np.ndarray:
    times = np.rint(np.concatenate(sources) * 1e9) * 1e-9
    knots = np.unique(np.append(times, max(times.max(), SHORTEST_GAP)))
    kept = spaced(knots)
    left_out = np.setdiff1d(knots, kept)
    before = kept[kept.searchsorted(left_out) - 1]
    became_one = np.append(
        before[left_out - before < SHORTEST_GAP], kept[-1:][(kept[-1] - left_out < SHORTEST_GAP).any()]
    )
    more = []
    for knot in np.unique(became_one):
        at = int(kept.searchsorted(knot))
        for other, beside in ((at - 1, knot - _BESIDE), (at + 1, knot + _BESIDE)):
            if 0 <= other < len(kept) and abs(kept[other] - knot) > 3 * _BESIDE:
                more.append(np.rint(beside * 1e9) * 1e-9)
    return np.sort(np.append(kept, more))


def _placed(motion: Motion, joint: int, knots: np.ndarray) -> np.ndarray:
    """A joint at other knots, `[N, 6]`: each piece is the one in its middle, and rests after the end."""
    piece = np.searchsorted(motion.knots, (knots[:-1] + knots[1:]) / 2, side="right") - 1
    over = piece >= len(motion.coefficients)
    piece = np.minimum(piece, len(motion.coefficients) - 1)
    at = np.where(over, motion.knots[-1], knots[:-1]) - motion.knots[piece]
    source = raised(motion.coefficients, DEGREE)[piece, :, joint]
    moved = (taylor_shift(at, DEGREE) @ source[:, :, None])[:, :, 0]
    moved[over, 1:] = 0.0
    return moved


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
