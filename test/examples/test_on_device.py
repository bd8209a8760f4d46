"""Sampling and descent on a device: the plans are good, and nothing but a start, a goal and a plan crosses the bus."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from kit.fake_cuda import devices_of_loops
from traj_integrator_ros.kernels import Backend, default_backend, quadratic_cost

DOF = 7
START, GOAL = np.zeros((2, DOF)), np.full(DOF, 0.3)

pytestmark = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)


@pytest.fixture
def on_device(project_root, monkeypatch):
    monkeypatch.syspath_prepend(str(project_root / "examples"))
    torch.manual_seed(0)
    yield __import__("on_device")
    del sys.modules["on_device"]


def exact_cost(on_device, plan: torch.Tensor) -> float:
    rows = torch.from_numpy(START)[:, None]
    cost = on_device.cost_of(torch.from_numpy(GOAL))
    return float(quadratic_cost(plan.double()[None], *rows, cost=cost, control_map="velocity", dt=on_device.STEP))


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_plans_become_better_and_cost_what_is_said(on_device, device):
    with devices_of_loops():
        sampler, descent = (made(DOF, 64, device) for made in (on_device.Sampler, on_device.Descent))
        first = sampler.improve(START, GOAL)
        for _ in range(10):
            before = sampler.velocities
            last = sampler.improve(START, GOAL)
        least, plan = descent.optimize(START, GOAL)
    assert last < 0.7 * first and least < 0.7 * first
    assert last == pytest.approx(exact_cost(on_device, before), rel=1e-4)
    assert least == pytest.approx(exact_cost(on_device, plan), rel=1e-4)


@pytest.mark.parametrize("batch", [16, 256])
def test_what_crosses_the_bus_does_not_depend_on_the_batch(on_device, batch):
    answer, asked = 4 * (1 + on_device.HORIZON * DOF), 4 * 3 * DOF
    with devices_of_loops() as cuda:
        sampler, descent = (made(DOF, batch, "cuda:0") for made in (on_device.Sampler, on_device.Descent))
        for run, calls in ((lambda: sampler.improve(START, GOAL), 1), (lambda: descent.optimize(START, GOAL, 5), 6)):
            before = cuda.copied_in, cuda.copied_out
            run()
            assert cuda.copied_out - before[1] == answer
            assert asked <= cuda.copied_in - before[0] <= asked + 64 * calls  # and numbers of the cost
