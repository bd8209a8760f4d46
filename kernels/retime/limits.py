"""Limits of a motion, as numbers or tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Limit = float | Tensor | None
NO_LIMIT = 1e12
"""Smallest limit, rad/s, rad/s^2 or rad/s^3, that counts as none: beside larger ones, a motion would lose all digits.
"""


@dataclass(frozen=True)
class MotionLimits:
    """Limits of joints: numbers, tensors `[D]`, or `[B, D]` for each trajectory; None, or 1e12 and more, for no limit.

    Units: rad/s, rad/s^2, rad/s^3 (m for prismatic joints). All are greater than 0; tensors may require gradients.
    """

    velocity: Limit = None
    acceleration: Limit = None
    deceleration: Limit = None
    """Largest acceleration towards lower positions (a number greater than 0); None: the same as `acceleration`."""
    jerk: Limit = None

    def rows(self, batch: int, dof: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return limits of velocity, lowest (negative) and highest acceleration, and jerk, float64 `[1 or B, D]`.

        Raises:
            TypeError: a limit that is no number or real tensor.
            ValueError: a shape that does not fit, or a value that is not greater than 0.

        """
        lowest = self.acceleration if self.deceleration is None else self.deceleration
        rows = {
            "velocity": _row("velocity", self.velocity, batch, dof),
            "deceleration": _row("deceleration", lowest, batch, dof),
            "acceleration": _row("acceleration", self.acceleration, batch, dof),
            "jerk": _row("jerk", self.jerk, batch, dof),
        }
        count = max(row.shape[0] for row in rows.values())
        velocity, lowest, highest, jerk = (row.expand(count, dof) for row in rows.values())
        return velocity, -lowest, highest, jerk


def _row(name: str, limit: Limit, batch: int, dof: int) -> Tensor:
    if limit is None:
        return torch.full((1, dof), torch.inf, dtype=torch.float64, device="cpu")
    if isinstance(limit, bool) or not isinstance(limit, (int, float, Tensor)):
        raise TypeError(f"{name}: expected a number, a tensor or None, got {type(limit).__name__}")
    row = torch.as_tensor(limit, dtype=torch.float64, device="cpu")
    if row.dim() < 2:
        row = row.reshape(1, -1)
    if row.dim() != 2 or row.shape[0] not in (1, batch) or row.shape[1] not in (1, dof):
        raise ValueError(f"{name}: expected a number, [{dof}] or [{batch}, {dof}], got {list(row.shape)}")
    if not bool((row > 0).all()):
        raise ValueError(f"{name}: expected limits greater than 0, got {float(row.detach().min()):g}")
    return torch.where(row < NO_LIMIT, row, torch.inf).expand(-1, dof)
