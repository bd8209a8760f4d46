"""Exact extremes of what a controller plays between points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.retiming.paths import played
from traj_integrator_ros.kernels.retime import MotionLimits, certify


@pytest.mark.parametrize("orders", [1, 2, 3])
def test_extremes_agree_with_dense_samples(orders: int) -> None:
    rng = np.random.default_rng(orders)
    times = np.cumsum(rng.uniform(0.01, 0.3, 12))
    states = [rng.normal(size=(12, 3)) * 10**k for k in range(orders)]
    found = certify(torch.tensor(times), *(torch.tensor(state)[None] for state in states))
    values = played(times, states, 40001)
    for order in range(4):
        for mine, sampled in ((found.lowest, values.min(axis=(1, 2))), (found.highest, values.max(axis=(1, 2)))):
            scale = np.abs(values[order]).max() + 1e-12
            assert np.abs(mine[0, order].numpy() - sampled[order]).max() <= 1e-8 * scale


def test_ratios_are_relative_to_the_limits_of_each_direction() -> None:
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    position, velocity = torch.tensor([[0.0], [0.5]]), torch.tensor([[0.0], [1.0]])  # p = t^2 / 2: acceleration 1
    found = certify(times, position.double(), velocity.double())
    ratio = found.ratios(MotionLimits(velocity=2.0, acceleration=4.0, deceleration=0.5, jerk=1.0))
    assert torch.allclose(ratio[0, :, 0], torch.tensor([0.5, 0.25, 0.0], dtype=torch.float64))
    found = certify(times, -position.double(), -velocity.double())
    assert found.ratios(MotionLimits(acceleration=4.0, deceleration=0.5))[0, 1, 0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"times": torch.tensor([0.0, 1.0, 1.0])}, "times: expected increasing times"),
        ({"times": torch.zeros(2)}, r"times: expected \[3\] or \[1, 3\]"),
        ({"position": torch.tensor([[0.0], [torch.nan], [1.0]])}, "position: expected finite numbers"),
        ({"acceleration": torch.zeros(3, 1)}, "velocity: expected a tensor with acceleration"),
        ({"velocity": torch.zeros(2, 1)}, r"velocity: expected \[1, 3, 1\]"),
        ({"position": torch.zeros(1, 1)}, "position: expected .* at least 2 points"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, torch.Tensor], told: str) -> None:
    arguments = {"times": torch.tensor([0.0, 1.0, 2.0]), "position": torch.zeros(3, 1), **change}
    with pytest.raises(ValueError, match=told):
        certify(**arguments)
