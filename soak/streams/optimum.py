"""How far the executor's command is from the best possible one for chunks that are late, noisy and disagree.

A policy means a smooth motion and sends chunks of it, which the executor commands at 1 kHz on a simulated clock. It is
compared with the unconstrained optimum: from each arrival on, the least sum of squared distances from the newest chunk
and of squared jerk, for several weights of jerk. The optimum has no limits and, like the executor, does not know
later chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from traj_integrator_ros.governor.executor import Executor
from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.parameters.parameters import NodeParameters
from traj_integrator_ros.requests.inputs import Actions
from traj_integrator_ros.requests.rejection import Rejected

DOF, SECONDS = 7, 6.0
JUDGED_S = 1.5, 5.5
"""Begin and end, s, of the time that is judged: the robot moves, and the policy still sends."""
CYCLE_S, TICK = 1e-3, 10
"""Time between commands, s, and number of them from one measurement to the next."""
LIMITS = {"limits__velocity": 2.5, "limits__acceleration": 15.0, "limits__jerk": 500.0}
"""Limits, rad and s: at least three times what the motion needs, since the optimum has none."""
BEGIN_NS = 10**12
GRID_S = 0.01
"""Length of the optimum's steps, s."""
JERK_WEIGHTS = np.logspace(-11, -5, 13)
"""Weights, s^6, of squared jerk relative to squared distance."""
NEAR = 1.05
"""Largest ratio of errors at which an optimum counts as one with the same error."""
MOST_ERROR, MOST_ACCELERATION, NO_ERROR_RAD = 1.15, 1.2, 1e-4
"""Bounds: error over the least error, acceleration over the least at that error; an error that never counts, rad."""


class Kind(NamedTuple):
    """A kind of policy."""

    period: float
    """Time between chunks, s."""
    delay: float
    """Time from observation to arrival, s."""
    jitter: float
    """Standard deviation of the arrival, s."""
    dt: float
    """Time between rows, s."""
    horizon: int
    """Number of rows of a chunk."""
    apart: float = 0.0
    """Standard deviation, rad, of the error that grows along a chunk; half as much is added to the whole chunk."""
    noise: float = 0.0
    """Standard deviation of a row, rad."""


KINDS = {
    "exact": Kind(0.2, 0.1, 0.01, 0.02, 50),
    "quiet": Kind(0.2, 0.1, 0.01, 0.02, 50, noise=5e-4),
    "rtc": Kind(0.2, 0.1, 0.01, 0.02, 50, apart=0.01),
    "noisy": Kind(0.2, 0.1, 0.01, 0.02, 50, apart=0.01, noise=2e-3),
    "act": Kind(0.5, 0.15, 0.02, 0.02, 50, apart=0.02, noise=1e-3),
    "diffusion": Kind(0.8, 0.3, 0.03, 0.1, 16, apart=0.02, noise=3e-3),
    "mpc": Kind(1 / 30, 0.02, 3e-3, 1 / 30, 20, apart=4e-3, noise=1e-3),
}
"""Kinds of policies: late chunks that are exact, noisy, disagree, or both; those of today's policies; and others."""


class Chunk(NamedTuple):
    """Rows `[horizon, DOF]` from one step after the time at which they were observed, s, and when they arrive, s."""

    observed: float
    arrives: float
    rows: np.ndarray


class Quality(NamedTuple):
    """Mean squares of the distance from the meant motion, rad^2, and of acceleration and jerk relative to it."""

    error: float
    acceleration: float
    jerk: float

    @property
    def roots(self) -> np.ndarray:
        """Root mean squares."""
        return np.sqrt(np.array(self))


class Distance(NamedTuple):
    """Figures of one kind: of the executor, of the optimum with the least error, of the smoothest one with the error of
    the executor, and the number of refusals.
    """

    executor: Quality
    nearest: Quality
    gentlest: Quality
    refused: int

    @property
    def far(self) -> bool:
        """Whether the executor is far from the optimum."""
        error, acceleration, _ = self.executor.roots
        most = max(MOST_ERROR * self.nearest.roots[0], NO_ERROR_RAD)
        return bool(error > most or acceleration > MOST_ACCELERATION * self.gentlest.roots[1] or self.refused)


def distance(kind: Kind, seeds: range) -> Distance:
    """The distance from the optimum of one kind, over seeds."""
    executor, refused, optima = [], 0, []
    for seed in seeds:
        motion = Meant(seed)
        chunks = list(chunks_of(kind, motion, seed))
        commanded, missed = by_executor(kind, chunks, motion)
        refused += missed
        executor.append(quality(commanded, motion))
        optima.append([quality(by_optimum(kind, chunks, motion, weight), motion) for weight in JERK_WEIGHTS])
    ours = Quality(*np.mean(executor, axis=0))
    front = [Quality(*each) for each in np.mean(optima, axis=0)]
    nearest = min(front, key=lambda each: each.error)
    most = NEAR**2 * max(ours.error, nearest.error)
    gentlest = min((each for each in front if each.error <= most), key=lambda each: each.acceleration)
    return Distance(ours, nearest, gentlest, refused)


def table(distances: dict[str, Distance]) -> Iterator[str]:
    """A Markdown table of kinds."""
    yield "| chunks | error, mrad: ours / best | acceleration / meant: ours / least at that error | jerk / meant | |"
    yield "|---|---|---|---|---|"
    for name, found in distances.items():
        (error, acceleration, jerk), (_, least, least_jerk) = found.executor.roots, found.gentlest.roots
        cells = [
            name,
            f"{1e3 * error:.2f} / {1e3 * found.nearest.roots[0]:.2f}",
            f"{acceleration:.2f} / {least:.2f}",
            f"{jerk:.1f} / {least_jerk:.1f}",
            f"{found.refused} refused" if found.refused else "**far**" if found.far else "",
        ]
        yield "| " + " | ".join(cells) + " |"


class Meant:
    """The motion that a policy means, a sum of sines."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._rates, self._phases = random.uniform(0.6, 2.5, (4, DOF)), random.uniform(0, 2 * np.pi, (4, DOF))
        self._sizes = random.uniform(0.05, 0.25, (4, DOF))

    def at(self, times: np.ndarray | float, order: int = 0) -> np.ndarray:
        """Positions, or a derivative, at times, s: `[..., DOF]`."""
        angles = self._rates * np.asarray(times, float)[..., None, None] + self._phases
        return (self._sizes * self._rates**order * np.sin(angles + order * np.pi / 2)).sum(axis=-2)


def chunks_of(kind: Kind, motion: Meant, seed: int) -> Iterator[Chunk]:
    """The chunks of a policy in the order of their arrival."""
    random, share = np.random.default_rng([seed, 1]), np.linspace(0, 1, kind.horizon)[:, None]
    chunks = []
    for observed in np.arange(0.0, SECONDS, kind.period):
        rows = motion.at(observed + kind.dt * np.arange(1, kind.horizon + 1))
        rows = rows + kind.apart * (random.normal(size=DOF) / 2 + share * random.normal(size=DOF))
        rows += kind.noise * random.normal(size=rows.shape)
        chunks.append(Chunk(observed, observed + kind.delay + abs(random.normal()) * kind.jitter, rows))
    yield from sorted(chunks, key=lambda chunk: chunk.arrives)


def by_executor(kind: Kind, chunks: list[Chunk], motion: Meant, **parameters: float) -> tuple[np.ndarray, int]:
    """The executor's commanded positions, `[cycles, DOF]`, and how many chunks it refuses."""
    limits = {name: [limit] * DOF for name, limit in LIMITS.items()}
    names = [f"joint{i}" for i in range(DOF)]
    executor = Executor(NodeParameters.of(names, device="cpu", start_from="previous", **limits, **parameters))
    position, velocity, refused = motion.at(0.0), np.zeros(DOF), 0
    commanded, waiting = np.empty((round(SECONDS / CYCLE_S), DOF)), list(reversed(chunks))
    for cycle in range(len(commanded)):
        now_ns = BEGIN_NS + cycle * round(CYCLE_S * 1e9)
        if cycle % TICK == 0:
            executor.joint_state(position, velocity, now_ns)
            executor.tick(now_ns)
            while waiting and waiting[-1].arrives <= cycle * CYCLE_S:
                chunk = waiting.pop()
                stamp_ns = BEGIN_NS + round(chunk.observed * 1e9)
                try:
                    executor.execute(Actions(stamp_ns, ControlSpace.POSITION, kind.dt, chunk.rows), now_ns)
                except Rejected:
                    refused += 1
        position, velocity = executor.sample(now_ns)[:2]
        commanded[cycle] = position
    return commanded, refused


def by_optimum(kind: Kind, chunks: list[Chunk], motion: Meant, weight: float) -> np.ndarray:
    """The positions of the unconstrained optimum, `[cycles, DOF]`: jerks held for a step, from the newest chunk."""
    each, steps = round(GRID_S / CYCLE_S), round(SECONDS / GRID_S)
    commanded, waiting = np.empty((steps * each, DOF)), list(reversed(chunks))
    state, jerks = np.stack([motion.at(0.0), np.zeros(DOF), np.zeros(DOF)]), np.zeros((0, DOF))
    within = (CYCLE_S * np.arange(1, each + 1))[:, None]
    for step in range(steps):
        now, newest = step * GRID_S, None
        while waiting and waiting[-1].arrives <= now:
            newest = waiting.pop()
        if newest is not None:
            jerks = _jerks(kind, newest, state, now, weight)
        jerk, jerks = (jerks[0], jerks[1:]) if len(jerks) else (np.zeros(DOF), jerks)
        p, v, a = state
        commanded[step * each : (step + 1) * each] = p + within * (v + within * (a / 2 + within * jerk / 6))
        state = _after(state, jerk, GRID_S)
    return commanded


def _jerks(kind: Kind, chunk: Chunk, state: np.ndarray, now: float, weight: float) -> np.ndarray:
    """The best jerks to the end of a chunk, `[steps, DOF]`."""
    times = chunk.observed + kind.dt * np.arange(1, kind.horizon + 1)
    ahead = GRID_S * np.arange(1, int((times[-1] - now) / GRID_S + 1e-6) + 1)
    meant = CubicSpline(times, chunk.rows)(np.maximum(now + ahead, times[0]))
    free = state[0] + ahead[:, None] * (state[1] + ahead[:, None] * state[2] / 2)
    return _gain(len(ahead), weight) @ (meant - free)


@lru_cache(maxsize=4096)
def _gain(steps: int, weight: float) -> np.ndarray:
    """Return the matrix that maps positions to the jerks of the least squares, `[steps, steps]`."""
    since = GRID_S * np.maximum(np.arange(1, steps + 1)[:, None] - np.arange(steps), 0)
    response = (since**3 - np.maximum(since - GRID_S, 0) ** 3) / 6
    return np.linalg.solve(response.T @ response + weight * np.eye(steps), response.T)


def _after(state: np.ndarray, jerk: np.ndarray, h: float) -> np.ndarray:
    p, v, a = state
    return np.stack([p + h * (v + h * (a / 2 + h * jerk / 6)), v + h * (a + h * jerk / 2), a + h * jerk])


def quality(commanded: np.ndarray, motion: Meant) -> Quality:
    """The figures of commanded positions."""
    judged = slice(*(round(time / CYCLE_S) for time in JUDGED_S))
    times = CYCLE_S * np.arange(len(commanded))[judged]
    apart = np.mean((commanded[judged] - motion.at(times)) ** 2)
    ratios = []
    for order in (2, 3):
        differences = np.diff(commanded, order, axis=0)[judged] / CYCLE_S**order
        ratios.append(np.mean(differences**2) / np.mean(motion.at(times, order) ** 2))
    return Quality(float(apart), *map(float, ratios))
