"""The compiled steps of motions (`traj_integrator_ros/execution/src`) in numpy: the oracle of their tests.

A motion is given by coefficients `[N, K + 1, D]` and knots `[N + 1]`, s. Results are written into arrays of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traj_integrator_ros.execution.polynomials import SIZE, bernstein, extremes_of_piece, quintics, spaced, taylor_shift

_ORDERS = 4


def states_at(coefficients: np.ndarray, knots: np.ndarray, times: np.ndarray | float | None, out: np.ndarray) -> None:
    """`Motion.states_at`, written into `[orders, T, D]`; of a number into `[orders, D]`, and so of None: the end."""
    at = np.atleast_1d(knots[-1] if times is None else times)
    pieces = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(coefficients) - 1)
    t = (np.minimum(at, knots[-1]) - knots[pieces])[:, None]
    p = v = a = j = np.zeros((len(at), coefficients.shape[2]))
    for power in range(coefficients.shape[1] - 1, -1, -1):  # Horner's rule for the value and three derivatives at once
        p, v, a, j = p * t + coefficients[pieces, power], v * t + p, a * t + v, j * t + a
    states = np.stack([p, v, 2 * a, 6 * j])[: len(out)]
    if times is not None:
        states[1:, at >= knots[-1]] = 0.0
    out[:] = states[:, 0] if np.ndim(times) == 0 else states


def shift(piece: np.ndarray, by: float) -> None:
    """`motion.shifted`, in place, `[K, D]`."""
    for first in range(len(piece) - 1):  # Horner's rule, once for each coefficient
        for power in range(len(piece) - 2, first - 1, -1):
            piece[power] += by * piece[power + 1]


def add(polynomial: np.ndarray, times: np.ndarray, out: np.ndarray) -> None:
    """Adds a polynomial `[K, D]` to pieces `[N, K, D]` that begin at times of its own, s, `[N]`."""
    out += taylor_shift(times, len(polynomial)) @ polynomial


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
    out[:] = quintics(np.diff(at), np.array(weighted))


def spline(knots: np.ndarray, rows: np.ndarray, velocity: np.ndarray | None, rests: bool, out: np.ndarray) -> None:
    """`rows.cubic_spline` through rows `[N + 1, D]`; a velocity of None is open."""
    h = np.diff(knots)[:, None]
    velocities = _velocities(h[:, 0], rows, velocity, rests)
    secant = (rows[1:] - rows[:-1]) / h
    v0, v1 = velocities[:-1], velocities[1:]
    bend = (v0 + v1 - 2 * secant) / h
    np.stack([rows[:-1], v0, (secant - v0) / h - bend, bend / h], axis=1, out=out)


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
    ends_pieces: bool,
    rests: bool,
    time_ns: np.ndarray,
    out: np.ndarray,
) -> None:
    """`rows.points_of`: times, int64 `[N + 1]`, and states `[3, N + 1, D]`.

    Points after short pieces, before longer ones, have the states in which these end: where knots became one, an
    acceleration jumps by as much as a change of jerk was moved. Between points the longer piece leads there: its jerk
    changes by 9 times the jump over its length.
    """
    no_time, short, shorter, nothing, rounding = 1e-14, 1e-2, 0.9, 1e-12, 5e-3
    time_ns[:] = np.rint(knots * 1e9)
    whole = time_ns * 1e-9
    times = np.where(np.abs(whole - knots) > no_time, whole, knots)
    states_at(coefficients, knots, times, out)
    states_at(coefficients, knots, None, out[:, -1])
    if rests:
        out[1, -1] = 0.0
    steps = np.diff(knots)
    if ends_pieces:
        for knot in (np.flatnonzero((steps[:-1] < short) & (steps[:-1] < shorter * steps[1:])) + 1).tolist():
            states_at(coefficients[:knot], np.append(knots[:knot], times[knot]), None, out[:, knot])
    out[1:][np.abs(out[1:]) < nothing] = 0.0
    if rests:
        out[2, -1, np.abs(out[2, -1]) < rounding] = 0.0


def united(
    tracks: Sequence[tuple[np.ndarray, ...]],
    more: np.ndarray,
    gap: float,
    beside: float,
    knots_out: np.ndarray,
    out: np.ndarray,
) -> int:
    """`motion.united`; returns its number of pieces.

    Knots and coefficients `[n, 6, 1]` of each joint, and more knots; written into three times as many knots.
    """
    kept = _united_knots(np.concatenate([more, *(track[0] for track in tracks)]), gap, beside)
    count = len(kept) - 1
    knots_out[: count + 1] = kept
    for joint, (knots, pieces, *_) in enumerate(tracks):
        piece = np.searchsorted(knots, (kept[:-1] + kept[1:]) / 2, side="right") - 1  # that in the middle of each
        over, piece = piece >= len(pieces), np.minimum(piece, len(pieces) - 1)
        at = np.where(over, knots[-1], kept[:-1]) - knots[piece]
        out[:count, :, joint] = (taylor_shift(at, SIZE) @ pieces[piece])[:, :, 0]
        out[:count, 1:, joint][over] = 0.0
    return count


def _united_knots(times: np.ndarray, gap: float, beside: float) -> np.ndarray:
    times = np.rint(times * 1e9) * 1e-9
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


def pieces_of_profile(
    profile: Sequence[float],
    begin: np.ndarray,
    duration: float,
    end: np.ndarray,
    velocity_only: bool,
    knots: np.ndarray,
    coefficients: np.ndarray,
) -> int:
    """`reaching.Reach.motion`: returns how many pieces of a profile have a length.

    The profile has n spans and n jerks; it begins in a state `[3]`; duration NaN: the sum of the spans. Knots
    `[n + 1]` and coefficients `[n, 6, 1]` are written.
    """
    coefficients[:] = 0.0
    (spans, jerks), (p, v, a) = np.reshape(profile, (2, -1)), begin
    count, time, knots[0] = 0, 0.0, 0.0
    for k, (span, jerk) in enumerate(zip(spans, jerks, strict=True)):
        time += span
        knot = np.rint(time * 1e9) * 1e-9
        if knot > duration or (k == len(spans) - 1 and not np.isnan(duration)):
            knot = duration
        h = knot - knots[count]
        if h <= 0:
            continue
        coefficients[count, :4, 0] = p, v, a / 2, jerk / 6
        count += 1
        knots[count] = knot
        p, v, a = p + (v + (a / 2 + jerk / 6 * h) * h) * h, v + (a + jerk / 2 * h) * h, a + jerk * h
    if count == 0:
        coefficients[0, 0], v, a, count = p, 0.0, 0.0, 1
        knots[1] = max(time if np.isnan(duration) else duration, 1e-9)
    span = knots[count]
    p, v, a = end - (p, v, a)
    if velocity_only:
        p = v * span / 2 - a * span**2 / 12
    states = np.array([[0.0, p], [0.0, v], [0.0, a]])[:, :, None]
    add(quintics(np.array([span]), states)[0], knots[:count], coefficients[:count])
    return count


def stop(
    states: np.ndarray,
    acceleration: np.ndarray,
    jerk: np.ndarray,
    gap: float,
    beside: float,
    knots_out: np.ndarray,
    out: np.ndarray,
) -> int | None:
    """`reaching.fastest_stop` from states `[3, D]`, into 15 D knots; None: it takes forever."""
    _, v, a = states
    shortest = 1e-4
    jerk = np.minimum(np.maximum(np.maximum(np.abs(a) / shortest, np.abs(v) / shortest**2), 1e-9 * jerk), jerk)
    back, against = np.maximum(np.abs(a) - acceleration, 0.0) / jerk, -np.copysign(jerk, a)
    v, a = v + a * back + against * back**2 / 2, a + against * back
    way = np.where(v + a * np.abs(a) / (2 * jerk) > 0, -1.0, 1.0)
    missing, own = -way * v, way * a
    square = own**2 / 2 + jerk * missing
    back = np.where(np.isfinite(square), back, np.inf)  # beyond all measure
    peak = np.minimum(np.sqrt(np.maximum(square, 0.0)), acceleration)
    more = missing - (2 * peak**2 - own**2) / (2 * jerk)
    holds = np.where(more > 0, more, 0.0) / np.where(more > 0, peak, 1.0)
    spans = np.stack([back, np.maximum(peak - own, 0.0) / jerk, holds, peak / jerk])
    if not (np.isfinite(states).all() and (spans.sum(axis=0) < 1e9).all()):
        return None
    jerks, tracks = np.stack([against, way * jerk, 0 * jerk, -way * jerk]), []
    for profile, begin in zip(np.concatenate([spans, jerks]).T, states.T, strict=True):
        own, pieces = np.empty(len(spans) + 1), np.empty((len(spans), SIZE, 1))
        count = pieces_of_profile(profile, begin, np.nan, np.zeros(3), True, own, pieces)
        tracks.append((own[: count + 1], pieces[:count]))
    return united(tracks, np.empty(0), gap, beside, knots_out, out)


def widen(coefficients: np.ndarray, knots: np.ndarray, ranges: np.ndarray) -> bool:
    """Widens ranges of the derivatives `[2, 4, D]` to contain those of a motion; returns whether it had to."""
    steps, before = np.diff(knots), ranges.copy()
    for order in range(_ORDERS):
        control = bernstein(coefficients, steps, order)
        for joint in range(coefficients.shape[2]):
            for side, sign in enumerate((-1.0, 1.0)):
                bounds = (sign * control[:, :, joint]).max(axis=1)
                reached = max(sign * ranges[side, order, joint], (sign * control[:, [0, -1], joint]).max())
                for piece in np.argsort(-bounds):  # only those whose bound exceeds the value found so far
                    if bounds[piece] <= reached:
                        break
                    _, values = extremes_of_piece(coefficients[piece, :, joint], float(steps[piece]), order)
                    reached = max(reached, float((sign * values).max()))
                ranges[side, order, joint] = sign * reached
    return not np.array_equal(ranges, before)


def retreats(
    planned: np.ndarray,
    moved: np.ndarray,
    begin: np.ndarray,
    stopping: np.ndarray,
    floats: np.ndarray,
    retreat: float,
    retreat_rad: float,
    out: np.ndarray,
) -> None:
    """`reaching.retreats` of plans `[T, M]` and ways `[S, M]`, into `[M]`."""
    forwards, rings, rests = 0.1, 2e-3, 5e-4
    shares = np.where(floats, 1e9, forwards)
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


def all_finite(numbers: np.ndarray) -> bool | None:
    """Whether numbers hold neither NaN nor infinity; compiled, None where they are not contiguous and real."""
    return bool(np.isfinite(numbers).all())
