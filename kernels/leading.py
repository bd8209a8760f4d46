"""Actions with any number of leading dimensions, `[..., H, D]`, as the batch `[B, H, D]` that all else takes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .sharding import is_sharded
from .types import Trajectory


class Leading(NamedTuple):
    """Leading dimensions, whose trajectories become one batch, and one of them again."""

    shape: tuple[int, ...]

    @classmethod
    def of(cls, action: object) -> Leading | None:
        """Those of actions; None where they are a batch already, or no actions, which the validators say."""
        if not isinstance(action, Tensor) or action.layout is not torch.strided or action.is_nested:
            return None
        if action.dim() < 2 or action.dim() == 3 or is_sharded(action):
            return None
        return cls(tuple(action.shape[:-2]))

    @property
    def batch(self) -> int:
        """Number of trajectories."""
        return math.prod(self.shape)

    def action(self, action: Tensor) -> Tensor:
        """Actions as `[B, H, D]`."""
        return action.reshape(self.batch, *action.shape[-2:])

    def rows(self, rows: object) -> object:
        """Rows of start or goal, `[..., D]`, as `[B, D]`; others, such as a pool, as they are."""
        is_each = isinstance(rows, Tensor) and rows.dim() > 0 and tuple(rows.shape[:-1]) == self.shape
        return rows.reshape(self.batch, rows.shape[-1]) if is_each else rows

    def index(self, index: object) -> object:
        """What there is one of for each trajectory, `[...]`, as `[B]`; others as they are."""
        is_each = isinstance(index, (Tensor, np.ndarray)) and tuple(index.shape) == self.shape
        return index.reshape(self.batch) if is_each else index

    def dt(self, dt: object, dt_per: str) -> object:
        """Step lengths `[..., 1]` or `[..., H]`, or `[...]` with `dt_per` "trajectory", as those of the batch."""
        if not isinstance(dt, (Tensor, np.ndarray)) or dt.ndim == 0:
            return dt
        if dt.ndim > 1 and tuple(dt.shape[:-1]) == self.shape:
            return dt.reshape(self.batch, dt.shape[-1])
        return self.index(dt) if dt_per == "trajectory" else dt

    def trajectory(self, trajectory: Trajectory) -> Trajectory:
        """Outputs with the leading dimensions."""
        return Trajectory(*(output.reshape(*self.shape, *output.shape[1:]) for output in trajectory))
