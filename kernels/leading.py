"""Actions with any number of leading dimensions, `[..., H, D]`, as the batch `[B, H, D]` that all else takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .types import Trajectory


class Leading(NamedTuple):
    """Leading dimensions of actions: converts arguments to one batch, and outputs back to these dimensions."""

    shape: tuple[int, ...]

    @classmethod
    def of(cls, action: object, rows: Sequence[object] = ()) -> Leading | None:
        """Return the leading dimensions; None if the actions are a batch already, or are wrong, which validators
        report.

        A batch also counts as one with leading dimensions if a row of start or goal is `[D]`, which then gets a
        dimension.
        """
        if not isinstance(action, Tensor) or action.layout is not torch.strided or action.is_nested:
            return None
        if action.dim() < 2:
            return None
        if action.dim() == 3 and not any(isinstance(row, Tensor) and row.dim() == 1 for row in rows):
            return None
        return cls(tuple(action.shape[:-2]))

    @property
    def batch(self) -> int:
        """Number of trajectories."""
        return math.prod(self.shape)

    def action(self, action: Tensor) -> Tensor:
        """Return actions as `[B, H, D]`."""
        return action.reshape(self.batch, *action.shape[-2:])

    def rows(self, rows: object, index: object = None) -> object:
        """Return rows of start or goal, `[..., D]`, as `[B, D]`; others, such as a pool with `index`, are unchanged."""
        if not isinstance(rows, Tensor) or rows.dim() == 0:
            return rows
        is_pool = index is not None and rows.dim() > 1 and tuple(rows.shape[:-1]) != self.shape
        return rows if is_pool else self._each(rows, 1)

    def index(self, index: object) -> object:
        """Return values of each trajectory, `[...]`, as `[B]`; others are unchanged."""
        is_each = isinstance(index, (Tensor, np.ndarray)) and tuple(index.shape) == self.shape
        return index.reshape(self.batch) if is_each else index

    def dt(self, dt: object, dt_per: str) -> object:
        """Return step lengths of the batch for `[..., 1]`, `[..., H]`, or `[...]` with `dt_per` "trajectory"."""
        if not isinstance(dt, (Tensor, np.ndarray)) or dt.ndim == 0:
            return dt
        if dt_per == "trajectory" and dt.ndim <= len(self.shape):
            return self._each(dt, 0)
        return self._each(dt, 1) if dt.ndim > 1 else dt

    def trajectory(self, trajectory: Trajectory) -> Trajectory:
        """Return outputs with the leading dimensions."""
        return Trajectory(*(output.reshape(*self.shape, *output.shape[1:]) for output in trajectory))

    def _each(self, values: Tensor | np.ndarray, own: int) -> Tensor | np.ndarray:
        """Broadcast values to all trajectories, which get one dimension, before the last `own` dimensions of the
        values.

        Values that do not broadcast are returned as they are; the same values for all trajectories as `[1, ...]`.
        """
        leading, rest = tuple(values.shape[: values.ndim - own]), tuple(values.shape[values.ndim - own :])
        pairs = zip(reversed(leading), reversed(self.shape), strict=False)
        if len(leading) > len(self.shape) or any(size not in (1, whole) for size, whole in pairs):
            return values
        if math.prod(leading) == 1:
            return values.reshape(1, *rest)
        shape = (*self.shape, *rest)
        spread = values.expand(shape) if isinstance(values, Tensor) else np.broadcast_to(values, shape)
        return spread.reshape(self.batch, *rest)
