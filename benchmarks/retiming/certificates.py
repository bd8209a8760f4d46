"""The certificate on random pieces: compared with samples, whose extremes it must not undercut."""

from __future__ import annotations

import numpy as np
import torch

from traj_integrator_ros.kernels.retime import certify

from .paths import between

_EACH = 2000
_DENSE_HZ, _FEWEST = 100_000, 20_000
ROUNDING = 1e-9
"""Of the largest value that a polynomial has on its piece."""


def random_pieces(rng: np.random.Generator, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Times `[count, 2]` and one to three states `[count, 2, 1]` each, of sizes over six decades."""
    times = rng.uniform(1e-3, 1, (count, 1)) * [0.0, 1.0]
    kinds = int(rng.integers(1, 4))
    return times, [rng.normal(size=(count, 2, 1)) * 10.0 ** rng.uniform(-3, 3, (count, 1, 1)) for _ in range(kinds)]


def false_accepts(count: int, seed: int, samples: int = 129) -> int:
    """How many of `count` random pieces have a sample beyond what the certificate says."""
    rng, found = np.random.default_rng(seed), 0
    for first in range(0, count, _EACH):
        times, states = random_pieces(rng, min(_EACH, count - first))
        told = certify(torch.tensor(times), *(torch.tensor(state) for state in states))
        values = _between(times, states, samples)
        size = ROUNDING * np.abs(values).max(axis=2) + 1e-300
        high, low = (x[:, :, 0].numpy().T for x in (told.highest, told.lowest))
        found += int(((values.max(axis=2) > high + size) | (values.min(axis=2) < low - size)).any(axis=0).sum())
    return found


def largest_difference(count: int, seed: int) -> float:
    """The most by which extremes of `count` random pieces differ from samples at 100 kHz, relative to their size.

    A sample next to a turn misses it; its neighbours tell by how much.
    """
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(count):
        times, states = random_pieces(rng, 1)
        told = certify(torch.tensor(times), *(torch.tensor(state) for state in states))
        samples = max(_FEWEST, int(np.ceil(times[0, 1] * _DENSE_HZ))) + 1
        for order, row in enumerate(_between(times, states, samples)[:, 0]):
            size = np.abs(row).max() + 1e-300
            for sign, said in ((1, told.highest), (-1, -told.lowest)):
                worst = max(worst, abs(_peak(sign * row) - float(said[0, order, 0])) / size)
    return worst


def _between(times: np.ndarray, states: list[np.ndarray], samples: int) -> np.ndarray:
    """`[4, pieces, samples]`."""
    return between(times[:, 1], [state[:, 0] for state in states], [state[:, 1] for state in states], samples)[..., 0]


def _peak(row: np.ndarray) -> float:
    """The greatest value, by the parabola through the greatest sample and its neighbours."""
    at = min(max(int(row.argmax()), 1), len(row) - 2)
    before, here, after = row[at - 1 : at + 2]
    bend, slope = before - 2 * here + after, (after - before) / 2
    turn = -slope / bend if bend < 0 else np.inf
    return float(max(row.max(), here + slope * turn / 2 if abs(turn) < 1 else -np.inf))
