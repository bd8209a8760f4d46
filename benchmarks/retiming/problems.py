"""Problems at which retimers have failed, and families of random ones, each with the requirements of a solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from traj_integrator_ros.kernels.retime import Retimed, RetimeStatus, retime

from .paths import Limits, as_limits, played_ratios, random_limits, random_path

MOST = 1 + 5e-4
"""Largest ratio to the limits, anywhere, that counts as kept."""
_TOTG_BENDS = [
    [1427.0, 368, 690, 90],
    [1427, 368, 790, 90],
    [952.5, 433, 1051, 90],
    [452.5, 533, 1051, 90],
    [452.5, 533, 951, 90],
]
_TOTG_SHORT_STEPS = [
    [1.6113056, -0.2140016, -1.9745026, 0.0, -1.3810917, 1.5293903],
    [1.6088016, -0.2179286, -1.9758629, 0.00010424, -1.3835690, 1.5279973],
    [1.5887695, -0.2493446, -1.9867451, 0.00093816, -1.4033880, 1.5168533],
    [1.1647412, -0.9143402, -2.2170946, 0.01859016, -1.8229041, 1.2809633],
]


@dataclass(frozen=True)
class Problem:
    """One path with limits; moving ends use a share of the speed that limits of acceleration allow."""

    family: str
    waypoints: np.ndarray
    limits: Limits
    start_share: float = 0.0
    end_share: float = 0.0
    order: int = 3


class Solved(NamedTuple):
    """A problem, its result, and the greatest ratios `[3]` by an evaluation of its own."""

    problem: Problem
    motion: Retimed
    ratio: np.ndarray

    @property
    def failure(self) -> str:
        """The error, in words; empty if there is none."""
        if not bool(self.motion.ok[0]):
            return self.motion.reason(0)
        values = (self.motion.times, self.motion.position, self.motion.velocity, self.motion.duration)
        if not all(bool(torch.isfinite(x).all()) for x in values):
            return "not finite"
        return "" if self.ratio.max() <= MOST else f"exceeds a limit: {self.ratio.max():.6f}"


def solve(problem: Problem) -> Solved:
    """Retime one problem."""
    waypoints, limits = torch.tensor(problem.waypoints)[None], as_limits(problem.limits)
    acceleration, deceleration = problem.limits["acceleration"], problem.limits["deceleration"]
    reversed_limits = as_limits(problem.limits | {"acceleration": deceleration, "deceleration": acceleration})
    speeds = {}
    if problem.start_share > 0:
        fastest = retime(waypoints, limits, order=2).largest_start_speed
        speeds["start_speed"] = problem.start_share * float(fastest[0])
    if problem.end_share > 0:  # in reverse, accelerations have the other sign
        fastest = retime(waypoints.flip(1), reversed_limits, order=2).largest_start_speed
        speeds["end_speed"] = problem.end_share * float(fastest[0])
    motion = retime(waypoints, limits, order=problem.order, **speeds)
    good = bool(motion.ok[0]) or int(motion.status[0]) == RetimeStatus.EXCEEDS
    return Solved(problem, motion, played_ratios(motion, 0, problem.limits) if good else np.zeros(3))


def known_problems() -> Iterator[Problem]:
    """Problems of others: toppra's suite of robustness (near-zero motions), and tests of TOTG that need no blending."""
    k = np.arange(10)[:, None]
    for rate, step, limit in ((5.1686e-4, 1.4e-7, 100.0), (1.7232e-4, 1.5e-8, 1000.0)):
        way = np.repeat(-3.859e-4 + rate * k - step * k * (k - 1), 3, axis=1)
        yield _with_equal_limits("near-zero motion", way, limit, limit)
    yield _with_equal_limits("near-zero motion", np.array([[0, 0, 0], [0, 1e-5, 0], [0.0, 0, 0]]), 100.0, 100.0)
    speed = np.array([1.3, 0.67, 0.67, 0.5])
    straight = np.array([[1424, 984.999694824219, 2126, 0], [1423, 985.000244140625, 2126, 0.0]])
    yield _with_equal_limits("TOTG", straight, speed, 0.00249)
    yield _with_equal_limits("TOTG", np.array(_TOTG_BENDS), speed, 0.002)
    yield _with_equal_limits("TOTG", np.array(_TOTG_BENDS[:2] + _TOTG_BENDS[3:]), speed, 0.002)
    speed = np.array([0.895, 0.895, 0.796, 0.92, 0.821, 1.393])
    yield _with_equal_limits(
        "TOTG", np.array(_TOTG_SHORT_STEPS), speed, np.array([0.827, 0.785, 0.609, 3.207, 1.44, 4.729])
    )


def _with_equal_limits(
    family: str, way: np.ndarray, speed: float | np.ndarray, acceleration: float | np.ndarray
) -> Problem:
    each = np.ones(way.shape[1])
    limits = {"velocity": speed * each, "acceleration": acceleration * each, "deceleration": acceleration * each}
    return Problem(family, way, limits | {"jerk": 10 * acceleration * each})


Change = Callable[[np.random.Generator, np.ndarray, Limits], tuple[np.ndarray, Limits]]


class Family(NamedTuple):
    """A kind of random problem: how a random path and its limits change, and what is special about both."""

    change: Change = lambda rng, way, limits: (way, limits)
    rows: tuple[int, int] = (3, 30)
    dof: int = 7
    start: bool = False
    end: bool = False


def _repeated(rng: np.random.Generator, way: np.ndarray, limits: Limits) -> tuple[np.ndarray, Limits]:
    return np.repeat(way, rng.integers(1, 4, len(way)), axis=0), limits


def _huge(rng: np.random.Generator, way: np.ndarray, limits: Limits) -> tuple[np.ndarray, Limits]:
    return way, {name: np.where(np.arange(len(each)) % 2, each, 1e6) for name, each in limits.items()}


def _short_step(rng: np.random.Generator, way: np.ndarray, limits: Limits) -> tuple[np.ndarray, Limits]:
    at = int(rng.integers(1, len(way)))
    return np.insert(way, at, way[at - 1] + 1e-4 * rng.normal(size=way.shape[1]), axis=0), limits


FAMILIES = {
    "random": Family(),
    "two points": Family(rows=(2, 3)),
    "many points": Family(rows=(2000, 2001)),
    "repeated rows": Family(_repeated),
    "tiny": Family(lambda rng, way, limits: (1e-7 * way, limits)),
    "huge limits": Family(_huge),
    "still joints": Family(lambda rng, way, limits: (np.where(np.arange(way.shape[1]) % 2, way, way[0]), limits)),
    "reversal": Family(lambda rng, way, limits: (np.concatenate([way, way[-2::-1]]), limits)),
    "short step": Family(_short_step),
    "moving start": Family(start=True),
    "moving ends": Family(start=True, end=True),
    "30 joints": Family(dof=30),
    "1 joint": Family(dof=1),
}


def random_problem(name: str, rng: np.random.Generator) -> Problem:
    """A problem of a family."""
    family = FAMILIES[name]
    way, limits = random_path(rng, int(rng.integers(*family.rows)), family.dof), random_limits(rng, family.dof)
    way, limits = family.change(rng, way, limits)
    start, end = (float(rng.uniform(0.05, 0.9)) if moves else 0.0 for moves in (family.start, family.end))
    return Problem(name, way, limits, start, end)
