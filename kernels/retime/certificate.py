"""Exact extremes of a controller's interpolation between points."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .limits import MotionLimits
from .native import native, refuse_transformed

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
"""The quantities, by order of derivative."""


@dataclass(frozen=True)
class Certificate:
    """Least and greatest values that the joints reach anywhere, not only at the points; float64.

    Jerk is that within segments: a jump of the acceleration between two segments is not counted.
    """

    lowest: Tensor
    """Least position, velocity, acceleration and jerk, `[B, 4, D]`."""
    highest: Tensor
    lowest_at: Tensor
    """Index of the point before each of these extremes, `[B, 4, D]`."""
    highest_at: Tensor

    def ratios(self, limits: MotionLimits) -> Tensor:
        """Return the greatest velocity, acceleration and jerk relative to limits, `[B, 3, D]`: at most 1 if kept."""
        batch, _, dof = self.lowest.shape
        velocity, least, most, jerk = limits.rows(batch, dof)
        low, high = self.lowest, self.highest
        return torch.stack(
            [
                torch.maximum(high[:, 1], -low[:, 1]) / velocity,
                torch.maximum(high[:, 2] / most, low[:, 2] / least),
                torch.maximum(high[:, 3], -low[:, 3]) / jerk,
            ],
            1,
        )


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
        BackendUnavailable: the C++ extension is not built.

    """
    refuse_transformed(times=times, position=position, velocity=velocity, acceleration=acceleration, counts=counts)
    single = position.dim() == 2
    given = [None if x is None else (x[None] if single else x) for x in (position, velocity, acceleration)]
    p, v, a = (None if x is None else x.detach().to("cpu", torch.float64).contiguous() for x in given)
    if p.dim() != 3 or p.shape[1] < 2:
        raise ValueError(f"position: expected [B, P, D] with at least 2 points, got {list(position.shape)}")
    if a is not None and v is None:
        raise ValueError("velocity: expected a tensor with acceleration, got None")
    for name, x in (("velocity", v), ("acceleration", a)):
        if x is not None and x.shape != p.shape:
            raise ValueError(f"{name}: expected {list(p.shape)}, got {list(x.shape)}")
    batch, points, dof = p.shape
    t = times.detach().to("cpu", torch.float64)
    if t.shape not in ((points,), (batch, points)):
        raise ValueError(f"times: expected [{points}] or [{batch}, {points}], got {list(times.shape)}")
    t = t.expand(batch, points).contiguous()
    count = torch.full((batch,), points, device="cpu") if counts is None else counts.to("cpu", torch.int64).contiguous()
    if count.shape != (batch,) or bool(((count < 2) | (count > points)).any()):
        raise ValueError(f"counts: expected [{batch}] numbers from 2 to {points}, got {counts}")
    used = torch.arange(points, device="cpu") < count[:, None]
    if bool((t.diff(dim=1) <= 0)[used[:, 1:]].any()):
        raise ValueError("times: expected increasing times, got some that do not increase")
    for name, x in (("times", t[..., None]), ("position", p), ("velocity", v), ("acceleration", a)):
        if x is not None and not bool(torch.isfinite(x[used]).all()):
            raise ValueError(f"{name}: expected finite numbers, got others")
    result = torch.empty(batch, dof, 2, 4, dtype=torch.float64, device="cpu")
    places = torch.zeros(batch, dof, 2, 4, dtype=torch.int64, device="cpu")
    arrays = (None if x is None else x.numpy() for x in (t, p, v, a, count, result, places))
    native().extremes(*arrays, torch.get_num_threads())
    (lowest, highest), (lowest_at, highest_at) = (each.permute(2, 0, 3, 1) for each in (result, places))
    return Certificate(lowest, highest, lowest_at, highest_at)
