"""The certificate on random pieces: compared with samples, whose extremes it must not undercut."""

from __future__ import annotations

import numpy as np
import torch

from traj_integrator_ros.kernels.retime import certify

from .paths import between

_AT_ONCE = 260_000
"""Samples."""
ROUNDING = 1e-9
"""Of the largest value that a polynomial has on its piece."""


def against_samples(count: int, seed: int, samples: int) -> tuple[int, float]:
    """How many of random pieces have a sample beyond their certificate, and by how much the two differ at most.

    Spans are up to 1 s, the sizes of one to three states over six decades. Differences are relative to the size; a
    sample next to a turn misses it, and its neighbours tell by how much.
    """
    rng, beyond, apart = np.random.default_rng(seed), 0, 0.0
    each = max(1, _AT_ONCE // samples)
    for first in range(0, count, each):
        pieces, orders = min(each, count - first), int(rng.integers(1, 4))
        times = rng.uniform(1e-3, 1, (pieces, 1)) * [0.0, 1.0]
        states = [rng.normal(size=(pieces, 2, 1)) * 10 ** rng.uniform(-3, 3, (pieces, 1, 1)) for _ in range(orders)]
        told = certify(*(torch.tensor(part) for part in (times, *states)))
        values = between(times[:, 1], [x[:, 0] for x in states], [x[:, 1] for x in states], samples)[..., 0]
        size = np.abs(values).max(axis=2) + 1e-300
        is_beyond = np.zeros(pieces, bool)
        for sign, said in ((1, told.highest), (-1, -told.lowest)):
            most = said[:, :, 0].numpy().T
            is_beyond |= ((sign * values).max(axis=2) > most + ROUNDING * size).any(axis=0)
            apart = max(apart, float((np.abs(_peaks(sign * values) - most) / size).max()))
        beyond += int(is_beyond.sum())
    return beyond, apart


def _peaks(values: np.ndarray) -> np.ndarray:
    """The greatest values of rows `[.., samples]`, by parabolas through the greatest samples and their neighbours."""
    at = np.clip(values.argmax(axis=-1), 1, values.shape[-1] - 2)[..., None]
    before, here, after = (np.take_along_axis(values, at + step, -1)[..., 0] for step in (-1, 0, 1))
    bend, slope = before - 2 * here + after, (after - before) / 2
    turn = -slope / np.where(bend < 0, bend, np.inf)
    return np.maximum(values.max(axis=-1), np.where(np.abs(turn) < 1, here + slope * turn / 2, -np.inf))
