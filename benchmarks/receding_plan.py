"""What a planner sends to a robot that moves: the next steps of one motion, again and again, each time from now on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SWING_RAD, _PERIOD_S = 0.05, 4.0
_SPREAD_RAD = 0.1
"""How far other candidates end from the motion, one sigma."""


@dataclass(frozen=True)
class RecedingPlan:
    """A motion that swings to one side of a position, and candidates that leave it smoothly: row 0 is the motion."""

    position: np.ndarray
    """rad, `[D]`."""
    batch: int
    horizon: int
    dt: float
    """s."""

    def at(self, time_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions `[B, H, D]` of the steps after a time, and the start state `[3, D]` then: rad, rad/s, rad/s^2."""
        rate = 2 * np.pi / _PERIOD_S
        phase = rate * (time_s % _PERIOD_S + self.dt * np.arange(self.horizon + 1))
        dof = len(self.position)
        rows = self.position + _SWING_RAD * (1 - np.cos(phase))[:, None] * np.ones(dof)
        motion = _SWING_RAD * np.array([rate * np.sin(phase[0]), rate**2 * np.cos(phase[0])])
        start = np.stack([rows[0], *(value * np.ones(dof) for value in motion)])
        goals = _SPREAD_RAD * np.random.default_rng(self.batch).standard_normal((self.batch, 1, dof))
        goals[0] = 0.0
        share = (np.arange(1, self.horizon + 1) / self.horizon)[:, None] ** 4
        return (rows[1:] + goals * share).astype(np.float32), start.astype(np.float32)
