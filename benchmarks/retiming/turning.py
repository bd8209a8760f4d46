"""Random paths that turn back, like recordings and pick and place, and the requirements of a retimed one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.interpolate import CubicSpline

from traj_integrator_ros.kernels.retime import Retimed, retime

from .paths import as_limits, played_ratios, random_limits, random_path
from .problems import Problem

LONGEST = 1.5
"""Longest duration relative to what order 2 and the bends take; the jerk phases come in addition."""
MOST = 1 + 4e-5
"""Largest ratio to the limits: 1 + 1e-5 by design; rounding the shortest piece, 5e-5 s, to ns adds 3e-5 of jerk."""
_STEPS = (0.0, 1e-4, 1.5e-3)
"""Steps to which positions are rounded, rad: none, a file's digits, a coarse encoder."""
_SAME_ROW = 1e-9
"""Steps, relative to the longest one, up to which a row counts as repeating the previous one."""


@dataclass(frozen=True)
class Timed:
    """Result for a path: order 3, and the durations it is compared with; NaN if order 2 has no motion."""

    problem: Problem
    motion: Retimed
    second_order: float
    """Duration of order 2, s."""
    bent: float
    """Duration of order 2, s, if each piece between rows is at most as fast as its bend allows under the jerk limit."""
    phases: float
    """Time of the jerk phases at the rests and the turns, s."""

    @property
    def ratio(self) -> float:
        """Ratio of the duration to what order 2 and the bends ask for."""
        return float(self.motion.duration[0]) / self.bent

    @property
    def failure(self) -> str:
        """The error, in words; empty if there is none."""
        motion, lasts = self.motion, float(self.motion.duration[0])
        if not np.isfinite(self.second_order):
            return ""
        if not bool(motion.ok[0]):
            return f"order 2 takes {self.second_order:.6g} s, order 3 does not: {motion.reason(0)}"
        if self.bent == 0:
            return ""  # all rows are equal
        times, states = motion.points(0)
        if not all(bool(values.isfinite().all()) for values in (times, *states, motion.row_times[0])):
            return "not finite"
        if not lasts <= LONGEST * self.bent + self.phases:
            return f"takes {lasts:.6g} s, order 2 {self.second_order:.6g} s, with bends {self.bent:.6g} s"
        if not bool((motion.row_times[0].diff() >= 0).all()):
            return "rows are passed out of order"
        worst = float(played_ratios(motion, 0, self.problem.limits).max())
        return "" if worst <= MOST else f"exceeds a limit: {worst:.6f}"


def time_path(problem: Problem) -> Timed:
    """Retime one path by both orders."""
    of = problem.limits
    waypoints, limits = torch.tensor(problem.waypoints)[None], as_limits(of)
    quick = retime(waypoints, limits, order=2)
    phase = float((np.maximum(of["acceleration"], of["deceleration"]) / of["jerk"]).max())
    lasts = float(quick.duration[0]) if bool(quick.ok[0]) else np.nan
    passed = quick.row_times[0].numpy()
    bent = lasts if lasts == 0 else float(np.maximum(np.diff(passed), _bends(problem)).sum())
    return Timed(problem, retime(waypoints, limits), lasts, bent, 2 * phase * (1 + turns(problem.waypoints)))


def _bends(problem: Problem) -> np.ndarray:
    """Time of each segment at the constant pace at which its third derivative uses the limit of jerk, s."""
    way, taken = problem.waypoints, np.zeros(len(problem.waypoints) - 1)
    lengths = np.linalg.norm(np.diff(way, axis=0), axis=1)
    apart = np.append(True, lengths > _SAME_ROW * lengths.max())
    if apart.sum() > 2:
        knots = np.append(0, lengths[apart[1:]].cumsum())
        third = 6 * np.abs(CubicSpline(knots, way[apart], bc_type="natural").c[0]) / problem.limits["jerk"]
        taken[apart[1:]] = np.diff(knots) * np.cbrt(third.max(axis=1))
    return taken


def turns(way: np.ndarray) -> int:
    """Number of turns of a path by more than a right angle from one row to the next."""
    steps = np.diff(way, axis=0)
    steps = steps[np.abs(steps).max(axis=1) > 0]
    return int(((steps[1:] * steps[:-1]).sum(axis=1) < 0).sum())


def turning_paths(family: str, count: int, seed: int) -> Iterator[Problem]:
    """Random paths of a family."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        dof = int(rng.choice([1, 1, 2, 3, 4, 5, 6, 7]))
        way = FAMILIES[family](rng, dof) * float(rng.choice([1.0, 1.0, 0.02]))
        step = float(rng.choice(_STEPS))
        way = way if step == 0 else np.round(way / step) * step
        equal = {"velocity": 1.0, "acceleration": 3.0, "deceleration": 3.0, "jerk": 30.0}
        limits = {kind: np.full(dof, value) for kind, value in equal.items()}
        yield Problem(family, way, limits if rng.integers(2) else random_limits(rng, dof))


def _rows(rng: np.random.Generator) -> int:
    return int(rng.choice([6, 9, 16, 50, 100, 200, 400], p=[0.3, 0.3, 0.25, 0.11, 0.025, 0.01, 0.005]))


def _sine(rng: np.random.Generator, dof: int) -> np.ndarray:
    t = np.linspace(0, rng.uniform(0.3, 3), _rows(rng))[:, None]
    begin = rng.uniform(0, 6, dof if rng.integers(2) else 1)  # for each joint, or all turn at once
    return rng.uniform(0.05, 0.6, dof) * np.sin(2 * np.pi * t + begin)


def _there_and_back(rng: np.random.Generator, dof: int) -> np.ndarray:
    way = random_path(rng, int(rng.integers(2, 8)), dof, size=0.4)
    return np.concatenate([way, way[-2::-1]])


def _recorded(rng: np.random.Generator, dof: int) -> np.ndarray:
    """There and back on a line, sampled in time, with a dwell and optional noise."""
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


FAMILIES = {
    "sine": _sine,
    "there and back": _there_and_back,
    "recorded": _recorded,
    "walk": _walk,
    "short turn": _short_turn,
}
