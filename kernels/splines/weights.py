"""Weights of the control points of a uniform B-spline: tables in float64, computed once per degree and step count.

Derivatives use differences of the control points, not derivatives of the weights: the q-th derivative of a spline of
degree K is the spline of degree K - q whose control points are the q-th differences, over h^q. All weights are then
positive and add up to 1, so nothing cancels but the differences themselves, and those of neighbouring points are exact.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from .form import DEGREES

ORDERS = 4  # position, velocity, acceleration, jerk


def basis(degree: int, numerator: int, denominator: int) -> list[float]:
    """Weights of the `degree + 1` points at `numerator / denominator` of a segment, each rounded once.

    b_m(t) = 1/K! sum_{k=0}^{K-m} (-1)^k C(K+1, k) (t + K - m - k)^K, in integers up to the last division.
    """
    scale = math.factorial(degree) * denominator**degree
    return [
        sum(
            (-1) ** k * math.comb(degree + 1, k) * (numerator + (degree - m - k) * denominator) ** degree
            for k in range(degree - m + 1)
        )
        / scale
        for m in range(degree + 1)
    ]


@functools.cache
def row_weights(degree: int, steps: int) -> tuple[np.ndarray, ...]:
    """Weights of the q-th differences at every row of a segment, `[steps + 1, K - q + 1]`, for each order q.

    The last row is the end of the segment, t = 1. Read-only.
    """
    tables = tuple(np.array([basis(degree - order, row, steps) for row in range(steps + 1)]) for order in range(ORDERS))
    for table in tables:
        table.flags.writeable = False
    return tables


def _polynomials(degree: int) -> list[list[float]]:
    """Weights of differences at the beginning of a segment for each power of t, over its factorial."""
    each = np.eye(degree + 1)
    return [
        (basis(degree - power, 0, 1) @ np.diff(each, power, axis=0) / math.factorial(power)).tolist()
        for power in range(degree + 1)
    ]


def _state_weights(degree: int, count: int, has_jerk: bool) -> list[list[float]]:
    """The polar form of the Taylor polynomial p + v t + a t^2 / 2 + j t^3 / 6 at the K knots around each point.

    1, x, (x^2 - (K+1)/12) / 2 and (x^3 - (K+1) x / 4) / 6 with x = m - (K-1)/2.
    """
    x = np.arange(count) - (degree - 1) / 2
    third = (x**3 - (degree + 1) * x / 4) / 6 if has_jerk else np.zeros(count)
    return np.stack([np.ones(count), x, (x**2 - (degree + 1) / 12) / 2, third], axis=1).tolist()


# torch.compile cannot trace the computation of tables, but reads existing ones: traced code uses these two.
POLYNOMIALS = {degree: _polynomials(degree) for degree in range(max(DEGREES) + 1)}
"""Polynomials of each degree, `[K + 1][K + 1]`: the coefficient of t^power in the weight b_m is at `[power][m]`."""
STATE_WEIGHTS = {
    (degree, count, jerk): _state_weights(degree, count, jerk)
    for degree in DEGREES
    for count in (degree, degree + 1)
    for jerk in (False, True)
}
"""Weights for each degree, number of points and whether they have a jerk, `[points][4]`.

The weight of `h^k` times a state's k-th derivative in the m-th point that represents it.
"""
