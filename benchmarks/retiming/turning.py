"""Random paths that turn back, as recordings and pick and place do, and what a retimed one has to keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from traj_integrator_ros.kernels.retime import Retimed, retime

from .paths import Limits, as_limits, random_limits, random_path, sampled_ratios
from .problems import MOST

LONGEST = 1.5
"""Longest duration relative to the second order's; the jerk phases come in addition."""
_STEPS = (0.0, 1e-4, 1.5e-3)
"""To which positions are rounded, rad: none, a file's digits, a coarse encoder."""
_SAMPLES = 17
"""Samples of each piece that is played, which the certificate's exact extremes are compared with."""


@dataclass(frozen=True)
class Turning:
    """One path with limits."""

    family: str
    waypoints: np.ndarray
    limits: Limits


@dataclass(frozen=True)
class Timed:
    """Result for a path: order 3, the duration of order 2 (NaN without one), and of the jerk phases in addition."""

    turning: Turning
    motion: Retimed
    second_order: float
    phases: float

    @property
    def ratio(self) -> float:
        """Ratio of the durations of the two orders."""
        return float(self.motion.duration[0]) / self.second_order

    @property
    def failure(self) -> str:
        """The error, in words; empty if there is none."""
        motion, lasts = self.motion, float(self.motion.duration[0])
        if not np.isfinite(self.second_order):
            return ""
        if not bool(motion.ok[0]):
            return f"order 2 takes {self.second_order:.6g} s, order 3 does not: {motion.reason(0)}"
        times, states = motion.points(0)
        if not all(bool(values.isfinite().all()) for values in (times, *states, motion.row_times[0])):
            return "not finite"
        if not lasts <= LONGEST * self.second_order + self.phases:
            return f"takes {lasts:.6g} s, order 2 {self.second_order:.6g} s"
        if not bool((motion.row_times[0].diff() >= 0).all()):
            return "rows are passed out of order"
        worst = sampled_ratios(motion, 0, self.turning.limits, _SAMPLES).max()
        return "" if worst <= MOST else f"exceeds a limit: {worst:.6f}"


def time_path(turning: Turning) -> Timed:
    """Retime one path by both orders."""
    waypoints, limits = torch.tensor(turning.waypoints)[None], as_limits(turning.limits)
    quick = retime(waypoints, limits, order=2)
    of = turning.limits
    phase = float((np.maximum(of["acceleration"], of["deceleration"]) / of["jerk"]).max())
    lasts = float(quick.duration[0]) if bool(quick.ok[0]) else np.nan
    return Timed(turning, retime(waypoints, limits), lasts, 2 * phase * (1 + turns(turning.waypoints)))


def turns(way: np.ndarray) -> int:
    """How often a path turns by more than a right angle from one row to the next."""
    steps = np.diff(way, axis=0)
    steps = steps[np.abs(steps).max(axis=1) > 0]
    return int(((steps[1:] * steps[:-1]).sum(axis=1) < 0).sum())


def turning_paths(count: int, seed: int) -> Iterator[Turning]:
    """Random paths of all families, in turn."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        name = list(_FAMILIES)[index % len(_FAMILIES)]
        dof = int(rng.choice([1, 1, 2, 3, 7]))
        way = _FAMILIES[name](rng, dof) * float(rng.choice([1.0, 1.0, 0.02]))
        step = float(rng.choice(_STEPS))
        way = way if step == 0 else np.round(way / step) * step
        equal = {"velocity": 1.0, "acceleration": 3.0, "deceleration": 3.0, "jerk": 30.0}
        limits = {kind: np.full(dof, value) for kind, value in equal.items()}
        yield Turning(name, way, limits if rng.integers(2) else random_limits(rng, dof))


def _rows(rng: np.random.Generator) -> int:
    return int(rng.choice([6, 9, 16, 50, 100, 200, 400], p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.1, 0.05]))


def _sine(rng: np.random.Generator, dof: int) -> np.ndarray:
    t = np.linspace(0, rng.uniform(0.3, 3), _rows(rng))[:, None]
    begin = rng.uniform(0, 6, dof if rng.integers(2) else 1)  # of each joint, or all turn at once
    return rng.uniform(0.05, 0.6, dof) * np.sin(2 * np.pi * t + begin)


def _there_and_back(rng: np.random.Generator, dof: int) -> np.ndarray:
    way = random_path(rng, int(rng.integers(2, 8)), dof, size=0.4)
    return np.concatenate([way, way[-2::-1]])


def _recorded(rng: np.random.Generator, dof: int) -> np.ndarray:
    """There and back on a line, sampled in time, with a dwell and perhaps noise."""
    x = np.linspace(0, 2, _rows(rng))
    part = np.clip(1.2 * (1 - np.abs(x - 1)), 0, 1)
    part = part**3 * (10 - 15 * part + 6 * part**2)
    way = rng.uniform(-0.5, 0.5, dof) + part[:, None] * rng.uniform(-1, 1, dof)
    return way + rng.choice([0.0, 1e-6, 1e-4]) * rng.normal(size=way.shape)


def _walk(rng: np.random.Generator, dof: int) -> np.ndarray:
    rows = min(_rows(rng), 100)
    return random_path(rng, rows, dof, size=float(rng.choice([0.3, 0.05])))


def _short_turn(rng: np.random.Generator, dof: int) -> np.ndarray:
    """There and back with a row behind the turn, at any distance from it."""
    way = random_path(rng, int(rng.integers(2, 5)), dof, size=0.5)
    beyond = way[-1] + 10.0 ** rng.uniform(-10, -1) * rng.normal(size=dof)
    return np.concatenate([way, beyond[None], way[::-1]])


_FAMILIES = {
    "sine": _sine,
    "there and back": _there_and_back,
    "recorded": _recorded,
    "walk": _walk,
    "short turn": _short_turn,
}
