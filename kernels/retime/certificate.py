"""Exact extremes of a controller's interpolation between points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial, perm

import numpy as np
import torch
from torch import Tensor

from .limits import MotionLimits
from .native import refuse_transformed

Array = np.ndarray | Tensor
_HALVINGS = 30
"""Halvings of a piece around an extreme: what the value lacks there is the square of what is left, 2^-60."""
_JERK = 3
"""Order of the derivative."""


@dataclass(frozen=True)
class Certificate:
    """Least and greatest values that the joints reach anywhere, not only at the points; float64.

    Jerk is that within segments: a jump of the acceleration between two segments is not counted.
    """

    lowest: Tensor
    """Least position, velocity, acceleration and jerk, `[B, 4, D]`."""
    highest: Tensor

    def ratios(self, limits: MotionLimits) -> Tensor:
        """Return the greatest velocity, acceleration and jerk relative to limits, `[B, 3, D]`: at most 1 if kept."""
        batch, _, dof = self.lowest.shape
        velocity, least, most, jerk = limits.rows(batch, dof)
        below, above = torch.stack([-velocity, least, -jerk], 1), torch.stack([velocity, most, jerk], 1)
        return torch.maximum(self.lowest[:, 1:] / below, self.highest[:, 1:] / above)


def certify(
    times: Tensor,
    position: Tensor,
    velocity: Tensor | None = None,
    acceleration: Tensor | None = None,
    *,
    counts: Tensor | None = None,
) -> Certificate:
    """Find the extremes of the motion that joint_trajectory_controller plays between points.

    It plays quintics between points with velocity and acceleration, cubics between points with velocity, and otherwise
    straight lines.

    Args:
        times: `[B, P]` or `[P]`, s, increasing.
        position: `[B, P, D]` or `[P, D]`, rad.
        velocity: the same shape, rad/s.
        acceleration: the same shape, rad/s^2; only together with velocities.
        counts: number of points that count, `[B]`; by default all.

    Raises:
        NotImplementedError: a tensor of a `torch.func` transform.
        ValueError: shapes that do not fit, fewer than two points, times that do not increase, numbers not finite.

    """
    given = {"times": times, "position": position, "velocity": velocity, "acceleration": acceleration, "counts": counts}
    refuse_transformed(**given)
    if position.dim() not in (2, 3) or position.shape[-2] < 2:
        raise ValueError(f"position: expected [B, P, D] with at least 2 points, got {list(position.shape)}")
    if acceleration is not None and velocity is None:
        raise ValueError("velocity: expected a tensor with acceleration, got None")
    batch, points, dof = position.shape if position.dim() == 3 else (1, *position.shape)
    if times.shape not in ((points,), (batch, points)):
        raise ValueError(f"times: expected [{points}] or [{batch}, {points}], got {list(times.shape)}")
    count = np.full(batch, points) if counts is None else counts.detach().cpu().numpy()
    if count.shape != (batch,) or ((count < 2) | (count > points)).any():
        raise ValueError(f"counts: expected [{batch}] numbers from 2 to {points}, got {counts}")
    used = np.arange(points) < count[:, None]
    t = np.broadcast_to(_array(times), (batch, points))[..., None]
    states = []
    for name, values in list(given.items())[:4]:
        if values is None:
            continue
        if name not in ("times", "position") and values.shape != position.shape:
            raise ValueError(f"{name}: expected {list(position.shape)}, got {list(values.shape)}")
        rows = t if name == "times" else _array(values).reshape(batch, points, dof)
        if not np.isfinite(rows[used]).all():
            raise ValueError(f"{name}: expected finite numbers, got others")
        states.append(np.where(used[..., None], rows, 0))
    counted = used[:, 1:, None]
    spans = np.where(counted, np.diff(states[0], axis=1), 1)
    if (spans <= 0).any():
        raise ValueError("times: expected increasing times, got some that do not increase")
    lowest, highest = _extremes(spans, states[1:])
    low, high = np.where(counted, lowest, np.inf).min(axis=2), np.where(counted, highest, -np.inf).max(axis=2)
    return Certificate(*(torch.from_numpy(each.swapaxes(0, 1).copy()) for each in (low, high)))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _extremes(spans: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return least and greatest position to jerk of each piece, `[4, B, P - 1, D]`.

    A polynomial is monotone between the zeros of its derivative, and so is that between the zeros of its own: from the
    derivative of the jerk down, the zeros of each are enclosed between those of the next.
    """
    pieces = coefficients(spans, [state[:, :-1] for state in states], [state[:, 1:] for state in states])
    start, end = (np.full((1, *pieces[0].shape), value) for value in (0.0, 1.0))
    at, found = np.concatenate([start, end]), []
    for order in range(_JERK, -1, -1):
        low, high = at[:-1], at[1:]
        is_below = derivative(pieces, order + 1, low) < 0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_before = (derivative(pieces, order + 1, middle) < 0) == is_below
            low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
        at = np.concatenate([start, high, end])
        values = derivative(pieces, order, at) / spans**order
        found.insert(0, (values.min(axis=0), values.max(axis=0)))
    lowest, highest = zip(*found, strict=True)
    return np.stack(lowest), np.stack(highest)


def coefficients(spans: Array, starts: Sequence[Array], ends: Sequence[Array]) -> list[Array]:
    """Return coefficients of polynomials over their share of a span, from 0 to 1, by power.

    They have the given positions, and as many derivatives as are given, at the start and at the end of each span, s.
    """
    orders = range(len(starts))
    heads = [start * spans**k / factorial(k) for k, start in enumerate(starts)]
    missing = [end * spans**k - sum(perm(i, k) * heads[i] for i in orders) for k, end in enumerate(ends)]
    at_end = [[perm(len(starts) + i, k) for i in orders] for k in orders]
    solved = np.rint(2 * np.linalg.inv(at_end)) / 2
    return heads + [sum(float(weight) * missing[k] for k, weight in enumerate(row)) for row in solved]


def derivative(pieces: Sequence[Array], order: int, at: Array) -> Array:
    """Return a derivative of polynomials, by their share of the span, at places from 0 to 1."""
    value = 0.0 * at
    for power in range(len(pieces) - 1, order - 1, -1):
        value = value * at + perm(power, order) * pieces[power]
    return value
