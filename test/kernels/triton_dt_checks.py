"""The gradient of dt by one kernel, against the compositions of the reference; see `triton_checks`."""

from __future__ import annotations

import pytest
import torch
from triton_launches import DEVICE, MAPS, make_case

from traj_integrator_ros.kernels import MAPS as PUBLIC_MAPS
from traj_integrator_ros.kernels import dt_derivatives, reference_backend
from traj_integrator_ros.kernels.triton.dt_gradient import dt_gradient
from traj_integrator_ros.kernels.types import End

NAMES = [name for name in MAPS if name != "clique_central_truncated"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((2, 9, 2), {"dt": "scalar", "start": "rows"}),
        ((2, 20, 5), {"dt": "per step and trajectory", "start": "pool int32", "dt_dtype": torch.float32}),
        ((2, 9, 3), {"dt": "per step", "start": "one", "absent_starts": (1,), "absent_upstream": (1, 2)}),
        ((2, 5, 33), {"dt": "per trajectory", "dtype": torch.float32, "absent_starts": (2,), "absent_upstream": (0,)}),
        ((1, 2, 1), {"dt": "per trajectory", "absent_upstream": (0, 1, 2), "strided": True}),
        ((2, 1, 2), {"dt": "scalar", "dtype": torch.float16}),
        ((0, 3, 2), {"dt": "scalar"}),
    ],
)
def test_it_is_that_of_the_reference(name, size, options):
    kernel = MAPS[name]
    case = make_case(kernel, *size, **options)
    operator = PUBLIC_MAPS[name].operator.name
    ends = [End(case.start, case.start_index)]
    got = dt_gradient(operator, case.upstream, case.action, ends, case.dt, **kernel.scheme)
    wide = [None if gradient is None else gradient.double() for gradient in case.upstream]
    wanted = reference_backend.dt_gradient(
        operator, tuple(wide), case.action, ends, case.dt.double()[..., None], **kernel.scheme
    )
    wanted = torch.zeros_like(case.dt) if wanted is None else wanted
    for dim in (0, 1):
        if case.dt.shape[dim] == 1:
            wanted = wanted.sum(dim, keepdim=True)
    assert got.dtype == torch.float64
    assert got.shape == case.dt.shape
    assert float((got - wanted).norm()) <= 1e-12 * max(float(wanted.norm()), 1.0)
    assert torch.equal(got, dt_gradient(operator, case.upstream, case.action, ends, case.dt, **kernel.scheme))


@pytest.mark.parametrize("name", ["clique", "jerk"])
def test_the_public_functions_take_it_unless_it_is_differentiated_again(name, monkeypatch):
    kernel, calls = PUBLIC_MAPS[name], []
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
