"""Compiled steps of motions (`src/`), if they are built: one call each instead of many calls of numpy.

Each of them has a counterpart in numpy, with which tests compare it and which is used if they are not built: functions
here then return None, as they do for arrays that are not contiguous or not float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _nothing(*_: object) -> None:
    """Takes the place of functions that are not built."""


try:
    from . import _native
except ImportError:  # no compiler, or sources that were not installed
    _native = None

motion_through: Callable[..., int | None] = getattr(_native, "motion_through", _nothing)
"""`motion_through(knots, rows, velocity, acceleration, rests, fade_time, out)`: `rows.motion_of_positions`.

Knots `[N + 1]`, s, rows `[N + 1, D]`, velocity and acceleration of the start `[D]` or None (open, and not known), and
coefficients `[N, K + 1, D]` to be written, K as `degree_through` has it.
"""

surely_keeps: Callable[..., bool | None] = getattr(_native, "surely_keeps", _nothing)
"""`surely_keeps(coefficients, knots, lows, highs)`: whether one of the quick checks of `extremes` shows it."""

extremes: Callable[..., bool | None] = getattr(_native, "extremes", _nothing)
"""`extremes(coefficients, knots, out)`: `extremes.extremes`, written into `[2, 4, D]`."""

retreats: Callable[..., bool | None] = getattr(_native, "retreats", _nothing)
"""`retreats(planned, moved, begin, stopping, shares, rules, out)`: `reaching.retreats` of `[T, M]`, into `[M]`."""

united: Callable[..., int | None] = getattr(_native, "united", _nothing)
"""`united(tracks, coefficients, knots, gap, beside, knots_out, out)`: `tracks.united`; returns its number of pieces.

Tracks by joint; the motion of the others may be None; written into three times as many knots as all of them have
together, and `[N, 6, D]`.
"""

pieces_of_profiles: Callable[..., list[int] | None] = getattr(_native, "pieces_of_profiles", _nothing)
"""`pieces_of_profiles(profiles, duration, end, velocity_only, knots, coefficients)`: `profiles._tracks`.

Profiles are a list of P tuples: lists of spans and jerks, and the state in which it begins; duration NaN: the sum of
the spans; knots `[P, n + 1]` and coefficients `[P, n, 6]` to be written. Returns how many pieces have a length.
"""

states_at: Callable[..., bool | None] = getattr(_native, "states_at", _nothing)
"""`states_at(coefficients, knots, times, out)`: `Motion.states_at`, written into `[orders, T, D]`.

`Motion.state_at`, if the time is a number, into `[orders, D]`.
"""

end: Callable[..., bool | None] = getattr(_native, "end", _nothing)
"""`end(coefficients, knots, out)`: position, velocity and acceleration in which the last piece ends, into `[3, D]`."""

from_time: Callable[..., int | None] = getattr(_native, "from_time", _nothing)
"""`from_time(coefficients, knots, time, sliver, knots_out, out)`: `Motion.from_time`; returns its number of pieces."""

then: Callable[..., bool | None] = getattr(_native, "then", _nothing)
"""`then(coefficients, knots, of_next, knots_of_next, knots_out, out)`: `Motion.then`."""

points: Callable[..., bool | None] = getattr(_native, "points", _nothing)
"""`points(coefficients, knots, rules, ends_pieces, rests, time_ns, out)`: `points.points_of`.

Rules are its constants, float64 `[5]`; int64 `[N + 1]` and states `[3, N + 1, D]` are written.
"""

shift: Callable[..., bool | None] = getattr(_native, "shift", _nothing)
"""`shift(piece, by)`: `motion.shifted`, in place."""

quintics: Callable[..., bool | None] = getattr(_native, "quintics", _nothing)
"""`quintics(knots, states, out)`: `motion.quintics`, written into `[N, 6, D]`."""

blend: Callable[..., bool | None] = getattr(_native, "blend", _nothing)
"""`blend(coefficients, knots, of_plan, knots_of_plan, lack, span, at, out)`: `fading.difference_that_fades`."""

_all_finite: Callable[[object], bool | None] = getattr(_native, "all_finite", _nothing)


def degree_through(acceleration: np.ndarray | None, rests: bool, fade_time: float) -> int:
    """Degree of a motion through positions: an acceleration fades as a quintic."""
    return 5 if fade_time > 0 and (rests or acceleration is not None) else 3


def all_finite(values: np.ndarray) -> bool:
    """Whether real numbers of any shape hold neither NaN nor infinity."""
    finite = _all_finite(values)
    return bool(np.isfinite(values).all()) if finite is None else finite
