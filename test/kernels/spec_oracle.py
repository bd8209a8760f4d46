"""The control maps written once more as the specification states them: index by index, in numpy float64.

Splines between two states are scipy's; the points that carry a state are found by what they must do. Shares no code
with `kernels/`; slow and obvious on purpose.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import BSpline


def spec_trajectory(
    name: str,
    action: np.ndarray,
    start: list[np.ndarray],
    goal: list[np.ndarray] | None,
    dt: np.ndarray,
    form: tuple[int, int, str],
) -> tuple[np.ndarray, ...]:
    """One trajectory: `action` [Ha, D], four rows [D] of start and of goal, `dt` [Ha] seconds; p, v, a, j as [H, D].

    `form` is degree, steps and layout of a spline.
    """
    if name.startswith("bspline"):
        return spline_trajectory(action, start, goal, float(dt[0]), *form)
    action = action.copy()
    if goal is not None:
        action[-1 if name == "clique_central" else -2] = goal[0]
    if name == "clique_central":
        return _central(action, start, float(dt[0]))
    horizon = action.shape[0]
    p0, v0, a0, _ = start
    p, v, a, j = (np.zeros_like(action) for _ in range(4))
    p[0], v[0], a[0] = p0, v0, a0
    for h in range(1, horizon):
        step, u = dt[h], action[h - 1]
        if name == "clique":
            p[h] = u
            v[h] = (p[h] - p[h - 1]) / step
            last_v = v[h - 1] if h > 1 else v0 - dt[0] * a0 / 2
            a[h] = (v[h] - last_v) / step
            j[h] = (a[h] - a[h - 1]) / step
        elif name == "velocity":
            v[h] = u
            p[h] = p[h - 1] + v[h] * step
            a[h] = (v[h] - v[h - 1]) / step
            j[h] = (a[h] - a[h - 1]) / step
        elif name.startswith("acceleration"):
            a[h] = u
            j[h] = (a[h] - a[h - 1]) / step
            v[h] = v[h - 1] + a[h] * step
            if name.endswith("zoh"):
                p[h] = p[h - 1] + v[h - 1] * step + a[h] * step**2 / 2
            else:
                p[h] = p[h - 1] + v[h] * step
        elif name == "jerk":
            j[h] = u
            a[h] = a[h - 1] + u * step
            v[h] = v[h - 1] + a[h - 1] * step + u * step**2 / 2
            p[h] = p[h - 1] + v[h - 1] * step + a[h - 1] * step**2 / 2 + u * step**3 / 6
        else:
            raise KeyError(name)
    return p, v, a, j


def _central(action: np.ndarray, start: list[np.ndarray], dt: float) -> tuple[np.ndarray, ...]:
    last, (p0, v0, a0, j0) = action.shape[0], start

    def e(k: int) -> np.ndarray:
        if k < 0:
            return p0 + k * dt * v0 + (k * dt) ** 2 / 2 * a0 + (k * dt) ** 3 / 6 * j0
        return p0 if k == 0 else action[min(k, last) - 1]

    rows = range(-1, last + 3)
    p = np.stack([e(k) for k in rows])
    v = np.stack([(e(k - 2) / 12 - 2 * e(k - 1) / 3 + 2 * e(k + 1) / 3 - e(k + 2) / 12) / dt for k in rows])
    a = np.stack(
        [(-e(k - 2) / 12 + 4 * e(k - 1) / 3 - 5 * e(k) / 2 + 4 * e(k + 1) / 3 - e(k + 2) / 12) / dt**2 for k in rows]
    )
    j = np.stack([(-e(k - 2) / 2 + e(k - 1) - e(k + 1) + e(k + 2) / 2) / dt**3 for k in rows])
    return p, v, a, j


def spline_trajectory(
    points: np.ndarray,
    start: list[np.ndarray],
    goal: list[np.ndarray] | None,
    dt: float,
    degree: int = 3,
    steps: int = 4,
    layout: str = "tight",
) -> tuple[np.ndarray, ...]:
    """One trajectory from control points `[n, D]` and four start and goal rows `[D]`; p, v, a, j as `[H, D]`."""
    h = steps * dt
    spline = extended_spline(points, start, goal, h, degree, layout)
    segments = len(spline.c) - degree
    rows = np.arange(segments * steps + 1)
    outputs = []
    for order in range(4):
        # The derivatives of each segment are its own: jerk may jump from one to the next.
        piece = np.minimum(rows // steps, segments - 1)
        outputs.append(np.stack([_inside(spline, i, r / steps - i, order) for i, r in zip(piece, rows, strict=True)]))
    return tuple(output / h**order for order, output in enumerate(outputs))


def extended_spline(
    points: np.ndarray, start: list[np.ndarray], goal: list[np.ndarray] | None, h: float, degree: int, layout: str
) -> BSpline:
    """The spline over whole numbers: segment i lies between i and i + 1."""
    if layout == "curobo" and degree == 3:
        start = [*start[:3], 0 * start[3]]
        goal = None if goal is None else [*goal[:3], 0 * goal[3]]
    begin = carrying_points(start, h, degree, layout)
    if goal is None:
        end = np.repeat(points[-1:], degree, axis=0)
    else:
        end = carrying_points(goal, h, degree, layout)
        points = points[:-1] if layout == "curobo" else points
    c = np.concatenate([begin, points, end])
    return BSpline(np.arange(-degree, len(c) + 1.0), c, degree)


def carrying_points(state: list[np.ndarray], h: float, degree: int, layout: str) -> np.ndarray:
    """The points whose spline has the state's derivatives at 0; for "curobo", the state's cubic over all of [0, 1]."""
    count = degree + (layout == "curobo")
    wanted = [value * h**k for k, value in enumerate(state)] + [0 * state[0]] * 2
    table = np.zeros((count, count))
    for m in range(count):
        one = BSpline(np.arange(-degree, degree + 2.0), np.eye(degree + 1)[m], degree)
        for order in range(count):
            table[order, m] = _inside(one, 0, 0.0, order)
    return np.linalg.solve(table, np.stack(wanted[:count]))


def _inside(spline: BSpline, segment: int, t: float, order: int) -> np.ndarray:
    """Derivative at `t` of the polynomial of one segment, by its Taylor series around the middle of the segment."""
    terms = range(spline.k - order + 1)
    at = [spline(segment + 0.5, order + k) for k in terms]
    return sum((value * (t - 0.5) ** k / math.factorial(k) for k, value in enumerate(at)), 0 * at[0])
