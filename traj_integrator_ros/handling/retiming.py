"""Motions whose times follow from limits: the fastest along a path, and plans slowed where they exceed them. No ROS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..execution.motion import Motion, resting
from ..execution.points import Points, motion_of_points
from ..kernels.retime import MotionLimits, Retimed, retime
from .rejection import Rejected, RejectionReason

_MOMENT_S = 1e-3
_BELOW = 1 - 1e-7
"""Of limits, which are used: equality is none after rounding."""


def fastest(rows: np.ndarray, limits: np.ndarray, joint_names: Sequence[str]) -> Motion:
    """The fastest motion along a path, from rest to rest.

    Args:
        rows: waypoints, rad, `[N, dof]`.
        limits: velocity, acceleration and jerk, `[3, dof]`.
        joint_names: for errors.

    Raises:
        Rejected: limits_violated, if no motion within limits is found.

    """
    if (rows == rows[0]).all():
        return resting(rows[-1], _MOMENT_S)
    found = retime(torch.from_numpy(rows[None]), _tensors(limits))
    reason = found.reason(0, joint_names)
    if reason:
        raise Rejected(
            RejectionReason.LIMITS, f"points: expected a path that can be passed within limits, but {reason}"
        )
    return motion_of(found, 0)


def motion_of(found: Retimed, index: int, order: int = 3) -> Motion:
    """The motion of one trajectory of at least two points, as a controller plays it."""
    count = int(found.count[index])
    states = (found.position, found.velocity, found.acceleration if order == 3 else None)
    p, v, a = (None if x is None else x[index, :count].numpy() for x in states)
    time_ns = np.rint(found.times[index, :count].numpy() * 1e9).astype(np.int64)
    return motion_of_points(Points(time_ns, p, v, a))


def limits_lacking(joint_names: Sequence[str], limits: np.ndarray | None) -> str:
    """Joints without a limit, in words; empty if there are none."""
    limited = np.zeros(len(joint_names), bool) if limits is None else np.isfinite(limits)
    return ", ".join(name for name, known in zip(joint_names, limited, strict=True) if not known)


def _tensors(limits: np.ndarray) -> MotionLimits:
    velocity, acceleration, jerk = torch.from_numpy(limits * _BELOW)
    return MotionLimits(velocity=velocity, acceleration=acceleration, jerk=jerk)
