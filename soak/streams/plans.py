"""Motions that policies mean, jerk-limited by ruckig or at constant velocity, and what their rows demand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import ruckig
from scipy.interpolate import CubicSpline


class Bounds(NamedTuple):
    """Largest velocity, acceleration and jerk `[D]` each."""

    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray

    def times(self, *factors: float) -> Bounds:
        """The bounds, each multiplied by a factor."""
        return Bounds(*(part * factor for part, factor in zip(self, factors, strict=True)))

    def at_least(self, other: Bounds) -> Bounds:
        """The larger of both bounds."""
        return Bounds(*(np.maximum(*both) for both in zip(self, other, strict=True)))


class Way:
    """Motion from a state to a target, time-optimal for each joint within bounds; then joints rest, or go on.

    It begins at a time, s, in a state `[3, D]`, and passes `through` its target `[D]` at a velocity; None: it rests.
    """

    def __init__(
        self, begin: float, state: np.ndarray, target: np.ndarray, bounds: Bounds, through: np.ndarray | None = None
    ) -> None:
        inputs, dof = _inputs(np.where(np.abs(state) < 1e-9, 0.0, state), bounds), len(target)
        inputs.target_position = np.asarray(target, float).tolist()
        inputs.target_velocity = [0.0] * dof if through is None else np.asarray(through, float).tolist()
        self._trajectory = ruckig.Trajectory(dof)
        for _ in range(3):
            try:
                ruckig.Ruckig(dof).calculate(inputs, self._trajectory)
                break
            except ruckig.RuckigError:  # joints that need not move
                inputs.target_position = [place + 1e-7 for place in inputs.target_position]
        else:
            raise ValueError(f"no motion from {state.tolist()} to {np.asarray(target).tolist()}")
        self.begin, self.duration = begin, self._trajectory.duration

    @property
    def end(self) -> float:
        """Time at which the target is reached, s."""
        return self.begin + self.duration

    def state(self, time: float) -> np.ndarray:
        """Position, velocity and acceleration `[3, D]` at a time."""
        return self.states(np.array([time]))[:, 0]

    def states(self, times: np.ndarray) -> np.ndarray:
        """States at some times `[3, N, D]`."""
        at = self._trajectory.at_time
        return np.array([at(t) for t in np.maximum(times - self.begin, 0.0).tolist()]).transpose(1, 0, 2)


class Course:
    """Several ways, one after the other; the robot rests before the first, and goes on after the last."""

    def __init__(self, ways: list[Way]) -> None:
        self.ways = ways

    @property
    def begin(self) -> float:
        """Time at which the first way begins, s."""
        return self.ways[0].begin

    @property
    def end(self) -> float:
        """Time at which the last target is reached, s."""
        return self.ways[-1].end

    def states(self, times: np.ndarray) -> np.ndarray:
        """Position, velocity and acceleration `[3, N, D]` at increasing times."""
        which = np.clip(np.searchsorted([way.begin for way in self.ways], times, side="right") - 1, 0, None)
        parts = [self.ways[k].states(times[which == k]) for k in np.unique(which)]
        return np.concatenate(parts, axis=1)


class Ramp:
    """Constant velocity `[D]` from a time, s, and a position `[D]` on: for a robot at rest, a step of velocity."""

    def __init__(self, begin: float, position: np.ndarray, velocity: np.ndarray) -> None:
        self.begin, self.position, self.velocity = begin, position, velocity

    def states(self, times: np.ndarray) -> np.ndarray:
        """Position, velocity and acceleration `[3, N, D]`."""
        elapsed = np.maximum(times - self.begin, 0.0)[:, None]
        position = self.position + elapsed * self.velocity
        return np.array([position, np.broadcast_to(self.velocity, position.shape), np.zeros_like(position)])


def spline_through(dt: float, rows: np.ndarray, first: np.ndarray, last: np.ndarray) -> CubicSpline:
    """The C2 cubic spline through evenly spaced rows `[N, D]`, N >= 2, from one velocity `[D]` to another."""
    return CubicSpline(dt * np.arange(len(rows)), rows, bc_type=((1, first), (1, last)))


def spline_peaks(spline: CubicSpline) -> Bounds:
    """Largest velocity, acceleration and jerk of a cubic spline."""
    half_a, v = spline.c[1:3]
    ends = spline.x[[-1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = np.nan_to_num(-half_a / (3 * spline.c[0]))
    within = (turns > 0) & (turns < np.diff(spline.x)[:, None])
    fastest = [v, spline(ends, 1), np.where(within, v + half_a * turns, 0.0)]
    jerk = np.abs(6 * spline.c[0]).max(axis=0)
    return Bounds(np.abs(np.vstack(fastest)).max(axis=0), np.abs(spline(spline.x, 2)).max(axis=0), jerk)


def sampled(spline: CubicSpline, begin: float = 0.0, end: float = np.inf) -> np.ndarray:
    """Return 8 positions of a spline for each step, from one time to another, `[T, D]`; after its end it rests."""
    end, dt = min(end, spline.x[-1]), spline.x[1]
    times = np.linspace(begin, max(begin, end), 1 + max(1, round((end - begin) / dt * 8)))
    return spline(np.clip(times, 0.0, spline.x[-1]))


def _inputs(state: np.ndarray, bounds: Bounds) -> ruckig.InputParameter:
    inputs = ruckig.InputParameter(state.shape[1])
    inputs.current_position, inputs.current_velocity, inputs.current_acceleration = (row.tolist() for row in state)
    inputs.max_velocity, inputs.max_acceleration, inputs.max_jerk = (part.tolist() for part in bounds)
    return inputs
