"""How exact the Triton kernels must be in float32 and half types, interpreted or on a device; see triton_checks.py."""

from __future__ import annotations

import pytest
import torch
from launch_cases import SCHEMES
from triton_launches import DEVICE, assert_matches, make_case

EACH_OF_STEPS = pytest.mark.parametrize("variant", [name for name in SCHEMES if name != "bspline"])
ORDERS = {"clique": 0, "clique_central": 0, "velocity": 1, "acceleration": 2, "jerk": 3}


def waves(time: torch.Tensor) -> list[torch.Tensor]:
    """Three joints that swing, and their derivatives at these times, `[H, 3]` each."""
    phase = torch.tensor([[0.3, 1.1, 2.0]], dtype=torch.float64)
    return [0.8 * 1.3**n * torch.sin(1.3 * time[:, None] + phase + n * torch.pi / 2) for n in range(4)]


def through_zero(time: torch.Tensor) -> list[torch.Tensor]:
    """Three joints that go from rest to rest and pass 0 between two rows, and their derivatives, `[H, 3]` each.

    Points are added that repeat the last row: a motion that did not rest there would have a jerk beside which nothing
    else is seen.
    """
    s, reach = time[:, None] / time[-1], torch.tensor([[1.0, 0.7, -0.4]], dtype=torch.float64)
    shape = [
        s**3 * (10 - 15 * s + 6 * s**2) - 0.37,
        30 * s**2 * (1 - s) ** 2,
        60 * s * (1 - s) * (1 - 2 * s),
        60 - 360 * s * (1 - s),
    ]
    return [reach * part / time[-1] ** order for order, part in enumerate(shape)]


@pytest.mark.parametrize("variant", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_lose_no_more_than_their_own_rounding(variant, dtype):
    case = make_case(variant, 3, 20, 7, dtype, start_form="pool int32")
    case.dt = 5 * case.dt + 0.5  # jerk stays below the 65504 of float16
    assert_matches(case, torch.finfo(dtype).eps)


@EACH_OF_STEPS
@pytest.mark.parametrize(
    ("motion", "steps", "step", "horizon"),
    [
        ("random", "step", 0.1, 100),
        ("around 2 rad", "step", 0.001, 100),
        ("through 0", "scalar", 0.005, 400),
    ],
)
def test_float32_is_within_2e_6_of_float64_arithmetic_on_the_same_inputs(variant, step, steps, motion, horizon):
    case = make_case(variant, 2, horizon, 3, torch.float32, dt_form=steps)
    case.dt = case.dt / case.dt.mean() * step
    if motion != "random":
        time = case.dt.expand(-1, horizon)[:, 1:].cumsum(1).cpu()
        time = torch.cat([torch.zeros(1, 1, dtype=torch.float64), time, time[:, -1:] + step], 1)[0]
        wave = through_zero(time) if motion == "through 0" else waves(time)
        wave[0] = wave[0] + (2 if motion == "around 2 rad" else 0)
        # Row 0 moves: its velocity and acceleration are those of the wave.
        case.action = wave[ORDERS[case.map]][1:].float().expand(2, -1, -1).to(DEVICE)
        case.start[:] = [row[:1].float().expand(2, -1).to(DEVICE) for row in wave[: len(case.start)]]
        rows = torch.linspace(0, 3, case.upstream[0].shape[1], dtype=torch.float64)[:, None]
        phase = torch.tensor([[0.3, 1.1, 2.0]], dtype=torch.float64)
        case.upstream = [torch.cos(rows + phase + i).float().expand(2, -1, -1).to(DEVICE) for i in range(4)]
    assert_matches(case, 2e-6)


@pytest.mark.parametrize("variant", ["acceleration zoh", "acceleration euler", "jerk"])
def test_float32_sums_of_long_motions_are_within_2e_6(variant):
    case = make_case(variant, 1, 700, 3, torch.float32)
    case.dt = torch.full_like(case.dt, 0.02)
    wave = waves(torch.arange(701, dtype=torch.float64) * 0.02)
    case.action = wave[ORDERS[case.map]][1:].float()[None].to(DEVICE)
    case.start[:] = [row[:1].float().to(DEVICE) for row in wave[: len(case.start)]]
    assert_matches(case, 2e-6)
