"""How far the executor's command is from the best possible one: `python -m benchmarks.optimum [KIND ...]`.

Beside the executor is the unconstrained optimum: from each arrival of a chunk on, the least sum of squared distances
from it and of squared jerk, for several weights of jerk. It knows no limits. Returns 1 if the executor is far from it:
an error of more than 1.15 times the least and 0.1 mrad, 1.2 times the acceleration that this error takes, or a chunk
that is refused.
"""

from __future__ import annotations

import argparse
import sys
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

from .chunks import CYCLE_S, DOF, KINDS, Chunk, Figures, Kind, Meant, Stream, figures, stream_of

TICK = 10
"""Number of commands from one measurement to the next."""
BEGIN_NS = 10**12
GRID_S = 0.01
"""Length of the optimum's steps, s."""
_STEP = np.array([[1, GRID_S, GRID_S**2 / 2, GRID_S**3 / 6], [0, 1, GRID_S, GRID_S**2 / 2], [0, 0, 1, GRID_S]])
JERK_WEIGHTS = np.logspace(-11, -5, 13)
"""Weights, s^6, of squared jerk relative to squared distance."""
NEAR = 1.05
"""Largest ratio of errors at which an optimum counts as one with the same error."""
MOST_ERROR = 1.15
"""Largest ratio of the executor's error to the least error."""
BEYOND_RAD = 1e-4
"""Error, rad, that the executor may have beyond that: the least error of exact chunks is 0."""
MOST_ACCELERATION = 1.2
"""Largest ratio of the executor's acceleration to the least acceleration at that error."""


class Distance(NamedTuple):
    """Figures of one kind: of the executor, of the optimum with the least error, of the smoothest one with the error of
    the executor, and the number of refusals.
    """

    executor: Figures
    nearest: Figures
    gentlest: Figures
    refused: int

    @property
    def far(self) -> bool:
        """Whether the executor is far from the optimum."""
        most = MOST_ERROR * self.nearest.distance + BEYOND_RAD
        rough = self.executor.acceleration > MOST_ACCELERATION * self.gentlest.acceleration
        return bool(self.executor.distance > most or rough or self.refused)


def main() -> int:
    """Print the table; return 0 if no kind is far from its optimum."""
    options = options_of("benchmarks.optimum", __doc__)
    found = {name: distance(KINDS[name], options.seeds) for name in options.kinds}
    print("\n".join(table(found)))
    return int(any(each.far for each in found.values()))


def options_of(module: str, about: str, **flags: str) -> argparse.Namespace:
    """Return the options of a command about kinds of chunks: `kinds`, `seeds` as a range, and flags with their help."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="motions of each (default: %(default)s)")
    for flag, told in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=told)
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"KIND: expected {', '.join(KINDS)}, got {', '.join(sorted(unknown))}")
    options.kinds, options.seeds = options.kinds or list(KINDS), range(options.seeds)
    return options


def distance(kind: Kind, seeds: range) -> Distance:
    """Return the distance from the optimum of one kind, over seeds."""
    streams, motions = streams_of(kind, seeds)
    commands, refused = zip(*map(by_executor, streams), strict=True)
    ours, optima = figures(commands, motions), front(streams, motions)
    nearest = min((each for each, _ in optima), key=lambda each: each.distance)
    return Distance(ours, nearest, gentlest(optima, ours)[0], sum(refused))


def streams_of(kind: Kind, seeds: range) -> tuple[list[Stream], list[Meant]]:
    """Return the streams of a kind and the meant motions, by seed."""
    motions = [Meant(seed) for seed in seeds]
    return [stream_of(kind, motion, seed) for motion, seed in zip(motions, seeds, strict=True)], motions


Way = tuple[Figures, list[np.ndarray]]
"""Figures of a way to command, and its commands by seed."""


def front(streams: list[Stream], motions: list[Meant]) -> list[Way]:
    """Return the optima of all weights of jerk."""
    optima = [[by_optimum(stream, weight) for stream in streams] for weight in JERK_WEIGHTS]
    return [(figures(commands, motions), commands) for commands in optima]


def gentlest(optima: list[Way], ours: Figures) -> Way:
    """Return the optimum of least acceleration among those with at most our distance, or about the least one."""
    most = NEAR * max(ours.distance, min(each.distance for each, _ in optima))
    return min((one for one in optima if one[0].distance <= most), key=lambda one: one[0].acceleration)


def table(distances: dict[str, Distance]) -> Iterator[str]:
    """Yield the lines of a Markdown table of kinds."""
    yield "| chunks | error, mrad: ours / best | acceleration / meant: ours / least at that error | jerk / meant | |"
    yield "|---|---|---|---|---|"
    for name, (ours, nearest, gentlest, refused) in distances.items():
        cells = [
            name,
            f"{1e3 * ours.distance:.2f} / {1e3 * nearest.distance:.2f}",
            f"{ours.acceleration:.2f} / {gentlest.acceleration:.2f}",
            f"{ours.jerk:.1f} / {gentlest.jerk:.1f}",
            f"{refused} refused" if refused else "**far**" if distances[name].far else "",
        ]
        yield "| " + " | ".join(cells) + " |"


def by_executor(stream: Stream, **parameters: object) -> tuple[np.ndarray, int]:
    """Return the executor's commanded positions, `[cycles, DOF]`, and the number of chunks that it refuses."""
    limits = {f"limits__{name}": values for name, values in stream.limits.items()}
    names = [f"joint{i}" for i in range(DOF)]
    executor = Executor(NodeParameters.of(names, device="cpu", start_from="previous", **{**limits, **parameters}))
    behind, refused = round(stream.lag / CYCLE_S), 0
    commanded, rates = [stream.start], [np.zeros(DOF)]
    for now, arrived in stream.arrivals(TICK * CYCLE_S):
        now_ns, there = BEGIN_NS + round(now * 1e9), max(len(commanded) - 1 - behind, 0)
        executor.joint_state(commanded[there], rates[there], now_ns)
        executor.tick(now_ns)
        for chunk in arrived:
            stamp_ns = BEGIN_NS + round(chunk.observed * 1e9)
            try:
                executor.execute(Actions(stamp_ns, ControlSpace.POSITION, stream.dt, chunk.rows), now_ns)
            except Rejected:
                refused += 1
        for cycle in range(TICK):
            position, velocity = executor.sample(now_ns + cycle * round(CYCLE_S * 1e9))[:2]
            commanded.append(position)
            rates.append(velocity)
    return np.array(commanded[1:]), refused


def by_optimum(stream: Stream, weight: float) -> np.ndarray:
    """Return positions of the unconstrained optimum, `[cycles, DOF]`: jerks held for a step, from the newest chunk."""
    held, state, jerks = [], np.stack([stream.start, np.zeros(DOF), np.zeros(DOF)]), np.zeros((0, DOF))
    for now, arrived in stream.arrivals(GRID_S):
        if arrived:
            jerks = _jerks(stream.dt, arrived[-1], state, now, weight)
        jerk, jerks = (jerks[0], jerks[1:]) if len(jerks) else (np.zeros(DOF), jerks)
        held.append(np.vstack([state, jerk]))
        state = _after(state, jerk)
    within = CYCLE_S * np.arange(round(GRID_S / CYCLE_S))[:, None]
    return (within ** np.arange(4) / (1, 1, 2, 6) @ np.array(held)).reshape(-1, DOF)


def _jerks(dt: float, chunk: Chunk, state: np.ndarray, now: float, weight: float) -> np.ndarray:
    """Return the best jerks to the end of a chunk, `[steps, DOF]`."""
    times = chunk.times(dt)
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


def _after(state: np.ndarray, jerk: np.ndarray) -> np.ndarray:
    """Return position, velocity and acceleration, `[3, DOF]`, a step later."""
    return _STEP @ np.vstack([state, jerk])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
