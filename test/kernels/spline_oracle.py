"""B-splines between two states by scipy; the points that carry a state are found by what they must do."""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import BSpline


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
        # The derivatives of each segment on its own: jerk may jump from one to the next.
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
    """The points whose spline has the state's derivatives at 0; of "curobo", is the state's cubic all over [0, 1]."""
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
