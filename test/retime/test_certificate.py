"""Exact extremes of what a controller plays between points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from traj_integrator_ros.kernels.retime import MotionLimits, certify


def played(times: np.ndarray, states: list[np.ndarray], samples: int) -> np.ndarray:
    """Position to jerk `[4, pieces, samples, D]` by Hermite polynomials of numpy."""
    h = np.diff(times)[:, None, None]
    e = np.linspace(0, 1, samples)[None, :, None]
    degree = 2 * len(states) - 1
    powers = np.arange(degree + 1)
    rows, right = [], []
    for order, state in enumerate(states):
        factor = np.array([np.prod([k - i for i in range(order)]) for k in powers], float)
        rows += [np.where(powers == order, factor, 0.0), factor]
        right += [state[:-1] * h[:, 0] ** order, state[1:] * h[:, 0] ** order]
    c = np.linalg.solve(np.array(rows), np.stack(right).reshape(degree + 1, -1)).reshape(
        degree + 1, len(times) - 1, 1, -1
    )
    values = []
    for order in range(4):
        total = np.zeros((len(times) - 1, samples, states[0].shape[1]))
        for k in range(order, degree + 1):
            factor = np.prod([k - i for i in range(order)])
            total = total + factor * c[k] * e ** (k - order) / h**order
        values.append(total)
    return np.stack(values)


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


def test_no_sample_of_many_random_pieces_exceeds_the_extremes() -> None:
    rng = np.random.default_rng(0)
    count = 20000
    times = np.tile([0.0, 1.0], (count, 1)) * rng.uniform(1e-3, 1, (count, 1))
    states = [rng.normal(size=(count, 2, 1)) * 10.0 ** rng.uniform(-3, 3, (count, 1, 1)) for _ in range(3)]
    found = certify(torch.tensor(times), *(torch.tensor(state) for state in states))
    h = times[:, 1][:, None]
    p0, p1, v0, v1, a0, a1 = (state[:, k] * h**order for order, state in enumerate(states) for k in range(2))
    p = p1 - p0
    third, fourth = 10 * p - 6 * v0 - 4 * v1 - 1.5 * a0 + 0.5 * a1, -15 * p + 8 * v0 + 7 * v1 + 1.5 * a0 - a1
    c = [p0, v0, a0 / 2, third, fourth, 6 * p - 3 * v0 - 3 * v1 - 0.5 * a0 + 0.5 * a1]
    e = np.linspace(0, 1, 101)[None]
    for order in range(4):
        values = (
            sum(np.prod([k - i for i in range(order)]) * c[k] * e ** (k - order) for k in range(order, 6)) / h**order
        )
        tolerance = 1e-9 * np.abs(values).max(axis=1)
        assert (values.max(axis=1) <= found.highest[:, order, 0].numpy() + tolerance).all()
        assert (values.min(axis=1) >= found.lowest[:, order, 0].numpy() - tolerance).all()


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
