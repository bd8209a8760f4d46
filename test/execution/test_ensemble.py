"""Temporal ensembling against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from traj_integrator_ros.execution.ensemble import ensemble, ensemble_weights


def test_weights_are_those_of_act():
    weights = ensemble_weights(3, 0.5)
    np.testing.assert_allclose(weights, np.exp([0, -0.5, -1]) / np.exp([0, -0.5, -1]).sum())
    np.testing.assert_allclose(ensemble_weights(3, 0.5, newest_first=True), weights[::-1])
    np.testing.assert_allclose(ensemble_weights(4, 0.0), np.full(4, 0.25))


@pytest.mark.parametrize("newest_first", [False, True])
def test_every_time_is_the_average_of_the_chunks_that_cover_it(newest_first):
    random = np.random.default_rng(0)
    chunks = [random.normal(size=(5, 2)) for _ in range(3)]
    chunks[0][3:] = np.nan  # the oldest ends first
    chunks[1][4:] = np.nan
    averaged = ensemble(chunks, 0.3, newest_first=newest_first)
    for row, members in enumerate([[0, 1, 2]] * 3 + [[1, 2], [2]]):
        weights = ensemble_weights(len(members), 0.3, newest_first=newest_first)
        expected = sum(weight * chunks[member][row] for weight, member in zip(weights, members, strict=True))
        np.testing.assert_allclose(averaged[row], expected, rtol=1e-12)


def test_chunks_that_agree_are_what_they_agree_on():
    plan = np.random.default_rng(1).normal(size=(4, 3))
    np.testing.assert_allclose(ensemble([plan, plan, plan], 0.01), plan)
