"""The compiled steps of motions (`src/`) in numpy: the oracle of their tests, and used where they are not built.

A motion is given by coefficients `[N, K + 1, D]` and knots `[N + 1]`, s. Results are written into arrays of the caller.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from .polynomials import begun_with, bernstein, ended_with, extremes_of_piece, raised, spaced, taylor_shift

_SIZE = 6
"""Coefficients of a piece of motions of single joints."""
_ORDERS = 4


def states_at(coefficients: np.ndarray, knots: np.ndarray, times: np.ndarray | float, out: np.ndarray) -> None:
    """`Motion.states_at`, written into `[orders, T, D]`; `Motion.state_at` if the time is a number: `[orders, D]`."""
    at = np.atleast_1d(times)
    pieces = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(coefficients) - 1)
    t = (np.minimum(at, knots[-1]) - knots[pieces])[:, None]
    p = v = a = j = np.zeros((len(at), coefficients.shape[2]))
    for power in range(coefficients.shape[1] - 1, -1, -1):  # Horner's rule for the value and three derivatives at once
        p, v, a, j = p * t + coefficients[pieces, power], v * t + p, a * t + v, j * t + a
    states = np.stack([p, v, 2 * a, 6 * j])[: len(out)]
    states[1:, at >= knots[-1]] = 0.0
    out[:] = states if np.ndim(times) else states[:, 0]


def end(coefficients: np.ndarray, knots: np.ndarray, out: np.ndarray) -> None:
    """Position, velocity and acceleration in which the last piece ends, written into `[3, D]`."""
    piece = raised(coefficients[-1:], 2)[0].copy()
    shift(piece, knots[-1] - knots[-2])
    out[:] = piece[0], piece[1], 2 * piece[2]


def from_time(
    coefficients: np.ndarray, knots: np.ndarray, time: float, sliver: float, knots_out: np.ndarray, out: np.ndarray
) -> int:
    """`Motion.from_time`; returns its number of pieces."""
    piece = bisect_right(knots, time) - 1
    if piece + 1 < len(coefficients):
        piece += bool(knots[piece + 1] - time < sliver)
    count = len(coefficients) - piece
    knots_out[: count + 1] = knots[piece:] - time
    out[:count] = coefficients[piece:]
    shift(out[0], -float(knots_out[0]))
    knots_out[0] = 0.0
    return count


def then(
    coefficients: np.ndarray,
    knots: np.ndarray,
    of_next: np.ndarray,
    knots_of_next: np.ndarray,
    knots_out: np.ndarray,
    out: np.ndarray,
) -> None:
    """`Motion.then`."""
    knots_out[:] = np.concatenate([knots, knots[-1] + knots_of_next[1:]])
    out[:] = np.concatenate([raised(part, out.shape[1] - 1) for part in (coefficients, of_next)])


def shift(piece: np.ndarray, by: float) -> None:
    """`motion.shifted`, in place, `[K + 1, D]`."""
    for first in range(len(piece) - 1):  # Horner's rule, once for each coefficient
        for power in range(len(piece) - 2, first - 1, -1):
            piece[power] += by * piece[power + 1]


def quintics(knots: np.ndarray, states: np.ndarray, out: np.ndarray) -> None:
    """`motion.quintics`, written into `[N, 6, D]`."""
    h = np.diff(knots)[:, None]
    p, v, a = states[:, :-1]
    q, w, u = states[:, 1:]
    u, w, q = u - a, w - v - a * h, q - p - v * h - a * h**2 / 2
    q, w, u = q / h**3, w / h**2, u / (2 * h)
    higher = [10 * q - 4 * w + u, (-15 * q + 7 * w - 2 * u) / h, (6 * q - 3 * w + u) / h**2]
    np.stack([p, v, a / 2, *higher], axis=1, out=out)


def blend(
    coefficients: np.ndarray,
    knots: np.ndarray,
    of_plan: np.ndarray,
    knots_of_plan: np.ndarray,
    lack: np.ndarray,
    span: float,
    at: np.ndarray,
    out: np.ndarray,
) -> None:
    """`join.difference_that_fades`."""
    s = (at / span)[:, None]
    weight = 1 - s**3 * (10 - 15 * s + 6 * s**2)
    rate, curve = -30 * s**2 * (1 - s) ** 2 / span, -60 * s * (1 - s) * (1 - 2 * s) / span**2
    executed, planned = np.empty((2, 3, len(at), of_plan.shape[2]))
    states_at(coefficients, knots, at, executed)
    states_at(of_plan, knots_of_plan, at, planned)
    d = executed - planned
    d[:, 0] = lack
    weighted = weight * d[0], rate * d[0] + weight * d[1], curve * d[0] + 2 * rate * d[1] + weight * d[2]
    quintics(at, np.array(weighted), out)


def motion_through(
    knots: np.ndarray,
    rows: np.ndarray,
    velocity: np.ndarray | None,
    acceleration: np.ndarray | None,
    rests: bool,
    fade_time: float,
    out: np.ndarray,
) -> None:
    """`rows.motion_of_positions` and `rows.cubic_spline`.

    Rows `[N + 1, D]`; velocity and acceleration of the start `[D]`: None for an end that is open, and for not known.
    """
    h = np.diff(knots)[:, None]
    velocities = _velocities(h[:, 0], rows, velocity, rests)
    secant = (rows[1:] - rows[:-1]) / h
    v0, v1 = velocities[:-1], velocities[1:]
    bend = (v0 + v1 - 2 * secant) / h
    coefficients = np.stack([rows[:-1], v0, (secant - v0) / h - bend, bend / h], axis=1)
    if out.shape[1] == _SIZE and acceleration is not None:
        coefficients = begun_with(coefficients, knots, acceleration - 2 * coefficients[0, 2], fade_time)
    if out.shape[1] == _SIZE and rests:
        last = np.empty((3, rows.shape[1]))
        end(coefficients, knots, last)
        coefficients = ended_with(coefficients, knots, -last[2], fade_time)
    out[:] = coefficients


def _velocities(steps: np.ndarray, positions: np.ndarray, first: np.ndarray | None, ends_at_rest: bool) -> np.ndarray:
    """Velocities at the knots, by elimination in the tridiagonal system of the spline, for all joints at once."""
    count = len(steps)
    rate = 1 / steps
    secant = np.diff(positions, axis=0) * rate[:, None]
    pull = 3 * rate[:, None] * secant
    right = np.empty_like(positions, dtype=np.float64)
    right[1:-1] = pull[:-1] + pull[1:]
    # At an open end without jerk, the secant of the piece is the mean of the velocities at its ends.
    right[0] = 2 * secant[0] if first is None else first
    right[-1] = 0.0 if ends_at_rest else 2 * secant[-1]
    rates = rate.tolist()
    above = 1.0 if first is None else 0.0  # of the previous row, already divided by its diagonal
    factors = [above]
    for row in range(1, count):
        before, after = rates[row - 1], rates[row]
        pivot = 1 / (2 * (before + after) - before * above)
        right[row] = (right[row] - before * right[row - 1]) * pivot
        above = after * pivot
        factors.append(above)
    if not ends_at_rest:
        # With one piece and both ends open, any velocities with that mean are possible: take the secant itself.
        right[-1] = secant[-1] if above == 1.0 else (right[-1] - right[-2]) / (1 - above)
    for row in range(count - 1, -1, -1):
        right[row] -= factors[row] * right[row + 1]
    return right


def points(
    coefficients: np.ndarray,
    knots: np.ndarray,
    rules: np.ndarray,
    ends_pieces: bool,
    rests: bool,
    time_ns: np.ndarray,
    out: np.ndarray,
) -> None:
    """`points.points_of`: rules are its constants, `[5]`; times, int64 `[N + 1]`, and states `[3, N + 1, D]`.

    Points after short pieces, before longer ones, have the states in which these end: where knots became one, an
    acceleration jumps by as much as a change of jerk was moved. Between points the longer piece leads there: its jerk
    changes by 9 times the jump over its length.
    """
    no_time, short, shorter, nothing, rounding = rules
    time_ns[:] = np.rint(knots * 1e9)
    whole = time_ns * 1e-9
    times = np.where(np.abs(whole - knots) > no_time, whole, knots)
    states_at(coefficients, knots, times, out)
    end(coefficients, knots, out[:, -1])
    if rests:
        out[1, -1] = 0.0
    steps = np.diff(knots)
    if ends_pieces:
        for knot in (np.flatnonzero((steps[:-1] < short) & (steps[:-1] < shorter * steps[1:])) + 1).tolist():
            end(coefficients[:knot], np.append(knots[:knot], times[knot]), out[:, knot])
    out[1:][np.abs(out[1:]) < nothing] = 0.0
    if rests:
        out[2, -1, np.abs(out[2, -1]) < rounding] = 0.0


def united(
    tracks: Mapping[int, tuple[np.ndarray, np.ndarray]],
    coefficients: np.ndarray | None,
    knots: np.ndarray | None,
    gap: float,
    beside: float,
    knots_out: np.ndarray,
    out: np.ndarray,
) -> int:
    """`motion.united`; returns its number of pieces.

    Tracks by joint; the motion of the others may be None; written into three times as many knots as all of them have
    together, and `[N, 6, D]`.
    """
    others = [] if knots is None else [knots]
    kept = _united_knots([track[0] for track in tracks.values()] + others, gap, beside)
    count = len(kept) - 1
    knots_out[: count + 1] = kept
    for joint in range(out.shape[2]):
        if joint in tracks:
            out[:count, :, joint] = _placed(*tracks[joint], kept)
        else:
            out[:count, :, joint] = _placed(knots, raised(coefficients, _SIZE - 1)[:, :, joint], kept)
    return count


def _united_knots(sources: Sequence[np.ndarray], gap: float, beside: float) -> np.ndarray:
    times = np.rint(np.concatenate(sources) * 1e9) * 1e-9
    knots = np.unique(np.append(times, max(times.max(), gap)))
    kept = spaced(knots, gap)
    left_out = np.setdiff1d(knots, kept)
    before = kept[kept.searchsorted(left_out) - 1]
    became_one = np.append(before[left_out - before < gap], kept[-1:][(kept[-1] - left_out < gap).any()])
    more = []
    for knot in np.unique(became_one):
        at = int(kept.searchsorted(knot))
        for other, by in ((at - 1, -beside), (at + 1, beside)):
            if 0 <= other < len(kept) and abs(kept[other] - knot) > 3 * beside:
                more.append(np.rint((knot + by) * 1e9) * 1e-9)
    return np.sort(np.append(kept, more))


def _placed(own: np.ndarray, coefficients: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """A joint at other knots, `[N, 6]`: each piece is the one in its middle, and rests after the end."""
    piece = np.searchsorted(own, (knots[:-1] + knots[1:]) / 2, side="right") - 1
    over = piece >= len(coefficients)
    piece = np.minimum(piece, len(coefficients) - 1)
    at = np.where(over, own[-1], knots[:-1]) - own[piece]
    moved = (taylor_shift(at, _SIZE - 1) @ coefficients[piece][:, :, None])[:, :, 0]
    moved[over, 1:] = 0.0
    return moved


def pieces_of_profiles(
    profiles: Sequence[tuple[Sequence[float], Sequence[float], Sequence[float]]],
    duration: float,
    end: tuple[float, float, float],
    velocity_only: bool,
    knots: np.ndarray,
    coefficients: np.ndarray,
) -> list[int]:
    """`profiles._tracks`; returns how many pieces of each have a length.

    P profiles: spans, jerks, and the state in which each begins; duration NaN: the sum of the spans. Knots
    `[P, n + 1]` and coefficients `[P, n, 6]` are written.
    """
    counts = []
    for profile, own, pieces in zip(profiles, knots, coefficients, strict=True):
        count, state = _pieces(*profile, duration, own, pieces)
        span = own[count]
        p, v, a = (to - at for to, at in zip(end, state, strict=True))
        if velocity_only:
            p = v * span / 2 - a * span**2 / 12
        p, v, a = p / span**3, v / span**2, a / (2 * span)
        growing = [0.0, 0.0, 0.0, 10 * p - 4 * v + a, (-15 * p + 7 * v - 2 * a) / span, (6 * p - 3 * v + a) / span**2]
        pieces[:count] += taylor_shift(own[:count], _SIZE - 1) @ np.array(growing)
        counts.append(count)
    return counts


def _pieces(
    spans: Sequence[float],
    jerks: Sequence[float],
    begin: Sequence[float],
    duration: float,
    knots: np.ndarray,
    pieces: np.ndarray,
) -> tuple[int, tuple[float, float, float]]:
    """The pieces of a profile, and the state in which the last one ends."""
    (p, v, a), time, count = begin, 0.0, 0
    knots[0] = 0.0
    for place, (span, jerk) in enumerate(zip(spans, jerks, strict=True)):
        time += span
        knot = round(time * 1e9) * 1e-9
        if knot > duration or (place == len(spans) - 1 and not np.isnan(duration)):
            knot = duration
        h = knot - knots[count]
        if h <= 0:
            continue
        pieces[count] = p, v, a / 2, jerk / 6, 0.0, 0.0
        count += 1
        knots[count] = knot
        p, v, a = p + (v + (a / 2 + jerk / 6 * h) * h) * h, v + (a + jerk / 2 * h) * h, a + jerk * h
    if count == 0:
        v, a, count = 0.0, 0.0, 1
        pieces[0] = p, 0.0, 0.0, 0.0, 0.0, 0.0
        knots[1] = max(time if np.isnan(duration) else duration, 1e-9)
    return count, (p, v, a)


def extremes(coefficients: np.ndarray, knots: np.ndarray, out: np.ndarray) -> None:
    """`limits.extremes`, written into `[2, 4, D]`."""
    steps = np.diff(knots)
    for order in range(_ORDERS):
        control = bernstein(coefficients, steps, order)
        for joint in range(coefficients.shape[2]):
            for side, sign in enumerate((-1.0, 1.0)):
                bounds = (sign * control[:, :, joint]).max(axis=1)
                reached = float((sign * control[:, [0, -1], joint]).max())
                for piece in np.argsort(-bounds):  # only those whose bound exceeds the value found so far
                    if bounds[piece] <= reached:
                        break
                    _, values = extremes_of_piece(coefficients[piece, :, joint], float(steps[piece]), order)
                    reached = max(reached, float((sign * values).max()))
                out[side, order, joint] = sign * reached


def surely_keeps(coefficients: np.ndarray, knots: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> bool:
    """`limits.surely_keeps`: whether the control points of all derivatives are within bounds `[4, D]`."""
    for order in range(min(coefficients.shape[1], _ORDERS)):
        control = bernstein(coefficients, np.diff(knots), order)
        if (control > highs[order]).any() or (control < lows[order]).any():
            return False
    return True


def retreats(
    planned: np.ndarray,
    moved: np.ndarray,
    begin: np.ndarray,
    stopping: np.ndarray,
    shares: np.ndarray,
    rules: np.ndarray,
    out: np.ndarray,
) -> None:
    """`reaching.retreats` of plans `[T, M]` and ways `[S, M]`, into `[M]`; rules are its constants, `[5]`."""
    forwards, rings, rests, retreat, retreat_rad = rules
    total, gap = planned[-1] - planned[0], planned[-1] - begin
    total = np.where(np.abs(total) > forwards * np.abs(gap), total, gap)
    sign = np.where(total < 0, -1.0, 1.0)
    ways = sign * planned, sign * moved
    own, back = ((np.maximum.accumulate(way, axis=0) - way).max(axis=0) for way in ways)
    low, high = stopping
    forward = own <= np.maximum(shares * np.abs(total), np.minimum(rings, np.abs(total) / 2))
    rolls = np.where(sign > 0, begin - low, high - begin)
    goes_back = np.where(forward, back - retreat * (own + rolls) - retreat_rad, 0.0)
    swings = np.abs(planned - planned[-1]).max(axis=0)
    least = np.minimum(planned.min(axis=0), low), moved.min(axis=0)
    most = np.maximum(planned.max(axis=0), high), moved.max(axis=0)
    beyond = np.maximum(most[1] - most[0], least[0] - least[1]) - (retreat - 1) * swings - retreat_rad
    out[:] = np.maximum(goes_back, np.where(swings <= rests, beyond, 0.0)).clip(0.0)


def all_finite(numbers: np.ndarray) -> bool:
    """Whether real numbers of any shape hold neither NaN nor infinity."""
    return bool(np.isfinite(numbers).all())
