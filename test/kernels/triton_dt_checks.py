"""The gradient of dt by one kernel, against the compositions of the reference; see `triton_checks`."""

from __future__ import annotations

import pytest
import torch
from launch_cases import SCHEMES, assert_close
from triton_launches import DEVICE, make_case

from traj_integrator_ros.kernels import MAPS, dt_derivatives, reference_backend
from traj_integrator_ros.kernels.triton import dt_gradient
from traj_integrator_ros.kernels.types import End


@pytest.mark.parametrize("variant", [name for name in SCHEMES if name != "bspline"])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((2, 9, 2), {}),
        ((2, 20, 5), {"dt_form": "both", "start_form": "pool int32", "dt_dtype": torch.float32}),
        ((2, 9, 3), {"dt_form": "step", "start_form": "one", "absent_rows": (1,), "absent_upstream": (1, 2)}),
        ((2, 5, 33), {"dt_form": "trajectory", "dtype": torch.float32, "absent_rows": (2,), "absent_upstream": (0,)}),
        ((1, 2, 1), {"dt_form": "trajectory", "absent_upstream": (0, 1, 2), "strided": True}),
        ((2, 1, 2), {"dtype": torch.float16}),
        ((0, 3, 2), {}),
    ],
)
def test_it_is_that_of_the_reference(variant, size, options):
    case = make_case(variant, *size, **options)
    got = case.dt_gradient(dt_gradient)
    assert got.dtype == torch.float64
    assert_close(got, case.expected_dt_gradient(), 1e-12)
    assert torch.equal(got, case.dt_gradient(dt_gradient))


@pytest.mark.parametrize("name", ["clique", "jerk"])
def test_the_public_functions_take_it_unless_it_is_differentiated_again(name, monkeypatch):
    kernel, calls = MAPS[name], []
    composed_by = reference_backend.dt_gradient

    def counted(*arguments, **scheme):
        calls.append(1)
        return composed_by(*arguments, **scheme)

    monkeypatch.setattr(reference_backend, "dt_gradient", counted)
    generator = torch.Generator().manual_seed(0)
    action = torch.randn(2, 4, 2, generator=generator, dtype=torch.float64).to(DEVICE)
    start = torch.randn(1, 2, generator=generator, dtype=torch.float64).to(DEVICE)

    def gradient(backend, create_graph):
        dt = torch.full((4,), 0.3, dtype=torch.float64, device=DEVICE, requires_grad=True)
        cost = kernel.step(action, start, dt=dt, backend=backend).position.square().sum()
        cost = cost + kernel.step(action, start, dt=dt, backend=backend).jerk.square().sum()
        (first,) = torch.autograd.grad(cost, dt, create_graph=create_graph)
        return (first, *torch.autograd.grad(first.square().sum(), dt)) if create_graph else (first,)

    composed = gradient("reference", True)
    calls.clear()
    torch.testing.assert_close(gradient("triton", False), composed[:1])
    assert not calls
    torch.testing.assert_close(gradient("triton", True), composed)
    assert calls


def test_splines_and_absent_gradients_are_left_to_the_reference():
    assert dt_derivatives.vjp(
        "velocity",
        torch.zeros(1, 3, 2, device=DEVICE),
        [End([torch.zeros(1, 2, device=DEVICE), None, None], None)],
        torch.ones(1, 1, device=DEVICE),
        [None] * 4,
        {},
        "triton",
    ).tolist() == [[0.0]]
