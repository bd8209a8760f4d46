"""How exact the Triton kernels must be in float32 and half types, interpreted or on a device; see triton_checks.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from triton_launches import DEVICE, MAPS, ON_GPU, assert_matches, errors, expected, launch, make_case

from traj_integrator_ros.kernels.triton import chain

EACH_MAP = pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)


@EACH_MAP
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_lose_no_more_than_their_own_rounding(kernel, dtype):
    case = make_case(kernel, 3, 20, 7, dtype, start="pool int32")
    case.dt = case.dt.clamp(min=0.5)  # jerk stays below the 65504 of float16
    assert_matches(kernel, case, torch.finfo(dtype).eps)


@EACH_MAP
@pytest.mark.parametrize(
    ("motion", "steps", "step"),
    [
        ("random", "per step", 0.1),
        ("around 2 rad", "per step", 0.001),
        ("through 0", "scalar", 0.02),
    ],
)
def test_float32_is_within_2e_6_of_float64_arithmetic_on_the_same_inputs(kernel, step, steps, motion):
    horizon = 100
    case = make_case(kernel, 2, horizon, 3, torch.float32, dt=steps)
    case.dt = case.dt / case.dt.mean() * step if case.dt.shape[1] > 1 else torch.full_like(case.dt, step)
    if motion != "random":
        time = case.dt.expand(-1, horizon)[:, 1:].cumsum(1).cpu()
        time = torch.cat([torch.zeros(1, 1, dtype=torch.float64), time, time[:, -1:] + step], 1)[0, :, None]
        phase = torch.tensor([[0.3, 1.1, 2.0]], dtype=torch.float64)
        wave = [0.8 * 1.3**n * torch.sin(1.3 * time + phase + n * torch.pi / 2) for n in range(4)]
        wave[0] = wave[0] + (2 if motion == "around 2 rad" else 0)
        order = {"clique": 0, "velocity": 1, "acceleration": 2, "jerk": 3}[kernel.reference.__name__.split("_")[0]]
        # Row 0 moves: its velocity and acceleration are those of the wave.
        case.action = wave[order][1:].float().expand(2, -1, -1).to(DEVICE)
        case.start = [wave[n][:1].float().expand(2, -1).to(DEVICE) for n in range(kernel.starts)]
        rows = torch.linspace(0, 3, kernel.output_horizon(horizon), dtype=torch.float64)[:, None]
        case.upstream = [torch.cos(rows + phase + i).float().expand(2, -1, -1).to(DEVICE) for i in range(4)]
    forward, gradients = launch(kernel, case)
    wanted_forward, wanted_gradients = expected(kernel, case)
    assert max(errors(forward, wanted_forward)) <= 2e-6
    assert max(errors(gradients, wanted_gradients)) <= 2e-6


@pytest.mark.parametrize(
    ("name", "fast_double"),
    [("acceleration_zoh", True), ("acceleration_semi_implicit_euler", True), ("jerk", True), ("jerk", False)],
)
def test_float32_sums_of_long_motions_are_within_2e_6_with_and_without_float64(name, fast_double, monkeypatch):
    monkeypatch.setattr(chain, "has_fast_double", lambda device: fast_double)
    kernel, step, horizon = MAPS[name], 0.02, 700
    case = make_case(kernel, 1, horizon, 3, torch.float32)
    case.dt = torch.full_like(case.dt, step)
    time = torch.arange(horizon + 1, dtype=torch.float64)[:, None] * step
    phase = torch.tensor([[0.3, 1.1, 2.0]], dtype=torch.float64)
    wave = [0.8 * 1.3**n * torch.sin(1.3 * time + phase + n * torch.pi / 2) for n in range(4)]
    order = {"velocity": 1, "acceleration": 2, "jerk": 3}[name.split("_")[0]]
    case.action = wave[order][1:].float()[None].to(DEVICE)
    case.start = [wave[n][:1].float().to(DEVICE) for n in range(kernel.starts)]
    forward, gradients = launch(kernel, case)
    wanted_forward, wanted_gradients = expected(kernel, case)
    assert max(errors(forward, wanted_forward)) <= 2e-6
    assert max(errors(gradients, wanted_gradients)) <= 2e-6


@pytest.mark.parametrize("name", ["acceleration_zoh", "acceleration_semi_implicit_euler", "jerk"])
def test_sums_in_pairs_of_float32_are_as_exact_as_those_in_float64(name, monkeypatch):
    kernel, horizon = MAPS[name], 200
    if not ON_GPU:
        fuse_in_the_interpreter(monkeypatch)
    case = make_case(kernel, 1, horizon, 3, torch.float32)
    case.dt = torch.full_like(case.dt, 0.02)
    case.action = 1 + torch.rand(case.action.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    found = []
    for fast_double in (True, False):
        monkeypatch.setattr(chain, "has_fast_double", lambda device, fast_double=fast_double: fast_double)
        forward, _ = launch(kernel, case)
        found.append(max(errors(forward, expected(kernel, case)[0])))
    assert found[1] <= 1.01 * found[0]


def fuse_in_the_interpreter(monkeypatch) -> None:
    """Multiply and add with one rounding, as devices do; the interpreter rounds twice."""
    from triton.runtime import interpreter

    def fused(builder: object, x: object, y: object, z: object) -> object:
        exact = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data
        return interpreter.TensorHandle(exact.astype(z.data.dtype), z.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_fma", fused)
